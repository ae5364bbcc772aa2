"""The settings of a run: each setting is declared once, at the field that it sets, with its key in files and its "
"default"

Fields without a `Setting` are computed. The other sections are classes of the packages that use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from teamwright.agent.activity_monitor import STALLED_AFTER_S
from teamwright.agent.compaction_state import CompactSettings
from teamwright.agent.spawn_limits import SpawnSettings
from teamwright.backends.settings import BackendSettings
from teamwright.hooks.hook_definitions import EVENTS, HookSpec
from teamwright.models.effort import Effort
from teamwright.permissions.rules import Rule
from teamwright.permissions.verdict import Mode
from teamwright.protocol.secret_texts import repr_without
from teamwright.protocol.setting_types import (
    Amount,
    Count,
    Positive,
    Seconds,
    Setting,
    Switch,
    Table,
    Text,
    Texts,
    Variables,
)
from teamwright.protocol.usage import NO_CAPS, Budget
from teamwright.sandbox.policy import SandboxSettings
from teamwright.subagents.subagent_settings import SubagentSettings
from teamwright.teams.team import TeamSettings
from teamwright.tools.shell.bash_settings import BashSettings


class WebSearchSettings(Struct, frozen=True):
    """The ways to search; empty for none."""

    service: Annotated[
        Literal["auto", "on", "off"],
        Setting(
            "web_search.service",
            "Whether the service of the model searches the web. auto: at the vendor's own address of Anthropic.",
            user_only=True,
        ),
    ] = "auto"
    command: Annotated[
        Text,
        Setting(
            "web_search.command",
            "A shell command that gets a search as JSON on its stdin and prints what it found.",
            user_only=True,
        ),
    ] = ""
    tool: Annotated[
        Text,
        Setting(
            "web_search.tool", "The tool of an MCP server that searches the web: mcp__SERVER__TOOL.", user_only=True
        ),
    ] = ""


class SideCallSettings(Struct, frozen=True):
    """Model calls beside the agents' work that no person asks for, and their caps."""

    prompt_suggestion: Annotated[
        Switch,
        Setting(
            "side_calls.prompt_suggestion",
            "Whether the terminal suggests your next line after a turn. Each time costs a read of the lead's cached "
            "conversation, and up to 60 tokens of answer.",
            user_only=True,
        ),
    ] = False
    max_calls: Annotated[
        Positive,
        Setting("side_calls.max_calls", "The most side calls of a session that you do not ask for.", user_only=True),
    ] = 200
    max_usd: Annotated[
        Amount,
        Setting("side_calls.max_usd", "US dollars that these side calls of a session may cost.", user_only=True),
    ] = 1.0


class NotifySettings(Struct, frozen=True):
    """The ways to notify; empty for none."""

    terminal: Annotated[
        Literal["auto", "bell", "osc9", "osc777", "off"],
        Setting(
            "notify.terminal",
            "The terminal's signal when a request waits or the team is done, and its window has no focus. auto: a "
            "notification where the terminal is known to show one, else the bell.",
        ),
    ] = "auto"
    command: Annotated[
        Text,
        Setting(
            "notify.command",
            "A shell command that gets each notification as JSON on its stdin; none by default.",
            user_only=True,
        ),
    ] = ""
    webhook: Annotated[
        Text, Setting("notify.webhook", "The URL to which each notification is sent; none by default.", user_only=True)
    ] = ""
    format: Annotated[
        Literal["auto", "json", "ntfy"],
        Setting(
            "notify.format",
            "The body for the webhook: json (Slack), or ntfy. auto: ntfy for a host whose name begins with ntfy.",
        ),
    ] = "auto"


class CheckSettings(Struct, frozen=True):
    """The check of all tasks and its time limits; an empty command is none."""

    command: Annotated[
        Text, Setting("task_check", "A command that must succeed before any task is completed; none by default.")
    ] = ""
    timeout_s: Annotated[Seconds, Setting("task_check_timeout_s", "How long the check of a task may take.")] = 600.0
    grace_s: float = 2.0
    """Seconds that a check may take to exit after its timeout."""


class WorktreeSettings(Struct, frozen=True):
    """The settings of worktrees; an empty command is none."""

    setup: Annotated[
        Text,
        Setting(
            "worktrees.setup", "A command that prepares each new worktree of an agent; none by default.", user_only=True
        ),
    ] = ""
    setup_timeout_s: Annotated[
        Seconds, Setting("worktrees.setup_timeout_s", "How long the setup of a worktree may take.")
    ] = 600.0
    merge: Annotated[
        Literal["merge", "rebase", "squash"],
        Setting("worktrees.merge", "How the commits of a completed task are added to the integration branch."),
    ] = "merge"
    uncommitted: Annotated[
        Literal["commit", "refuse"],
        Setting(
            "worktrees.uncommitted",
            "Uncommitted files of a member's worktree when it completes a task: commit them, or refuse the completion.",
        ),
    ] = "commit"
    commit_hooks: Annotated[
        Switch,
        Setting(
            "worktrees.commit_hooks",
            "Whether these commits run the repository's hooks and are signed as git is set up; otherwise both are "
            "skipped.",
            user_only=True,
        ),
    ] = False
    max_file_mb: Annotated[
        Count,
        Setting(
            "worktrees.max_file_mb",
            "The largest file in MB that such a commit takes; a larger one refuses the completion. 0: any size.",
        ),
    ] = 5
    max_commit_mb: Annotated[
        Count,
        Setting(
            "worktrees.max_commit_mb", "The size in MB of all files that one such commit takes at most. 0: any size."
        ),
    ] = 50
    check: Annotated[
        Text,
        Setting(
            "checks.integration",
            "A command that must succeed on each merge before the integration branch moves; none by default.",
            user_only=True,
        ),
    ] = ""
    check_timeout_s: Annotated[
        Seconds, Setting("checks.integration_timeout_s", "How long the check of a merge may take.")
    ] = 600.0


EXTERNAL_START_S = 60.0


class ExternalCommand(Struct, frozen=True):
    """One program. `argv` begins with its name or path, `env` is added to its environment; both may contain `${VAR}`.

    `root` is the state root whose files it reads; empty means the one of its environment, or its default. `start_s` is
    the time in seconds until it must have read its first prompt.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return repr_without(self, "env")

    root: str = ""
    start_s: float = EXTERNAL_START_S


class ExternalCommandSettings(Struct, frozen=True):
    """The other programs that may run teammates, and the one that runs them by default."""

    commands: Annotated[
        Mapping[str, ExternalCommand],
        Setting(
            "members.commands",
            "Other programs that may run members, by name: argv, env, root, start_s.",
            value_type=Table,
            user_only=True,
        ),
    ] = field(default_factory=dict[str, ExternalCommand])
    usual: Annotated[
        Text,
        Setting(
            "members.command",
            "The name in members.commands of the program that runs members; none: Teamwright runs them.",
            user_only=True,
        ),
    ] = ""


class ServerEntry(Struct, frozen=True):
    """One entry as written. `foreign`: it comes from a repository, so it receives none of our credentials.

    `root` is the repository that you work in, also for an entry of your own settings.
    """

    name: str
    entry: Any
    source: str
    rank: int
    foreign: bool
    root: Path


class McpSettings(Struct, frozen=True):
    """The merged settings of MCP servers."""

    servers: Annotated[
        tuple[ServerEntry, ...],
        Setting("mcpServers", "MCP servers by name, as in .mcp.json.", value_type=Table),
        Setting(
            "enableAllProjectMcpServers",
            "false: only the servers of .mcp.json that enabledMcpjsonServers names are used.",
            value_type=Switch,
        ),
        Setting(
            "enabledMcpjsonServers",
            "Servers of .mcp.json that are used if enableAllProjectMcpServers is false.",
            value_type=Texts,
        ),
        Setting("disabledMcpjsonServers", "Servers of .mcp.json that are left out.", value_type=Texts, narrows=True),
    ] = ()
    start_s: Annotated[Seconds, Setting("mcp.start_s", "How long an MCP server may take until it can be called.")] = (
        30.0
    )
    wait_s: Annotated[
        Seconds, Setting("mcp.wait_s", "How long the first agent waits for MCP servers without a stored tool list.")
    ] = 3.0
    call_s: Annotated[
        Seconds, Setting("mcp.call_s", "How long a call of an MCP server may last without a sign of progress.")
    ] = 600.0
    sampling: Annotated[
        Switch,
        Setting(
            "mcp.sampling",
            "true: MCP servers may ask for answers of your model; each request is asked about.",
            user_only=True,
        ),
    ] = False
    sampling_calls: Annotated[
        Count, Setting("mcp.sampling_calls", "The largest number of such answers in a session.", user_only=True)
    ] = 20
    tools: Annotated[
        Count,
        Setting(
            "mcp.prefix_tools",
            "The largest number of MCP tools in an agent's list; other tools are found with ToolSearch.",
        ),
    ] = 40
    size: Annotated[Count, Setting("mcp.prefix_bytes", "The largest size of these tools in bytes.")] = 24_000


class SettingFlags(Struct, frozen=True):
    """The flags of this run; None and empty mean not given. `only_allowed`: files allow nothing.

    `settings_file` is a file or JSON text. Only files of `setting_sources` are read (None: all): user, project, local.
    """

    model: str | None = None
    effort: Effort | None = None
    thinking: str | None = None
    permission_mode: str | None = None
    plan_approval: str | None = None
    backend: str | None = None
    markdown: bool | None = None
    plain_terminal: bool | None = None
    sandbox: str | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    asked_tools: tuple[str, ...] = ()
    only_allowed: bool = False
    add_dirs: tuple[Path, ...] = ()
    settings_file: Path | str | None = None
    setting_sources: tuple[str, ...] | None = None


class Settings(Struct, frozen=True):
    """The settings in use. `origins` names the file or flag of each value that is not a default.

    `delegates`: the lead only coordinates; `mode` is then the mode that its members follow. `directories` are real
    paths. `models` contains the keys of the models' settings as written. `skills_off` are lower-case names. `warnings`
    are lines for people about entries that are left out. `files` counts the settings files that were read.
    """

    teams: Annotated[Switch, Setting("teams", "Whether agents may form teams.")] = True
    env: Annotated[
        Mapping[str, str], Setting("env", "Variables for commands that agents run.", value_type=Variables)
    ] = field(default_factory=dict[str, str])
    person_env: Mapping[str, str] = field(default_factory=dict[str, str])
    """The part of `env` that no repository set: programs outside of the sandbox get it as it is."""
    hooks: Annotated[
        tuple[HookSpec, ...],
        Setting(
            "hooks",
            "Hooks that run at events.",
            value_type=Annotated[Table, Meta(extra_json_schema={"propertyNames": {"enum": list(EVENTS)}})],
        ),
    ] = ()
    hooks_off: Annotated[Switch, Setting("disableAllHooks", "Whether no hook runs at all.")] = False
    hook_urls: (
        Annotated[
            tuple[str, ...],
            Setting(
                "allowedHttpHookUrls",
                "The only addresses that http hooks may use, with * for any text; all without this key. A repository "
                "only adds to a list of yours.",
                value_type=Texts,
            ),
        ]
        | None
    ) = None
    hook_variables: (
        Annotated[
            tuple[str, ...],
            Setting(
                "httpHookAllowedEnvVars",
                "The only variables that headers of http hooks may contain, of those that a hook lists. A repository "
                "only adds to a list of yours.",
                value_type=Texts,
            ),
        ]
        | None
    ) = None
    lead_type: Annotated[
        Text, Setting("agent", "The agent type of the lead in new sessions; none by default. --agent wins.")
    ] = ""
    output_style: Annotated[
        Text, Setting("outputStyle", "The output style whose text the lead's prompt gets; none by default.")
    ] = ""
    status_line: Annotated[
        Mapping[str, Any],
        Setting(
            "statusLine",
            "A command whose output the terminal shows as rows: command, padding, refreshInterval (seconds).",
            value_type=Table,
        ),
    ] = field(default_factory=dict[str, Any])
    skills: Annotated[
        Switch, Setting("skills.enabled", "Whether skills and slash commands of files are used.", user_only=True)
    ] = True
    skills_off: Annotated[
        frozenset[str],
        Setting("skills.disabled", "Names of skills and slash commands that are left out.", value_type=Texts),
    ] = frozenset()
    rules: Annotated[
        tuple[Rule, ...],
        Setting("permissions.allow", "Rules for calls that run without a question.", value_type=Texts),
        Setting("permissions.ask", "Rules for calls that ask.", value_type=Texts, narrows=True),
        Setting("permissions.deny", "Rules for calls that never run.", value_type=Texts, narrows=True),
    ] = ()
    directories: Annotated[
        tuple[Path, ...],
        Setting("permissions.additionalDirectories", "Further directories that agents may use.", value_type=Texts),
    ] = ()
    mode: Annotated[Mode, Setting("permissions.defaultMode", "The permission mode at the start.", value_type=Text)] = (
        Mode.DEFAULT
    )
    delegates: bool = False
    lead_answers: Annotated[
        Switch,
        Setting(
            "permissions.leadAnswers",
            "Whether the lead may answer permission requests of its members instead of the user.",
            user_only=True,
        ),
    ] = False
    plan_approval: Annotated[
        Literal["lead", "human", "auto"], Setting("plan_approval", "The approver of members' plans.", user_only=True)
    ] = "lead"
    places: BackendSettings = field(default_factory=BackendSettings)
    commands: ExternalCommandSettings = field(default_factory=ExternalCommandSettings)
    limits: SpawnSettings = field(default_factory=SpawnSettings)
    run_defaults: Annotated[
        Budget,
        Setting(
            "budget.run.usd",
            "US dollars that a headless run may spend without `--max-budget-usd`: 20. At a terminal this is a mark.",
            value_type=Amount,
            user_only=True,
        ),
        Setting(
            "budget.run.tokens",
            "Tokens that a headless run may use without `--max-tokens`: 5,000,000. At a terminal this is a mark.",
            value_type=Positive,
            user_only=True,
        ),
        Setting(
            "budget.run.turns",
            "Model calls of the lead in a headless run without `--max-turns`: 200. At a terminal this is a mark.",
            value_type=Positive,
            user_only=True,
        ),
        Setting(
            "budget.run.minutes",
            "Minutes that a headless run may take without `--timeout`: 120. At a terminal this is a mark.",
            value_type=Amount,
            user_only=True,
        ),
    ] = NO_CAPS
    each: Annotated[
        Budget,
        Setting("budget.agent.usd", "US dollars that one member or sub-agent may spend.", value_type=Amount),
        Setting("budget.agent.tokens", "Tokens that one member or sub-agent may use, in and out.", value_type=Positive),
        Setting("budget.agent.turns", "Model calls that one member or sub-agent may make.", value_type=Positive),
        Setting("budget.agent.calls", "Tool calls that one member or sub-agent may make.", value_type=Positive),
        Setting("budget.agent.minutes", "Minutes that one member or sub-agent may work.", value_type=Amount),
    ] = NO_CAPS
    bash: BashSettings = field(default_factory=BashSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    ask_timeout_s: Annotated[
        Seconds | None,
        Setting("ask_timeout_s", "How long a request waits for an answer; null: without a limit at a terminal."),
    ] = None
    unattended_requests: Annotated[
        Literal["wait", "deny"],
        Setting("unattended_requests", "Requests without a person at a terminal: wait, or deny."),
    ] = "deny"
    team: TeamSettings = field(default_factory=TeamSettings)
    worktrees: WorktreeSettings = field(default_factory=WorktreeSettings)
    check: CheckSettings = field(default_factory=CheckSettings)
    git_trailer: Annotated[Text, Setting("git_trailer", "The last line of each commit message; none by default.")] = ""
    markdown: Annotated[
        Switch, Setting("markdown", "Whether a terminal shows Markdown as headings, lists, tables and coloured code.")
    ] = True
    plain_terminal: Annotated[
        Switch,
        Setting(
            "terminal.plain",
            "Whether a terminal gets text alone, in order and without colours, as screen readers need it.",
        ),
    ] = False
    notify: NotifySettings = field(default_factory=NotifySettings)
    web_search: WebSearchSettings = field(default_factory=WebSearchSettings)
    side_calls: SideCallSettings = field(default_factory=SideCallSettings)
    models: Mapping[str, Any] = field(default_factory=dict[str, Any])
    agents: SubagentSettings = field(default_factory=SubagentSettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    compact: CompactSettings = field(default_factory=CompactSettings)
    stalled_after_s: Annotated[
        Seconds,
        Setting("stalled_after_s", "How long a working member may make no progress before it is shown as stalled."),
    ] = STALLED_AFTER_S
    retention_days: Annotated[
        Count,
        Setting("retention_days", "How long archived teams and old sessions are kept, in days; 0: without a limit."),
    ] = 30
    database: Annotated[
        Text,
        Setting(
            "database",
            "The PostgreSQL database that contains team state: postgresql://HOST/NAME; without it state is in files.",
            user_only=True,
        ),
    ] = ""
    database_durable_mail: Annotated[
        Switch,
        Setting(
            "database_durable_mail",
            "Whether a message in a database survives a crash of the server's machine; slower.",
            user_only=True,
        ),
    ] = False
    otel: Annotated[
        Switch,
        Setting(
            "otel",
            "Whether spans and metrics of a session go to the receiver that OTEL_EXPORTER_OTLP_ENDPOINT names.",
            user_only=True,
        ),
    ] = False
    compat: Annotated[
        Switch, Setting("compat.claude", "Whether files of the other product are read.", user_only=True)
    ] = True
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    files: int = 0
