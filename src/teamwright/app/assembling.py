"""The parts that every process of a session makes alike: models, tools, agents, jobs, servers.

The session's own process and those of its members are assembled of the same parts, so that an agent is the same
wherever it lives. Knows all rooms below and the settings; does not know who leads, and who is asked.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from teamwright.agent.activity import Watchdog
from teamwright.agent.background import BackgroundJobs
from teamwright.agent.instructions import NestedInstructions, load_instructions
from teamwright.agent.limits import SpawnLimits
from teamwright.agent.toolbox import CallNumbers
from teamwright.agent.transcript import key_in, read_header
from teamwright.app.agents.opening import resolver_of
from teamwright.app.ground import (
    Ground,
    deserted,
    model_of_resumed,
    surroundings,
    teams_on,
)
from teamwright.app.kit import Kit
from teamwright.app.looking.sessions import LEASE
from teamwright.app.looking.system import mask_secrets
from teamwright.app.making.maker import Maker
from teamwright.app.making.policies import Policies
from teamwright.app.model_settings import model_settings
from teamwright.app.models_of import Models, Play, models_for
from teamwright.app.policy import policy_of
from teamwright.app.serving.making import make_serving
from teamwright.app.shells.making import startup_of
from teamwright.app.skills.places import shelf_of
from teamwright.app.spending.defaults import rounds_of_each
from teamwright.app.spending.purse import Purse
from teamwright.models.effort import asked_effort
from teamwright.models.resolve import key_variables
from teamwright.models.settings import LIMIT_HEADLESS_S
from teamwright.permissions.verdict import Asker
from teamwright.protocol.envelope import new_key
from teamwright.protocol.ids import SessionId
from teamwright.protocol.secret_texts import secrets_in
from teamwright.storage.log import EventLog
from teamwright.storage.log_reader import call_of, last_call
from teamwright.storage.paths import Home
from teamwright.tasks.shared import list_name, share
from teamwright.teams.agents.book import Agents
from teamwright.teams.team import Team
from teamwright.tools.python import python_tools
from teamwright.tools.team.answering import Permits
from teamwright.tools.team.stopping import Stopping


def calls_file(home: Home, cwd: Path, session: SessionId) -> Path:
    """Where the processes of a session count its tool calls together."""
    return home.session(cwd, session) / "calls"


def numbers_of(ground: Ground, log: EventLog) -> CallNumbers:
    """The numbers of tool calls: a session that goes on counts on, and knows those of its earlier lives."""
    made = CallNumbers(last_call(log.path) if ground.resumed else 0, earlier=partial(call_of, log.path))
    together = calls_file(ground.home, ground.cwd, ground.id)
    if ground.room is not None or together.exists():
        made.share(together)
    return made


def jobs_of(ground: Ground, stack: AsyncExitStack) -> BackgroundJobs:
    """The background commands; what an earlier life of the session left running is ended meanwhile."""
    made = BackgroundJobs(session=ground.directory, shown=lambda command: mask_secrets(command, ground.env))
    stack.push_async_callback(made.close)
    made.take_over()
    return made


def kit_of(ground: Ground, jobs: BackgroundJobs, asker: Asker, stopping: Stopping, permits: Permits | None) -> Kit:
    """What makes tools. `asker` is asked what a call needs, `stopping` asks members to stop."""
    settings, options = ground.settings, ground.options
    models = model_settings(settings)
    return Kit(
        jobs,
        asker,
        stopping,
        replace(settings.bash, hidden=(*settings.bash.hidden, *key_variables(models))),
        models,
        _proves_read_only,
        ground.env,
        teams=teams_on(ground),
        attended=not deserted(ground),
        extra=python_tools(options.tools),
        permits=permits,
        shelf=shelf_of(settings, ground.home, ground.trust, ground.places.plugins),
    )


def _proves_read_only(command: str, cwd: Path) -> bool:
    """Whether a shell command is certain to change nothing; the parser loads at the first one."""
    from teamwright.permissions.commands import proves_read_only

    return proves_read_only(command, cwd)


def models_in(ground: Ground, numbers: CallNumbers) -> Models:
    """The models that agents of this process open."""
    options = ground.options
    model = options.model if options.model is not None else model_of_resumed(ground)
    play = Play(options.given, numbers.of, options.pace_s)
    settings = model_settings(ground.settings)
    if options.headless:
        settings = replace(settings, limit_most_s=min(settings.limit_most_s, LIMIT_HEADLESS_S))
    return models_for(model, settings, ground.env, play, ground.home.governors)


def maker_of(ground: Ground, models: Models, purse: Purse, log: EventLog, kit: Kit, numbers: CallNumbers) -> Maker:
    """Makes every agent of this process. `purse` has what their calls may use."""
    options, settings = ground.options, ground.settings
    own = tuple(ground.directory / name for name in ("output", "history"))
    root, compat, trusted = ground.trust.root, settings.compat, ground.trust.trusted
    known = load_instructions(ground.cwd, root, ground.home.ours, compat, trusted)
    made = Maker(
        ground.home,
        ground.id,
        ground.cwd,
        models,
        kit,
        Policies(policy_of(settings, ground.home, ground.cwd, ground.trust, own), ground.definition),
        kit.asker,
        purse,
        log.emit,
        SpawnLimits(settings.limits),
        surroundings(ground),
        known,
        nested=lambda: NestedInstructions(ground.cwd, root, known, compat, trusted).nested_for,
        env=dict(settings.env),
        max_rounds=options.budget.turns,
        each_rounds=rounds_of_each(options, settings.each),
        effort=asked_effort(options.effort),
        appended=options.append_system_prompt,
        tag_key=_tag_key(ground),
        numbers=numbers,
        attended=log.attended,
        compact=settings.compact,
        resolver=resolver_of(ground, log.emit),
    )
    kit.agent_types = partial(made.resolver.kinds.for_tool, made.policies.may_start)
    return made


def _tag_key(ground: Ground) -> str:
    """The key of the runtime's tags: a new one for a new session, else the one in its lead's transcript."""
    if not ground.resumed and ground.room is None:
        return new_key()
    header = read_header(ground.home.transcript(ground.cwd, ground.id))
    return key_in(header or {}) or new_key()


def equip(ground: Ground, log: EventLog, maker: Maker, stack: AsyncExitStack) -> list[str]:
    """The watchdog, the shell's startup, and MCP servers; lines about servers that are left out."""
    kit = maker.kit
    kit.startup = startup_of(ground.home, ground.id, kit.bash, ground.env, log.emit, kit.jobs.records)
    stack.push_async_callback(kit.startup.close)
    maker.watchdog = Watchdog(log.emit, stalled_s=ground.settings.stalled_after_s)
    stack.callback(maker.watchdog.close)
    return make_serving(ground, log, kit, stack)


def team_of(ground: Ground, log: EventLog, maker: Maker) -> Team:
    """The team of this process, with nobody in it yet, and the sub-agents of whoever lives here."""
    made = Team(ground.home, ground.id, ground.cwd, log.emit, maker, maker.limits, ground.settings.team)
    made.lead_policy, made.secrets = maker.policy, secrets_in(ground.env)
    kit, more = maker.kit, (maker.limits, log.emit, ground.settings.agents)
    made.agents = kit.agents = Agents(ground.directory, maker, kit.jobs, *more)
    if (wanted := ground.options.task_list) is not None:
        made.outside.shared_list = list_name(wanted)
        share(ground.home.tasks(made.outside.shared_list))
    made.lease, made.log = str(ground.directory / LEASE), str(ground.directory / "events.jsonl")
    return made
