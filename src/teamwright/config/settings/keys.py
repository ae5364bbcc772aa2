"""The table of settings: the name of each in a file, its type, its meaning, and the field of `Settings` that it sets.

The documentation, the JSON Schema and all readers and writers of settings files use this table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.models.effort import EXPECTED_TEXT as EFFORTS
from teamwright.models.effort import is_effort


class SettingKey(Struct, frozen=True):
    """A setting: what it must be, whether only a person's own files may hold it, and a sentence.

    `words` are the only texts that a `word` may be.
    """

    kind: str
    meaning: str
    user_only: bool = False
    words: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        """The required type of a value, in words."""
        return join_words(self.words) if self.words else EXPECTED[self.kind]

    def fits(self, value: Any) -> bool:
        """Return True when the setting may have this value."""
        return value in self.words if self.words else fits(self.kind, value)


def join_words(words: Sequence[str]) -> str:
    """Return the words as a list for people: `a`, `a or b`, `a, b or c`."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


KEYS: dict[str, SettingKey] = {
    "model": SettingKey("text", "The model that is used when none is named."),
    "effort": SettingKey(
        "effort", "Thinking effort of the lead and of the agents that it starts: a level, or a budget in tokens."
    ),
    "teams": SettingKey("bool", "Whether agents may form teams."),
    "env": SettingKey("env", "Variables for commands that agents run."),
    "hooks": SettingKey("map", "Hooks that run at events."),
    "agent": SettingKey("text", "The agent type of the lead in new sessions; none by default. --agent wins."),
    "outputStyle": SettingKey("text", "The output style whose text the lead's prompt gets; none by default."),
    "statusLine": SettingKey(
        "map", "A command whose output the terminal shows as rows: command, padding, refreshInterval (seconds)."
    ),
    "disableAllHooks": SettingKey("bool", "Whether no hook runs at all."),
    "allowedHttpHookUrls": SettingKey(
        "texts",
        "The only addresses that http hooks may use, with * for any text; all without this key. "
        "A repository only adds to a list of yours.",
    ),
    "httpHookAllowedEnvVars": SettingKey(
        "texts",
        "The only variables that headers of http hooks may contain, of those that a hook lists. "
        "A repository only adds to a list of yours.",
    ),
    "skills.enabled": SettingKey("bool", "Whether skills and slash commands of files are used.", user_only=True),
    "skills.disabled": SettingKey("texts", "Names of skills and slash commands that are left out."),
    "permissions.allow": SettingKey("texts", "Rules for calls that run without a question."),
    "permissions.ask": SettingKey("texts", "Rules for calls that ask."),
    "permissions.deny": SettingKey("texts", "Rules for calls that never run."),
    "permissions.additionalDirectories": SettingKey("texts", "Further directories that agents may use."),
    "permissions.defaultMode": SettingKey("text", "The permission mode at the start."),
    "permissions.leadAnswers": SettingKey(
        "bool", "Whether the lead may answer permission requests of its members instead of the user.", user_only=True
    ),
    "plan_approval": SettingKey(
        "word", "The approver of members' plans.", user_only=True, words=("lead", "human", "auto")
    ),
    "members.backend": SettingKey(
        "text", "Where members run: auto, in-process, tmux, detached, remote, or an adapter's name.", user_only=True
    ),
    "members.pane_layout": SettingKey(
        "word",
        "Members in tmux: split, next to the lead; window, in a separate window.",
        user_only=True,
        words=("split", "window"),
    ),
    "members.lead_share": SettingKey("share", "The lead's share of the width of its pane, with split.", user_only=True),
    "members.adapters": SettingKey(
        "map", "Terminal adapters by name: the commands that drive a terminal program.", user_only=True
    ),
    "members.orphan_timeout_s": SettingKey(
        "seconds", "How long a member process continues after the end of its lead.", user_only=True
    ),
    "members.commands": SettingKey(
        "map", "Other programs that may run members, by name: argv, env, root, start_s.", user_only=True
    ),
    "members.command": SettingKey(
        "text",
        "The name in members.commands of the program that runs members; none: Teamwright runs them.",
        user_only=True,
    ),
    "limits.members": SettingKey("count", "Live teammates at the same time."),
    "limits.spawns": SettingKey("count", "Agents started in one run."),
    "limits.spawns_per_minute": SettingKey("count", "Agents started within a minute."),
    "budget.run.usd": SettingKey(
        "amount",
        "US dollars that a headless run may spend without `--max-budget-usd`: 20. At a terminal this is a mark.",
        user_only=True,
    ),
    "budget.run.tokens": SettingKey(
        "positive",
        "Tokens that a headless run may use without `--max-tokens`: 5,000,000. At a terminal this is a mark.",
        user_only=True,
    ),
    "budget.run.turns": SettingKey(
        "positive",
        "Model calls of the lead in a headless run without `--max-turns`: 200. At a terminal this is a mark.",
        user_only=True,
    ),
    "budget.run.minutes": SettingKey(
        "amount",
        "Minutes that a headless run may take without `--timeout`: 120. At a terminal this is a mark.",
        user_only=True,
    ),
    "budget.agent.usd": SettingKey("amount", "US dollars that one member or sub-agent may spend."),
    "budget.agent.tokens": SettingKey("positive", "Tokens that one member or sub-agent may use, in and out."),
    "budget.agent.turns": SettingKey("positive", "Model calls that one member or sub-agent may make."),
    "budget.agent.calls": SettingKey("positive", "Tool calls that one member or sub-agent may make."),
    "budget.agent.minutes": SettingKey("amount", "Minutes that one member or sub-agent may work."),
    "limits.agents": SettingKey("count", "Sub-agents that run at the same time."),
    "limits.depth": SettingKey(
        "count", "The depth to which agents may start agents; a sub-agent of a teammate has depth 1."
    ),
    "bash.timeout_s": SettingKey("seconds", "How long a command may run if the call sets no timeout."),
    "bash.max_timeout_s": SettingKey("seconds", "The longest timeout of a command."),
    "bash.output_chars": SettingKey("count", "Characters of output in a result; the rest is in a file."),
    "bash.pass_env": SettingKey(
        "texts",
        "Variables that are passed to commands although they look like secrets; a * at the end matches any suffix.",
        user_only=True,
    ),
    "bash.shell": SettingKey(
        "text", "The shell that runs commands: bash, zsh, sh, or a path; none: your $SHELL.", user_only=True
    ),
    "bash.startup": SettingKey(
        "bool", "Whether commands have your shell's functions, aliases and PATH.", user_only=True
    ),
    "bash.startup_s": SettingKey("seconds", "How long the startup of your shell may take.", user_only=True),
    "sandbox.mode": SettingKey(
        "word",
        "Whether commands run in a sandbox: off; auto, if one works on this system; required, or nothing starts.",
        user_only=True,
        words=("off", "auto", "required"),
    ),
    "sandbox.network": SettingKey(
        "word",
        "The network of commands in the sandbox that do not name it: deny, allow, or ask about each host.",
        user_only=True,
        words=("deny", "ask", "allow"),
    ),
    "sandbox.read": SettingKey("texts", "More paths that commands in the sandbox may read.", user_only=True),
    "sandbox.write": SettingKey("texts", "More paths that commands in the sandbox may change.", user_only=True),
    "sandbox.auto_allow": SettingKey(
        "bool",
        "Whether a command that needs nothing beyond the policy work runs without a question, where bubblewrap works.",
        user_only=True,
    ),
    "sandbox.memory_mb": SettingKey(
        "count",
        "The memory of each process of a command in MiB; 0: three quarters of the machine's memory.",
        user_only=True,
    ),
    "sandbox.processes": SettingKey(
        "count", "The number of processes and threads of a command, under bubblewrap; 0: no limit.", user_only=True
    ),
    "retries": SettingKey("count", "How often a failed model request is tried again."),
    "cache_warmup_s": SettingKey(
        "seconds or null", "How long a call waits for an equal prompt sent just before, to use its cache; null: never."
    ),
    "cache_hour": SettingKey(
        "word",
        "Whether the service caches the lead's prompt for an hour, not five minutes, while teammates work. auto: at "
        "Anthropic's own address.",
        words=("auto", "on", "off"),
    ),
    "stall_s": SettingKey(
        "seconds",
        "How long an answer may make no progress. Not set: 90, and 600 for services whose models think silently; "
        "a local server has 3,600 until its answer begins.",
    ),
    "ask_timeout_s": SettingKey(
        "seconds or null", "How long a request waits for an answer; null: without a limit at a terminal."
    ),
    "unattended_requests": SettingKey(
        "word", "Requests without a person at a terminal: wait, or deny.", words=("wait", "deny")
    ),
    "shutdown_objection_s": SettingKey("seconds", "How long a member may take to answer a shutdown request."),
    "cancel_grace_s": SettingKey("seconds", "How long a cancelled turn may take to end."),
    "shutdown_timeout_s": SettingKey("seconds", "How long the end of a session waits for running turns of members."),
    "dedupe_names": SettingKey("bool", "Whether a name that is in use becomes name-2."),
    "worktrees.setup": SettingKey(
        "text", "A command that prepares each new worktree of an agent; none by default.", user_only=True
    ),
    "worktrees.setup_timeout_s": SettingKey("seconds", "How long the setup of a worktree may take."),
    "worktrees.merge": SettingKey(
        "word",
        "How the commits of a completed task are added to the integration branch.",
        words=("merge", "rebase", "squash"),
    ),
    "worktrees.uncommitted": SettingKey(
        "word",
        "Uncommitted files of a member's worktree when it completes a task: commit them, or refuse the completion.",
        words=("commit", "refuse"),
    ),
    "worktrees.commit_hooks": SettingKey(
        "bool",
        "Whether these commits run the repository's hooks and are signed as git is set up; otherwise both are skipped.",
        user_only=True,
    ),
    "worktrees.max_file_mb": SettingKey(
        "count", "The largest file in MB that such a commit takes; a larger one refuses the completion. 0: any size."
    ),
    "worktrees.max_commit_mb": SettingKey(
        "count", "The size in MB of all files that one such commit takes at most. 0: any size."
    ),
    "checks.integration": SettingKey(
        "text",
        "A command that must succeed on each merge before the integration branch moves; none by default.",
        user_only=True,
    ),
    "checks.integration_timeout_s": SettingKey("seconds", "How long the check of a merge may take."),
    "task_check": SettingKey("text", "A command that must succeed before any task is completed; none by default."),
    "task_check_timeout_s": SettingKey("seconds", "How long the check of a task may take."),
    "git_trailer": SettingKey("text", "The last line of each commit message; none by default."),
    "markdown": SettingKey("bool", "Whether a terminal shows Markdown as headings, lists, tables and coloured code."),
    "terminal.plain": SettingKey(
        "bool", "Whether a terminal gets text alone, in order and without colours, as screen readers need it."
    ),
    "undo.bash_changes": SettingKey(
        "bool", "Whether changes of files by commands are recorded for diff, undo and review.", user_only=True
    ),
    "notify.terminal": SettingKey(
        "word",
        "The terminal's signal when a request waits or the team is done, and its window has no focus. auto: a "
        "notification where the terminal is known to show one, else the bell.",
        words=("auto", "bell", "osc9", "osc777", "off"),
    ),
    "notify.command": SettingKey(
        "text", "A shell command that gets each notification as JSON on its stdin; none by default.", user_only=True
    ),
    "notify.webhook": SettingKey(
        "text", "The URL to which each notification is sent; none by default.", user_only=True
    ),
    "notify.format": SettingKey(
        "word",
        "The body for the webhook: json (Slack), or ntfy. auto: ntfy for a host whose name begins with ntfy.",
        words=("auto", "json", "ntfy"),
    ),
    "web_search.service": SettingKey(
        "word",
        "Whether the service of the model searches the web. auto: at the vendor's own address of Anthropic.",
        words=("auto", "on", "off"),
        user_only=True,
    ),
    "web_search.command": SettingKey(
        "text", "A shell command that gets a search as JSON on its stdin and prints what it found.", user_only=True
    ),
    "web_search.tool": SettingKey(
        "text", "The tool of an MCP server that searches the web: mcp__SERVER__TOOL.", user_only=True
    ),
    "thinking": SettingKey(
        "word", "adaptive: models that can do so decide how much they think.", words=("adaptive", "off")
    ),
    "context_tokens": SettingKey("count", "The window in tokens of models that are not in the catalogue."),
    "max_output_tokens": SettingKey("count", "The longest answer in tokens."),
    "agents.background": SettingKey(
        "bool or always", "Whether sub-agents may run in the background; always: every sub-agent does."
    ),
    "agents.background_after_s": SettingKey(
        "seconds", "Time after which a foreground sub-agent moves to the background."
    ),
    "agents.jobs_wait_s": SettingKey(
        "seconds",
        "How long a sub-agent that has answered, or a headless run that is done, waits for background commands.",
    ),
    "agents.fork": SettingKey("bool", "Whether a call of Agent without an agent type starts a fork of its caller."),
    "coordinator": SettingKey(
        "bool", "Whether every sub-agent runs in the background, and a call cannot name a model."
    ),
    "mcpServers": SettingKey("map", "MCP servers by name, as in .mcp.json."),
    "enableAllProjectMcpServers": SettingKey(
        "bool", "false: only the servers of .mcp.json that enabledMcpjsonServers names are used."
    ),
    "enabledMcpjsonServers": SettingKey(
        "texts", "Servers of .mcp.json that are used if enableAllProjectMcpServers is false."
    ),
    "disabledMcpjsonServers": SettingKey("texts", "Servers of .mcp.json that are left out."),
    "mcp.start_s": SettingKey("seconds", "How long an MCP server may take until it can be called."),
    "mcp.wait_s": SettingKey("seconds", "How long the first agent waits for MCP servers without a stored tool list."),
    "mcp.call_s": SettingKey("seconds", "How long a call of an MCP server may last without a sign of progress."),
    "mcp.sampling": SettingKey(
        "bool", "true: MCP servers may ask for answers of your model; each request is asked about.", user_only=True
    ),
    "mcp.sampling_calls": SettingKey("count", "The largest number of such answers in a session.", user_only=True),
    "mcp.prefix_tools": SettingKey(
        "count", "The largest number of MCP tools in an agent's list; other tools are found with ToolSearch."
    ),
    "mcp.prefix_bytes": SettingKey("count", "The largest size of these tools in bytes."),
    "compact_at": SettingKey(
        "share or null",
        "The share of its window at which a conversation is compacted; null: only when the window is full.",
    ),
    "stalled_after_s": SettingKey(
        "seconds", "How long a working member may make no progress before it is shown as stalled."
    ),
    "retention_days": SettingKey(
        "count", "How long archived teams and old sessions are kept, in days; 0: without a limit."
    ),
    "database": SettingKey(
        "text",
        "The PostgreSQL database that contains team state: postgresql://HOST/NAME; without it state is in files.",
        user_only=True,
    ),
    "database_durable_mail": SettingKey(
        "bool", "Whether a message in a database survives a crash of the server's machine; slower.", user_only=True
    ),
    "providers": SettingKey("map", "Your own model services by name, and changed values of presets.", user_only=True),
    "models": SettingKey(
        "map", "Facts about single models, by provider/model: window, prices, abilities.", user_only=True
    ),
    "prices": SettingKey("map", "Prices by provider/model, in USD per million tokens.", user_only=True),
    "compat.claude": SettingKey("bool", "Whether files of the other product are read.", user_only=True),
}
"""Every setting, with the name it has in a file (a dot is a level of JSON)."""

RENAMED_KEYS = {
    "assistant": "agents.background",
    "goodbye_s": "shutdown_timeout_s",
    "headless_asks": "unattended_requests",
    "members.grace_s": "members.orphan_timeout_s",
    "members.recipes": "members.adapters",
    "stagger_s": "cache_warmup_s",
}
"""The name of a setting by its earlier name. A file may still use the earlier one; a warning names the new one."""

RENAMED_VALUES: dict[str, dict[bool, Any]] = {"assistant": {True: "always", False: True}}
"""The value of the new setting for a value of the earlier one, where they differ."""

NOT_USED_YET = frozenset(
    {
        *("enabledPlugins", "extraKnownMarketplaces", "cleanupPeriodDays"),
        *("permissions.disableBypassPermissionsMode", "alwaysThinkingEnabled", "includeCoAuthoredBy"),
    }
)
NEVER_USED = frozenset(
    {"apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "otelHeadersHelper", "forceLoginMethod"}
)
MODE = "permissions.defaultMode"
TOPS = frozenset(name[:at] for name in KEYS for at, char in enumerate(name) if char == ".")


def fits(kind: str, value: Any) -> bool:
    """Return True when a value is of that kind."""
    match kind:
        case "bool" | "bool or always":
            return isinstance(value, bool) or (kind != "bool" and value == "always")
        case "count" | "positive":
            return isinstance(value, int) and not isinstance(value, bool) and value >= (kind == "positive")
        case "amount":
            return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 10_000_000
        case "seconds" | "seconds or null":
            number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 10_000_000
            return number or (kind != "seconds" and value is None)
        case "share" | "share or null":
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return (kind != "share" and value is None) or (number and 0.1 <= value <= 0.95)
        case "effort":
            return is_effort(value)
        case "text":
            return isinstance(value, str)
        case "texts":
            return isinstance(value, list) and all(isinstance(part, str) for part in cast("list[Any]", value))
        case "env":
            return isinstance(value, dict) and all(
                isinstance(part, str) for part in cast("dict[Any, Any]", value).values()
            )
        case _:
            return isinstance(value, dict)


EXPECTED = {
    "bool": "true or false",
    "bool or always": 'true, false or "always"',
    "count": "a whole number from 0 on",
    "positive": "a whole number above 0",
    "amount": "a number above 0",
    "seconds": "a number of seconds above 0",
    "seconds or null": "a number of seconds above 0, or null",
    "share": "a number from 0.1 to 0.95",
    "share or null": "a number from 0.1 to 0.95, or null",
    "effort": EFFORTS,
    "text": "a text",
    "texts": "a list of texts",
    "env": "an object with texts",
    "map": "an object",
}
"""The required type of each kind of value, in words."""


FIELDS: Mapping[str, str] = {
    "agent": "lead_type",
    "outputStyle": "output_style",
    "statusLine": "status_line",
    "disableAllHooks": "hooks_off",
    "allowedHttpHookUrls": "hook_urls",
    "httpHookAllowedEnvVars": "hook_variables",
    "skills.enabled": "skills",
    "permissions.leadAnswers": "lead_answers",
    "members.backend": "places.backend",
    "members.pane_layout": "places.layout",
    "members.lead_share": "places.lead_share",
    "members.orphan_timeout_s": "places.orphan_timeout_s",
    "limits.members": "limits.members",
    "limits.spawns": "limits.spawns",
    "limits.spawns_per_minute": "limits.per_minute",
    "limits.agents": "limits.agents",
    "limits.depth": "limits.depth",
    "bash.timeout_s": "bash.timeout_s",
    "bash.max_timeout_s": "bash.max_timeout_s",
    "bash.output_chars": "bash.max_output",
    "bash.pass_env": "bash.pass_env",
    "bash.shell": "bash.shell",
    "bash.startup": "bash.startup",
    "bash.startup_s": "bash.startup_s",
    "sandbox.mode": "sandbox.mode",
    "sandbox.network": "sandbox.network",
    "sandbox.read": "sandbox.read",
    "sandbox.write": "sandbox.write",
    "sandbox.auto_allow": "sandbox.auto_allow",
    "sandbox.memory_mb": "sandbox.memory_mb",
    "sandbox.processes": "sandbox.processes",
    "shutdown_objection_s": "team.shutdown_objection_s",
    "cancel_grace_s": "team.cancel_grace_s",
    "shutdown_timeout_s": "team.shutdown_timeout_s",
    "dedupe_names": "team.dedupe_names",
    "task_check": "check.command",
    "task_check_timeout_s": "check.timeout_s",
    "worktrees.setup": "worktrees.setup",
    "worktrees.setup_timeout_s": "worktrees.setup_timeout_s",
    "worktrees.merge": "worktrees.merge",
    "worktrees.uncommitted": "worktrees.uncommitted",
    "worktrees.commit_hooks": "worktrees.commit_hooks",
    "worktrees.max_file_mb": "worktrees.max_file_mb",
    "worktrees.max_commit_mb": "worktrees.max_commit_mb",
    "checks.integration": "worktrees.check",
    "checks.integration_timeout_s": "worktrees.check_timeout_s",
    "agents.background": "agents.background",
    "agents.background_after_s": "agents.background_after_s",
    "agents.jobs_wait_s": "agents.jobs_wait_s",
    "agents.fork": "agents.fork",
    "coordinator": "agents.coordinator",
    "mcp.start_s": "mcp.start_s",
    "mcp.wait_s": "mcp.wait_s",
    "mcp.call_s": "mcp.call_s",
    "mcp.sampling": "mcp.sampling",
    "mcp.sampling_calls": "mcp.sampling_calls",
    "mcp.prefix_tools": "mcp.tools",
    "mcp.prefix_bytes": "mcp.size",
    "compact_at": "compact.at",
    "teams": "teams",
    "ask_timeout_s": "ask_timeout_s",
    "unattended_requests": "unattended_requests",
    "plan_approval": "plan_approval",
    "git_trailer": "git_trailer",
    "markdown": "markdown",
    "terminal.plain": "plain_terminal",
    "undo.bash_changes": "bash.records_changes",
    "notify.terminal": "notify.terminal",
    "notify.command": "notify.command",
    "notify.webhook": "notify.webhook",
    "notify.format": "notify.format",
    "web_search.service": "web_search.service",
    "web_search.command": "web_search.command",
    "web_search.tool": "web_search.tool",
    "retention_days": "retention_days",
    "database": "database",
    "database_durable_mail": "database_durable_mail",
    "stalled_after_s": "stalled_after_s",
}
"""The field of `Settings` that a key sets; after a dot, a field of that section."""

Section = TypeVar("Section")


def fill_settings(usual: Section, name: str, values: Mapping[str, Any]) -> Section:
    """Return the section `name` of `Settings`: `usual`, with the fields that these values set."""
    paths = {key: path.partition(".") for key, path in FIELDS.items() if key in values}
    changes = {field: values[key] for key, (section, _, field) in paths.items() if section == name and field}
    filled: Section = replace(cast("Any", usual), **changes)
    return filled


def plain_fields(usual: object, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that belong to no section, each with its value, else as `usual` has it."""
    return {path: values.get(key, getattr(usual, path)) for key, path in FIELDS.items() if "." not in path}
