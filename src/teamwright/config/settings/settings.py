"""The merged settings of a run, the values of its flags, and the sections of both that single values fill.

Each section has the defaults of the package that uses it; a package that validates its values is called. `merge`
decides precedence before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.activity_monitor import STALLED_AFTER_S
from teamwright.agent.compaction_state import CompactSettings
from teamwright.agent.spawn_limits import SpawnSettings
from teamwright.backends.choice import AUTO, REMOTE_BACKEND, TMUX, is_remote
from teamwright.backends.settings import BackendSettings
from teamwright.backends.terminal_adapter import (
    DETACHED,
    InvalidAdapter,
    TerminalAdapter,
    parse_adapters,
    shipped_adapters,
)
from teamwright.config.external_member_commands import ExternalCommandSettings, commands_settings
from teamwright.config.mcp_settings import McpSettings
from teamwright.config.settings.files import bad_settings
from teamwright.config.settings.keys import fill_settings, plain_fields
from teamwright.hooks.hook_index import HookSpec
from teamwright.models.effort import Effort
from teamwright.permissions.rules import Rule
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.ids import did_you_mean
from teamwright.protocol.members import IN_PROCESS
from teamwright.protocol.usage import CAP_NAMES as CAPS
from teamwright.protocol.usage import NO_CAPS, Budget
from teamwright.sandbox.policy import NetworkAccess, SandboxMode, SandboxSettings
from teamwright.subagents.subagent_settings import SubagentSettings
from teamwright.teams.team import TeamSettings
from teamwright.tools.shell.bash_settings import BashSettings


class WebSearchSettings(Struct, frozen=True):
    """The ways to search. `service` is auto, on or off: the search of the model's service.

    `command` is a shell line that gets the search as JSON on its stdin; `tool` is the name of a tool of an MCP server.
    """

    service: str = "auto"
    command: str = ""
    tool: str = ""


class NotifySettings(Struct, frozen=True):
    """The ways to notify. `command` is a shell line, `webhook` a URL; empty for none.

    `terminal` is auto, bell, osc9, osc777 or off; `format` of the webhook's body is auto, json or ntfy.
    """

    terminal: str = "auto"
    command: str = ""
    webhook: str = ""
    format: str = "auto"


class CheckSettings(Struct, frozen=True):
    """The check of all tasks and its time limits."""

    command: str = ""
    """A command that must succeed before any task is completed; empty for none."""
    timeout_s: float = 600.0
    """Seconds that a check may take."""
    grace_s: float = 2.0
    """Seconds that a check may take to exit after its timeout."""


class WorktreeSettings(Struct, frozen=True):
    """The settings of worktrees."""

    setup: str = ""
    """A command that prepares each new worktree; empty for none."""
    setup_timeout_s: float = 600.0
    """Seconds that the setup may take."""
    merge: Literal["merge", "rebase", "squash"] = "merge"
    """The way in which finished work gets to the integration branch."""
    uncommitted: Literal["commit", "refuse"] = "commit"
    """The treatment of a worktree's uncommitted files when a task is completed."""
    commit_hooks: bool = False
    """True: the runtime's commits run the repository's hooks, and are signed as git is set up."""
    max_file_mb: int = 5
    """The largest file that the runtime commits, in MB; 0: any."""
    max_commit_mb: int = 50
    """The most that one commit of the runtime adds, in MB; 0: any."""
    check: str = ""
    """A command that must succeed on each merge before the integration branch moves; empty for none."""
    check_timeout_s: float = 600.0
    """Seconds that this check may take."""


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

    `delegates`: the lead only coordinates; `mode` is then the mode that its members follow.

    `each` caps every member and sub-agent; `run_defaults` are the user's default caps of headless runs;
    `directories` are additional ones, by real path; `models` contains the keys of the models' settings as written;
    `skills_off` are lower-case names of skills and commands; `warnings` are lines for people about entries that are
    left out; `files` counts the settings files that were read.
    """

    rules: tuple[Rule, ...] = ()
    mode: Mode = Mode.DEFAULT
    delegates: bool = False
    directories: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    person_env: Mapping[str, str] = field(default_factory=dict[str, str])
    """The part of `env` that no repository set: programs outside of the sandbox get it as it is."""
    hooks: tuple[HookSpec, ...] = ()
    hooks_off: bool = False
    hook_urls: tuple[str, ...] | None = None
    """The only addresses of http hooks; None: all."""
    hook_variables: tuple[str, ...] | None = None
    """The only variables in headers of http hooks; None: all that a hook lists."""
    mcp: McpSettings = field(default_factory=McpSettings)
    models: Mapping[str, Any] = field(default_factory=dict[str, Any])
    limits: SpawnSettings = field(default_factory=SpawnSettings)
    each: Budget = NO_CAPS
    run_defaults: Budget = NO_CAPS
    team: TeamSettings = field(default_factory=TeamSettings)
    bash: BashSettings = field(default_factory=BashSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    check: CheckSettings = field(default_factory=CheckSettings)
    worktrees: WorktreeSettings = field(default_factory=WorktreeSettings)
    agents: SubagentSettings = field(default_factory=SubagentSettings)
    places: BackendSettings = field(default_factory=BackendSettings)
    commands: ExternalCommandSettings = field(default_factory=ExternalCommandSettings)
    compact: CompactSettings = field(default_factory=CompactSettings)
    teams: bool = True
    ask_timeout_s: float | None = None
    unattended_requests: str = "deny"
    lead_answers: bool = False
    plan_approval: str = "lead"
    git_trailer: str = ""
    markdown: bool = True
    plain_terminal: bool = False
    notify: NotifySettings = field(default_factory=NotifySettings)
    web_search: WebSearchSettings = field(default_factory=WebSearchSettings)
    lead_type: str = ""
    output_style: str = ""
    status_line: Mapping[str, Any] = field(default_factory=dict[str, Any])
    retention_days: int = 30
    database: str = ""
    database_durable_mail: bool = False
    stalled_after_s: float = STALLED_AFTER_S
    compat: bool = True
    skills: bool = True
    skills_off: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    files: int = 0


_FOR_MODELS = frozenset(
    {
        "model",
        "effort",
        "thinking",
        "context_tokens",
        "max_output_tokens",
        "retries",
        "cache_warmup_s",
        "cache_hour",
        "stall_s",
        "providers",
        "models",
        "prices",
    }
)


_PLAIN_SECTIONS = ("limits", "team", "bash", "agents", "compact", "web_search")
"""Sections that take their values unchanged."""


RUN_CAPS = ("usd", "tokens", "turns", "minutes")
"""Caps of a headless run that have defaults."""


def make_sections(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of `Settings` that single values set; `origins` names the file of each.

    Raises CannotStart (`bad-settings`) with file and key for a value that its package refuses.
    """
    usual = Settings()
    check = fill_settings(usual.check, "check", values)
    trees = fill_settings(usual.worktrees, "worktrees", values)
    return {
        **plain_fields(usual, values),
        **{name: fill_settings(getattr(usual, name), name, values) for name in _PLAIN_SECTIONS},
        "models": {name: value for name, value in values.items() if name in _FOR_MODELS},
        "run_defaults": Budget.from_json({name: values.get(f"budget.run.{name}") for name in RUN_CAPS}),
        "each": Budget.from_json({name: values.get(f"budget.agent.{name}") for name in CAPS}),
        "sandbox": _sandbox(fill_settings(usual.sandbox, "sandbox", values)),
        "places": parse_backend_settings(values, origins),
        "commands": commands_settings(values, origins),
        "notify": parse_notify_settings(values, origins),
        "check": replace(check, command=check.command.strip()),
        "worktrees": replace(trees, setup=trees.setup.strip(), check=trees.check.strip()),
    }


def _sandbox(settings: SandboxSettings) -> SandboxSettings:
    """Return the settings with enum members and tuples in place of the JSON values."""
    return replace(
        settings,
        mode=SandboxMode(settings.mode),
        network=NetworkAccess(settings.network),
        read=tuple(settings.read),
        write=tuple(settings.write),
    )


WEBHOOK = "notify.webhook"


def parse_notify_settings(values: Mapping[str, Any], origins: Mapping[str, str]) -> NotifySettings:
    """Return the settings. Raises CannotStart (`bad-settings`) for a webhook that is no http or https URL."""
    settings = fill_settings(NotifySettings(), "notify", values)
    if settings.webhook:
        try:
            parts = urlsplit(settings.webhook)
            is_url = parts.scheme in {"http", "https"} and bool(parts.hostname)
        except ValueError:
            is_url = False
        if not is_url:
            raise bad_settings(Path(origins.get(WEBHOOK, "")), "must be a URL that begins with https://", WEBHOOK)
    return settings


BACKEND, ADAPTERS = "members.backend", "members.adapters"
BACKENDS = (AUTO, IN_PROCESS, TMUX, DETACHED, REMOTE_BACKEND)
"""Backends that need no terminal adapter."""


def parse_backend_settings(values: Mapping[str, Any], origins: Mapping[str, str]) -> BackendSettings:
    """Return the backend settings. `origins` names the file or flag of each value.

    Raises CannotStart (`bad-settings`) with file and key, UsageError for a flag.
    """
    adapters = _adapters(values, origins)
    settings = fill_settings(BackendSettings(adapters=adapters), "places", values)
    backend = settings.backend
    named = (*BACKENDS, *adapters, *shipped_adapters())
    if backend not in named and not is_remote(backend):
        known = [*BACKENDS, *{**shipped_adapters(), **adapters}]
        raise _no_such(origins.get(BACKEND, ""), BACKEND, f"{backend!r} is no backend for members", backend, known)
    return settings


def _adapters(values: Mapping[str, Any], origins: Mapping[str, str]) -> dict[str, TerminalAdapter]:
    try:
        return parse_adapters(values.get(ADAPTERS, {}))
    except InvalidAdapter as problem:
        do = f"; {problem.do}" if problem.do else ""
        raise bad_settings(Path(origins[ADAPTERS]), f"{problem.what}{do}", f"{ADAPTERS}.{problem.key}") from None


def _no_such(origin: str, key: str, what: str, name: str, known: list[str]) -> TeamwrightError:
    if not origin.startswith("--"):
        [hint] = did_you_mean(name, known, [f"there are {', '.join(known)}"])
        return bad_settings(Path(origin), f"{what}; {hint}", key)
    return UsageError(
        "usage",
        what,
        looked_at=[("flag", origin), ("backends", ", ".join(known))],
        do=did_you_mean(name, known),
        note="nothing was started",
    )
