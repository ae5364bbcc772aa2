"""Opening a session: settings, trust, model, lease, log, team, lead; every port is filled here.

Either everything stands or nothing is left: what was opened is closed in reverse when a later part cannot be.
Knows all rooms below and the settings; knows no screen.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from teamwright.agent.background import BackgroundJobs, Job
from teamwright.agent.conversation import Conversation, read_header
from teamwright.agent.instructions import NestedInstructions, load_instructions
from teamwright.agent.limits import SpawnLimits
from teamwright.agent.prefix import load_prefix
from teamwright.agent.system_prompt import Surroundings
from teamwright.agent.toolbox import CallNumbers
from teamwright.app.asking import Requests
from teamwright.app.budget import Purse
from teamwright.app.builder import Maker
from teamwright.app.kit import Kit
from teamwright.app.looking.sessions import LEASE, SessionView, find_session, latest_session
from teamwright.app.looking.system import require_platform
from teamwright.app.models_of import Models, Play, models_for
from teamwright.app.options import Options
from teamwright.app.policy import model_settings, policy_of
from teamwright.app.session import Deadlines, Session
from teamwright.app.settings import Flags, Settings, load_settings, reads_other_product
from teamwright.app.trust import Trust, TrustState
from teamwright.models.resolve import key_variables
from teamwright.permissions.rule import Rule
from teamwright.protocol.envelope import escaped
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.ids import LEAD, SessionId, nearest, session_id
from teamwright.storage.gitdir import branch_of
from teamwright.storage.lease import Lease
from teamwright.storage.log import EventLog, last_call
from teamwright.storage.paths import Home, home_of, make_private
from teamwright.storage.watch import Watcher
from teamwright.teams.archive import prune_archive
from teamwright.teams.lead import Lead
from teamwright.teams.team import Team
from teamwright.tools.python import python_tools
from teamwright.tools.team.caller import Caller

ASK_TIMEOUT_S = 600.0
"""How long a request waits for a program's answer, unless the settings say otherwise."""


TEAMS_VARIABLE = "TEAMWRIGHT_TEAMS"
"""Switches teams on or off for a process, above the setting `teams`."""

_SWITCH = {
    "": True,
    "1": True,
    "true": True,
    "on": True,
    "yes": True,
    "0": False,
    "false": False,
    "off": False,
    "no": False,
}


@asynccontextmanager
async def open_session(options: Options) -> AsyncGenerator[Session, None]:
    """A session for the block. Raises CannotStart, UsageError, StorageError; then nothing is left behind."""
    async with AsyncExitStack() as stack:
        session = await _open(options, stack)
        try:
            yield session
        finally:
            await _close(session)


async def _close(session: Session) -> None:
    """Close to the end, whoever cancels meanwhile: it is bounded by what members and jobs are granted."""
    closing = asyncio.ensure_future(session.close())
    cancelled = False
    while not closing.done():
        try:
            await asyncio.wait({closing})
        except asyncio.CancelledError:
            cancelled = True
    closing.result()
    if cancelled:
        raise asyncio.CancelledError


@dataclass(frozen=True, slots=True)
class _Ground:
    """What is known before anything is made."""

    options: Options
    home: Home
    cwd: Path
    env: Mapping[str, str]
    settings: Settings
    trust: TrustState
    id: SessionId
    resumed: bool

    @property
    def directory(self) -> Path:
        """Where the session keeps its log, outputs and members' transcripts."""
        return self.home.session(self.cwd, self.id)


async def _open(options: Options, stack: AsyncExitStack) -> Session:
    ground = _ground(options)
    make_private(ground.directory)
    stack.callback(prune_archive, ground.home, days=ground.settings.retention_days)
    lease = Lease.take(ground.directory / LEASE, f"session {ground.id}")
    stack.callback(lease.release)
    undo = stack.enter_context(ExitStack())
    if not ground.resumed:
        undo.callback(_remove, ground)
    log = EventLog(ground.directory / "events.jsonl")
    stack.callback(log.close)
    watcher = await stack.enter_async_context(Watcher())
    numbers = CallNumbers(last_call(log.path) if ground.resumed else 0)
    models = _models(ground, numbers)
    stack.push_async_callback(models.aclose)
    requests = Requests(log.emit, lambda: options.interactive, _ask_timeout(ground), options.on_request)
    requests.answerer = "terminal" if options.interactive else "program"
    jobs = BackgroundJobs()
    stack.push_async_callback(jobs.close)
    deadlines = Deadlines()
    maker = _maker(ground, models, requests, log, _kit(ground, jobs, requests, deadlines), numbers)
    team = _team(ground, log, maker)
    team.watch = watcher.follow
    deadlines.team = team
    agent = await maker.lead(team, _conversation(ground, maker))
    _check_rules(maker.policy.rules, {tool.name for tool in maker.kit.tools(Caller(LEAD, team), maker)})
    team.lead_model = agent.model.card.name
    lead = Lead(agent, team, owing=ground.resumed and agent.conversation.owes_round)
    jobs.on_done = _job_notice(lead, team)
    team.on_left = jobs.stop_all
    warnings = (*_trust_warnings(ground), *ground.settings.warnings)
    session = Session(ground.id, options, lead, team, maker, models, log, lease, requests, deadlines, jobs, warnings)
    log.subscribe(lambda _number, event: session.tally.note(event), live=False)
    undo.pop_all()
    return session


def _check_rules(rules: Iterable[Rule], tools: set[str]) -> None:
    """A rule of a flag that names no tool of ours would guard nothing. Raises UsageError with the nearest."""
    known = tools | {"Task", "SendMessage", "ListAgents", "TeamCreate", "TeamDelete", "MultiEdit"}
    for rule in rules:
        if not rule.source.startswith("--") or rule.tool in known or "*" in rule.tool or "__" in rule.tool:
            continue
        close = nearest(rule.tool, known)
        do = [f"did you mean {close}?"] if close else [f"the tools are {', '.join(sorted(tools))}"]
        what = f"the rule {rule.text[:80]} names a tool that does not exist"
        raise UsageError("usage", what, looked_at=[("from", rule.source)], do=do, note="nothing was started")


def _remove(ground: _Ground) -> None:
    """A session that could not be opened was never there."""
    shutil.rmtree(ground.directory, ignore_errors=True)
    ground.home.transcript(ground.cwd, ground.id).unlink(missing_ok=True)


def _team(ground: _Ground, log: EventLog, maker: Maker) -> Team:
    made = Team(ground.home, ground.id, ground.cwd, log.emit, maker, maker.limits, ground.settings.team)
    made.lease, made.log = str(ground.directory / LEASE), str(ground.directory / "events.jsonl")
    return made


def _kit(ground: _Ground, jobs: BackgroundJobs, requests: Requests, deadlines: Deadlines) -> Kit:
    settings, options = ground.settings, ground.options
    models = model_settings(settings)
    return Kit(
        jobs,
        requests,
        deadlines,
        replace(settings.bash, hidden=(*settings.bash.hidden, *key_variables(models))),
        models,
        _proves_read_only,
        teams=_teams(ground),
        extra=python_tools(options.tools),
    )


def _teams(ground: _Ground) -> bool:
    """Whether agents may form teams: what the caller said, else the environment, else the settings."""
    if ground.options.teams is not None:
        return ground.options.teams
    said = ground.env.get(TEAMS_VARIABLE, "").strip().lower()
    if said not in _SWITCH:
        where = [("variable", f"{TEAMS_VARIABLE}={said}")]
        raise CannotStart(
            "bad-settings", f"{TEAMS_VARIABLE} must be 0 or 1", looked_at=where, note="nothing was started"
        )
    return ground.settings.teams if not said else _SWITCH[said]


def _proves_read_only(command: str, cwd: Path) -> bool:
    """Whether a shell command is certain to change nothing; the parser loads at the first one."""
    from teamwright.permissions.commands import proves_read_only

    return proves_read_only(command, cwd)


def _ask_timeout(ground: _Ground) -> float | None:
    """A person at a terminal may take any time; elsewhere a request has a deadline."""
    given = ground.settings.ask_timeout_s
    return given if given is not None or ground.options.interactive else ASK_TIMEOUT_S


def _trust_warnings(ground: _Ground) -> list[str]:
    """One line that says what of the repository is left out, and how to trust it."""
    waiting = ground.trust.needs_asking
    if not waiting:
        return []
    verb = "is" if len(waiting) == 1 else "are"
    return [
        f"this repository is not trusted: {len(waiting)} of its entries {verb} left out; "
        "--trust takes them for this run, teamwright trust shows them and trusts for good"
    ]


def _ground(options: Options) -> _Ground:
    """Everything that can be wrong before a model is asked."""
    require_platform()
    home = home_of(options.home)
    home.prepare()
    cwd = Path(os.path.realpath(options.cwd))
    if not cwd.is_dir():
        raise UsageError("usage", f"there is no directory {cwd}", note="nothing was started")
    session, resumed = session_id(options.session_id), False
    if options.resume is not None:
        view = latest_session(home, cwd) if options.resume == "latest" else find_session(home, cwd, options.resume)
        session, resumed, cwd = SessionId(view.id), True, _directory_of(view, cwd)
    elif options.session_id is not None:
        _require_new(home, cwd, session)
    env = dict(os.environ if options.env is None else options.env)
    flags = flags_of(options)
    trust = Trust.load(home).verdict(cwd, session=options.trust, compat=reads_other_product(home, flags))
    settings = load_settings(home, cwd, flags, trust)
    return _Ground(options, home, cwd, env, settings, trust, session, resumed)


def _require_new(home: Home, cwd: Path, session: SessionId) -> None:
    """Raises UsageError for the id of a session that is there already."""
    if home.transcript(cwd, session).exists() or home.session(cwd, session).exists():
        raise UsageError(
            "usage",
            f"there is a session of the id {session} already",
            do=[f"teamwright resume {session[:8]}", "leave --session-id out, and a new one gets an id of its own"],
            note="nothing was started",
        )


def _directory_of(view: SessionView, cwd: Path) -> Path:
    """Where a session that is resumed works. Raises CannotStart when that cannot be."""
    if view.damaged:
        raise CannotStart("damaged-file", f"session {view.id[:8]} cannot be resumed: {view.damaged}")
    there = Path(view.cwd) if view.cwd else cwd
    if not there.is_dir():
        what = f"the directory of session {view.id[:8]} is gone"
        raise CannotStart("unknown-session", what, looked_at=[("directory", str(there))])
    return there


def flags_of(options: Options) -> Flags:
    """What of the options settings care about."""
    return Flags(
        model=options.model if isinstance(options.model, str) else None,
        permission_mode=options.permission_mode,
        allowed_tools=options.allowed_tools,
        disallowed_tools=options.disallowed_tools,
        only_allowed=options.only_allowed,
        add_dirs=options.add_dirs,
        settings_file=options.settings_file,
    )


def _models(ground: _Ground, numbers: CallNumbers) -> Models:
    options = ground.options
    model = options.model if options.model is not None else _model_of_resumed(ground)
    play = Play(options.given, lambda use: numbers.by_use.get(use, ""), options.pace_s)
    return models_for(model, model_settings(ground.settings), ground.env, play)


def _model_of_resumed(ground: _Ground) -> str | None:
    """A resumed session goes on with the model that it was born with, unless another is named."""
    if not ground.resumed:
        return None
    header = read_header(ground.home.transcript(ground.cwd, ground.id)) or {}
    name = header.get("model")
    return name if isinstance(name, str) else None


def _maker(ground: _Ground, models: Models, requests: Requests, log: EventLog, kit: Kit, numbers: CallNumbers) -> Maker:
    options, settings = ground.options, ground.settings
    own = tuple(ground.directory / name for name in ("output", "history"))
    root, compat, trusted = ground.trust.root, settings.compat, ground.trust.trusted
    known = load_instructions(ground.cwd, root, ground.home.ours, compat, trusted)
    return Maker(
        ground.home,
        ground.id,
        ground.cwd,
        models,
        kit,
        policy_of(settings, ground.home, ground.cwd, ground.trust, own),
        requests,
        Purse(options.budget),
        log.emit,
        SpawnLimits(settings.limits),
        _surroundings(ground),
        known,
        nested=lambda: NestedInstructions(ground.cwd, root, known, compat, trusted).nested_for,
        env=dict(settings.env),
        max_rounds=options.budget.turns,
        appended=options.append_system_prompt,
        numbers=numbers,
        attended=log.attended,
    )


def _surroundings(ground: _Ground) -> Surroundings:
    roots = (ground.cwd, *ground.settings.directories)
    return Surroundings(ground.cwd, roots, branch_of(ground.cwd), platform.system(), headless=_deserted(ground.options))


def _deserted(options: Options) -> bool:
    """Whether it is known already that nobody will answer questions."""
    return not options.interactive and options.on_request is None


def _conversation(ground: _Ground, maker: Maker) -> Conversation | None:
    if not ground.resumed:
        return None
    path = ground.home.transcript(ground.cwd, ground.id)
    header = read_header(path) or {}
    return Conversation.load(path, load_prefix(maker.prefixes, str(header.get("prefix", ""))))


def _job_notice(lead: Lead, team: Team) -> Callable[[Job], None]:
    """A background command that has ended wakes the agent that started it, and nobody else."""

    def done(job: Job) -> None:
        text = notification(job)
        if job.owner == LEAD:
            lead.notice(text)
        elif (mate := team.find(job.owner)) is not None:
            mate.desk.notice(text)

    return done


def notification(job: Job) -> str:
    """The end of a background command, as its owner reads it (tags as observed)."""
    how = f"{job.state} (exit code {job.exit_code})" if job.exit_code is not None else job.state
    return (
        f"<task-notification>\n<task-id>{job.id}</task-id>\n<output-file>{job.file}</output-file>\n"
        f"<status>{job.state}</status>\n<summary>Background command {escaped(job.description or job.command)} {how}"
        "</summary>\n</task-notification>\nRead the output file for what it printed."
    )
