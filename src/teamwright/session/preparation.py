"""The context of a session before anything is constructed: home, settings, trust, id, and whether it is resumed.

All errors that need no model call are found here, and nothing but the home's directories is created.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.prompt import PromptEnvironment
from teamwright.agent.transcript import read_header
from teamwright.config.agent_types import DefinitionSources, definition_sources
from teamwright.config.plugins import installed_plugins, plugin_at
from teamwright.config.settings.files import SettingsOrigin
from teamwright.config.settings.merge import load_settings, reads_other_product, reads_source
from teamwright.config.settings.settings import SettingFlags, Settings
from teamwright.config.team_file import FILE, TeamDefinition, narrowed_limits, read_definition, trusted_definition
from teamwright.config.trust import TrustState, TrustStore, require_person
from teamwright.config.trust_entries import team_entry
from teamwright.git.repository import current_branch
from teamwright.models.effort import parse_optional_effort
from teamwright.processes.program_environment import add_changeable, without_git_variables
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.ids import SessionId, moved_directory_advice, session_id
from teamwright.sandbox.known_paths import CACHE_VARIABLES, CACHES, HOLDS_PROGRAMS
from teamwright.sandbox.policy import SandboxMode, SandboxSettings, narrow, restore_bounds
from teamwright.saved.sessions import SessionView, find_session, latest_session
from teamwright.session.agents.model_sources import load_lead_model
from teamwright.session.command_start import require_platform
from teamwright.session.options import Options, with_default_caps
from teamwright.storage.event_log import log_path
from teamwright.storage.paths import Home, find_home

TEAMS_VARIABLE = "TEAMWRIGHT_TEAMS"
"""Enables or disables teams for a process, with precedence over the setting `teams`."""

SANDBOX_VARIABLE = "TEAMWRIGHT_SANDBOX"
"""The mode of the sandbox for a process, with precedence over the setting `sandbox.mode`."""

WORKTREE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The name of a session's worktree."""

_ON = {"1", "true", "on", "yes"}
_OFF = {"0", "false", "off", "no"}

ASKS_PERSON = ("deny", "wait")
"""The behaviour of requests without a person at a terminal."""


class SessionContext(Struct, frozen=True):
    """The context of a session, known before its construction."""

    options: Options
    home: Home
    cwd: Path
    env: Mapping[str, str]
    settings: Settings
    trust: TrustState
    id: SessionId
    resumed: bool
    definition: TeamDefinition | None = None
    places: DefinitionSources = field(default_factory=DefinitionSources)
    room: Path | None = None
    """The directory of a member process in its session's directory."""

    @property
    def directory(self) -> Path:
        """The directory of this process's log, outputs and records: the session's, or a member's in it."""
        return self.home.session(self.cwd, self.id) if self.room is None else self.room


def load_context(options: Options) -> SessionContext:
    """Load the context of a session. Raises all errors that need no model call."""
    require_platform()
    home = find_home(options.home).require_readable()
    _require_person(home, options)
    home.prepare()
    cwd = Path(os.path.realpath(options.cwd))
    if not cwd.is_dir():
        raise UsageError("usage", f"there is no directory {cwd}", note="nothing was started")
    if options.worktree is not None:
        _check_worktree(options)
    session = session_id(options.session_id)
    resumed = False
    if options.resume is not None:
        view = latest_session(home, cwd) if options.resume == "latest" else find_session(home, cwd, options.resume)
        session = SessionId(view.id)
        resumed = True
        cwd = _directory_of(view, cwd)
    elif options.session_id is not None:
        _require_new(home, cwd, session)
    return _load(options, home, cwd, session, resumed=resumed)


def _require_person(home: Home, options: Options) -> None:
    """Raise UsageError (`not-for-agents`) when an agent's command uses options that only a person may use."""
    if options.resume is not None or options.adopt is not None:
        require_person(home, "resumes sessions and takes teams over")
    if options.trust:
        require_person(home, "trusts a repository", "--trust")


def load_member_context(options: Options, session: SessionId, room: Path) -> SessionContext:
    """Load the context of a member process of that session; `room` is its directory there."""
    require_platform()
    home = find_home(options.home).require_readable()
    return replace(_load(options, home, options.cwd, session, resumed=log_path(room).exists()), room=room)


def _load(options: Options, home: Home, cwd: Path, session: SessionId, *, resumed: bool) -> SessionContext:
    env = without_git_variables(os.environ if options.env is None else _with_usual(options.env))
    options = replace(options, sandbox=options.sandbox or sandbox_variable(options))  # for member processes too
    flags = settings_flags(options)
    project = reads_source(flags, SettingsOrigin.SHARED)
    compat = reads_other_product(home, flags)
    trust = TrustStore.load(home).verdict(cwd, session=options.trust, compat=compat, project=project)
    settings = load_settings(home, cwd, flags, trust)
    settings = _with_possible_forks(settings, options)
    definition, warnings = load_team_definition(trust)
    settings = replace(settings, warnings=(*settings.warnings, *warnings))
    if definition is not None:
        options = replace(options, budget=options.budget.smaller_caps(definition.budget))
        settings = with_team_file(settings, definition)
    if options.sandbox_bounds is not None:
        settings = replace(settings, sandbox=narrow(settings.sandbox, restore_bounds(options.sandbox_bounds)))
    options = with_default_caps(options, settings.run_defaults)
    added, problems = installed_plugins(home)
    plugins = [*(plugin_at(path) for path in options.plugin_dirs), *added]
    places = definition_sources(
        home, trust.root, compat=settings.compat, agents=options.agents, plugins=plugins, project=project
    )
    plugin_warnings = tuple(line for plugin in places.plugins for line in plugin.warnings)
    settings = replace(settings, warnings=(*settings.warnings, *problems, *plugin_warnings))
    # In a linked worktree the main checkout is changeable too: its directories of programs are on the PATH.
    main = trust.bound_to.parent if trust.bound_to.name == ".git" else trust.bound_to
    add_changeable((cwd, trust.root, main, home.own, *_changeable_places(settings.sandbox, env)))
    return SessionContext(options, home, cwd, env, settings, trust, session, resumed, definition, places)


def _changeable_places(sandbox: SandboxSettings, env: Mapping[str, str]) -> list[str]:
    """Return the caches and the paths of the settings, in which commands create files outside of their directories."""
    home = os.path.expanduser(env.get("HOME") or "~")
    found = [os.path.join(home, name) for name in CACHES if name not in HOLDS_PROGRAMS]
    found += [path for name in CACHE_VARIABLES if os.path.isabs(path := env.get(name, ""))]
    return [*found, *map(os.path.expanduser, sandbox.write)]


_USUAL = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables that most commands need: the process's values, unless a program sets its own."""


def _with_usual(env: Mapping[str, str]) -> dict[str, str]:
    """Return a program's own environment, completed by the usual variables of this process."""
    return {**{name: os.environ[name] for name in _USUAL if name in os.environ}, **env}


NO_FORKS = "agents.fork has no effect in a headless run: Agent without subagent_type starts general-purpose"


def _with_possible_forks(settings: Settings, options: Options) -> Settings:
    """Return the settings, without forks in a headless run. Raises CannotStart (`bad-settings`) for contradictions."""
    why = settings.agents.fork_refusal()
    if not why:
        if not (settings.agents.fork and options.headless):
            return settings
        return replace(settings, agents=replace(settings.agents, fork=False), warnings=(*settings.warnings, NO_FORKS))
    do = ['set "agents": {"fork": false}; for one run in a file that --settings names']
    where = [("set in", str(settings.origins.get("agents.fork", "the settings")))]
    what = f"agents.fork is on and cannot be honoured: {why}"
    raise CannotStart("bad-settings", what, looked_at=where, do=do, note="nothing was started")


def with_team_file(settings: Settings, definition: TeamDefinition) -> Settings:
    """Return the settings with the team file's. The person's own settings have precedence, except for the commands that
    prepare worktrees and check merges: those of the team file are for this repository.
    """
    own_origins = settings.origins
    origins = dict(own_origins)
    changes: dict[str, Any] = {"limits": narrowed_limits(settings.limits, definition)}
    changes["sandbox"] = narrow(settings.sandbox, definition.sandbox)
    if definition.plans is not None and "plan_approval" not in own_origins:
        changes["plan_approval"] = definition.plans
        origins["plan_approval"] = definition.file
    if definition.permissions is not None and "permissions.leadAnswers" not in own_origins:
        changes["lead_answers"] = definition.permissions == "lead"
        origins["permissions.leadAnswers"] = definition.file
    if definition.check is not None and "task_check" not in own_origins:
        changes["check"] = replace(settings.check, command=definition.check)
        origins["task_check"] = definition.file
    worktrees = settings.worktrees
    setup = definition.setup or worktrees.setup
    check = definition.integration_check or worktrees.check
    changes["worktrees"] = replace(worktrees, setup=setup, check=check)
    return replace(settings, origins=origins, **changes)


def load_team_definition(trust: TrustState) -> tuple[TeamDefinition | None, tuple[str, ...]]:
    """Return the repository's team definition as far as it is in effect, and lines about its ignored parts.

    Once the repository is trusted, a file that cannot be used is an error, so that its restrictions are not lost
    silently. Raises CannotStart (`bad-settings`) with file and line.
    """
    try:
        definition = read_definition(trust.root / FILE)
    except CannotStart as problem:
        if trust.trusted:
            raise
        return None, (f"{trust.root / FILE}: left out: {problem.what}",)
    if definition is None:
        return None, ()
    return trusted_definition(definition, lambda name, value: trust.allows(team_entry(trust.root, name, value))), ()


def _check_worktree(options: Options) -> None:
    """Raise UsageError for a session that continues, and for a name that cannot be part of a branch."""
    if options.resume is not None:
        what = "a worktree is for a new session: a session that continues keeps its directory"
        raise UsageError("usage", what, looked_at=[("option", "worktree")], note="nothing was started")
    if options.worktree and not WORKTREE_NAME.fullmatch(options.worktree):
        raise UsageError(
            "usage",
            f"the name of a worktree has letters, digits, '-' and '_', at most 64; not {options.worktree[:80]!r}",
            do=["--worktree NAME", 'teamwright --worktree -- "PROMPT"   (makes a name)'],
            note="nothing was started",
        )


def _require_new(home: Home, cwd: Path, session: SessionId) -> None:
    """Raise UsageError when a session with this id exists."""
    if home.transcript(cwd, session).exists() or home.session(cwd, session).exists():
        raise UsageError(
            "usage",
            f"there is a session of the id {session} already",
            do=[f"teamwright resume {session[:8]}", "leave --session-id out: a new session gets a new id"],
            note="nothing was started",
        )


def _directory_of(view: SessionView, cwd: Path) -> Path:
    """Return the working directory of a session to resume. Raises CannotStart when it cannot be used."""
    if view.damaged:
        raise CannotStart("damaged-file", f"session {view.id[:8]} cannot be resumed: {view.damaged}")
    there = Path(view.cwd) if view.cwd else cwd
    if not there.is_dir():
        what = f"the directory of session {view.id[:8]} is gone"
        do = moved_directory_advice(view.id)
        raise CannotStart("unknown-session", what, looked_at=[("directory", str(there))], do=do)
    return there


def settings_flags(options: Options) -> SettingFlags:
    """Return the options that override settings."""
    return SettingFlags(
        model=options.model if isinstance(options.model, str) else None,
        effort=parse_optional_effort(options.effort),
        thinking="off" if options.thinking_tokens == 0 else None,
        permission_mode=options.permission_mode or options.mode_unless_kept,
        plan_approval=options.plan_approval,
        backend=options.backend,
        markdown=options.markdown,
        plain_terminal=options.plain_terminal,
        sandbox=options.sandbox,
        allowed_tools=options.allowed_tools,
        disallowed_tools=options.disallowed_tools,
        asked_tools=options.asked_tools,
        only_allowed=options.only_allowed,
        add_dirs=options.add_dirs,
        settings_file=options.settings_file,
        setting_sources=options.setting_sources,
    )


def sandbox_variable(options: Options) -> str | None:
    """Return the mode of the sandbox in the environment. Raises CannotStart (`bad-settings`) for an unknown one."""
    mode = (os.environ if options.env is None else options.env).get(SANDBOX_VARIABLE, "").strip()
    if not mode or mode in list(SandboxMode):
        return mode or None
    where = [("variable", f"{SANDBOX_VARIABLE}={mode[:60]}")]
    what = f"{SANDBOX_VARIABLE} must be {', '.join(SandboxMode)}"
    raise CannotStart("bad-settings", what, looked_at=where, note="nothing was started")


def are_teams_enabled(context: SessionContext) -> bool:
    """Return True when agents may form teams: by the options, else the environment, else the settings."""
    if context.options.teams is not None:
        return context.options.teams
    switch = context.env.get(TEAMS_VARIABLE, "").strip().lower()
    if not switch:
        return context.settings.teams
    if switch not in _ON | _OFF:
        where = [("variable", f"{TEAMS_VARIABLE}={switch}")]
        raise CannotStart(
            "bad-settings", f"{TEAMS_VARIABLE} must be 0 or 1", looked_at=where, note="nothing was started"
        )
    return switch in _ON


def trust_warnings(context: SessionContext) -> list[str]:
    """Return a line that lists untrusted entries of the repository, and how to trust them."""
    waiting = context.trust.needs_asking
    if not waiting:
        return []
    verb = "is" if len(waiting) == 1 else "are"
    in_sdk = ' (in the SDK: extra_args={"trust": None} or extraArgs: {trust: null})'
    for_run = f"--trust{in_sdk if context.options.client_mcp is not None else ''} takes them for this run"
    return [
        f"this repository is not trusted: {len(waiting)} of its entries {verb} left out; "
        f"{for_run}, teamwright trust shows them and trusts for good"
    ]


def resumed_model(context: SessionContext) -> str | None:
    """Return the model of a resumed session: the one that was named, else its last one."""
    if not context.resumed:
        return None
    header = read_header(context.home.transcript(context.cwd, context.id)) or {}
    name = load_lead_model(context.directory) or header.get("model")
    return name if isinstance(name, str) else None


def session_environment(context: SessionContext) -> PromptEnvironment:
    roots = (context.cwd, *context.settings.directories)
    return PromptEnvironment(
        context.cwd,
        roots,
        current_branch(context.cwd),
        platform.system(),
        headless=is_unattended(context),
        git_trailer=context.settings.git_trailer,
    )


def is_unattended(context: SessionContext) -> bool:
    """Return True when it is already known that no person will answer questions."""
    options = context.options
    return not options.interactive and options.on_request is None and not waits_for_answers(context)


def waits_for_answers(context: SessionContext) -> bool:
    """Return True when a request waits for an answer of another process, without a person at a terminal.

    The options decide, else the setting. Raises CannotStart (`bad-settings`) for a word other than wait or deny.
    """
    choice = context.options.ask or context.settings.unattended_requests
    if choice not in ASKS_PERSON:
        where = [("unattended_requests", choice)]
        raise CannotStart("bad-settings", "unattended_requests must be wait or deny", looked_at=where)
    return not context.options.interactive and choice == "wait"


ASK_TIMEOUT_S = 600.0
"""Seconds that a request waits without a person at a terminal, unless the settings say otherwise."""


def ask_timeout(context: SessionContext) -> float | None:
    """Return the deadline of requests in seconds; None for a person at a terminal, who may take any time."""
    option = context.options.ask_timeout_s
    timeout_s = option if option is not None else context.settings.ask_timeout_s
    return timeout_s if timeout_s is not None or context.options.interactive else ASK_TIMEOUT_S
