"""Actions of a person or a program on the lead or a member of a session: one table, `ACTIONS`.

`Action.on` runs a row on an agent: here if the agent lives in this process, otherwise over the socket in the process of
the member, with the same result and the same errors. Slash commands, the Python API, clients and the member's own
terminal use the rows. Ends, modes and messages go through the team, which has other ways for them to reach a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from teamwright.agent.agent import Agent
from teamwright.agent.background_jobs import Job, RunningCommand
from teamwright.agent.compaction import compact_now
from teamwright.agent.compaction_state import CompactResult
from teamwright.agent.context_window import ContextView, agent_context
from teamwright.agent.side_question import ask_side_question
from teamwright.models.model import Failure, Model
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.event_json import usage_from_json, usage_to_json
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import display_name
from teamwright.protocol.usage import Budget
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.agents.model_change import ModelChange, change_model, require_affordable
from teamwright.session.agents.model_sources import SessionModels
from teamwright.session.control.live_agents import find_live_agent, remote_members
from teamwright.session.reload_config import ConfigReloader, ReloadResult
from teamwright.session.session import Session
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.team_records.life_cycle import BUSY_STATES
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.spawn import change_entry, save_budget
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate

T = TypeVar("T")
Arguments = Mapping[str, Any]
"""The arguments of an action, or its result, as JSON."""

NOTHING = "nothing was changed"
BY_USER = "stopped by the user"
BY_PERSON = "user"


class ActionContext(Struct, frozen=True):
    """The agent of an action, and the parts of the process in which it lives."""

    team: SessionTeam
    agent_factory: AgentFactory
    models: SessionModels
    agent: Agent
    reloading: Callable[[], ConfigReloader]


class Action(Struct, Generic[T], frozen=True):
    """One action. `run` runs it with JSON arguments; `encode` and `decode` are for its result as JSON.

    `unchanged` says in errors what did not happen. Raises TeamwrightError on both sides alike.
    """

    name: str
    run: Callable[[ActionContext, Arguments], Awaitable[T]]
    encode: Callable[[T], Arguments]
    decode: Callable[[Arguments], T]
    unchanged: str = NOTHING

    def find(self, session: Session, name: str) -> Agent | ProcessTeammateBase:
        """Return the agent of that name, the lead for an empty one.

        Raises UnknownMember naming the nearest, InvalidName, and TeamRefused for a member that another program runs.
        """
        return find_live_agent(session.lead, session.team, name, self.unchanged)

    async def on(self, session: Session, agent: Agent | ProcessTeammateBase, **arguments: Any) -> T:
        """Run the action on an agent of the session, in the process where it lives. Raises its errors, and TeamRefused
        when that process is unreachable.
        """
        if isinstance(agent, ProcessTeammateBase):
            return self.decode(await agent.perform(self.name, **arguments))
        here = ActionContext(session.team, session.agent_factory, session.models, agent, lambda: session.reloading)
        return await self.run(here, arguments)


# ── jobs of this process ─────────────────────────────────────────────────────────────────────────────────────


def describe_job(task: SubagentRun | Job) -> str:
    """Return the description of a job in a line."""
    if not isinstance(task, Job):
        return f"{task.id} {task.description or task.agent_type}"
    waits = ", silent: it seems to wait for an input" if task.state == "running" and task.seems_to_wait else ""
    return f"{task.id} {task.description or task.command}{waits}"


def list_running(agent_factory: AgentFactory, owner: str) -> list[str]:
    """Return the running sub-agents, then the background commands, of this owner, a line each."""
    agents = agent_factory.toolset.agents
    jobs = agent_factory.toolset.jobs
    runs = [f"{describe_job(run)}{'' if run.background else ', waited for'}" for run in agents.running_runs(owner)]
    return [*runs, *(describe_job(job) for job in jobs.list(owner) if job.state == "running")]


def running_command(agent_factory: AgentFactory, owner: str) -> RunningCommand | None:
    """Return the newest command that this agent waits for; None without one, and for agents of other processes."""
    return agent_factory.toolset.jobs.foreground_command(owner)


def running_ids(agent_factory: AgentFactory) -> list[str]:
    """Return the ids of all running jobs."""
    return [
        one.id
        for one in (*agent_factory.toolset.agents.running_runs(), *agent_factory.toolset.jobs.list())
        if one.state == "running"
    ]


def find_job(agent_factory: AgentFactory, name: str) -> SubagentRun | Job | None:
    """Return the sub-agent of that id or name, or the command of that id, also an ended one; None for unknown names."""
    return agent_factory.toolset.agents.find(name) or agent_factory.toolset.jobs.find(name)


async def stop_running(agent_factory: AgentFactory, found: SubagentRun | Job) -> str:
    """Stop a job and notify its owner. Return the result in a line."""
    what = describe_job(found)
    if found.state != "running" and not (isinstance(found, SubagentRun) and found.is_resuming):
        return f"{what} does not run: it is {found.state}"
    if isinstance(found, SubagentRun):
        await agent_factory.toolset.agents.stop(found, BY_USER)
    else:
        await agent_factory.toolset.jobs.stop(found.id)
    return f"{what} was stopped"


def list_foreground(agent_factory: AgentFactory) -> list[str]:
    """Return what agents wait for, sub-agents first, a line each. The first word of a line is its name."""
    runs = [
        f"{describe_job(run)} ({display_name(run.owner)} waits for it)"
        for run in agent_factory.toolset.agents.running_runs(background=False)
    ]
    commands = agent_factory.toolset.jobs.foreground_commands()
    return [*runs, *(f"{one.call} {one.text} ({display_name(one.owner)} waits for it)" for one in commands)]


def move_to_background(agent_factory: AgentFactory, name: str = "", owner: str = "") -> list[str] | None:
    """Move what is waited for to the background: the sub-agent of that name, the command of that call (`cN`), or what
    that owner itself waits for.

    Returns it as shown to people; None for an unknown name.
    """
    agents = agent_factory.toolset.agents
    jobs = agent_factory.toolset.jobs
    if name:
        chosen = agents.find(name)
        if chosen is None:
            return jobs.move_to_background(call=name) or None
        return [describe_job(chosen)] if agents.move_to_background(chosen) else []
    moved = [run for run in agents.running_runs(owner, background=False) if agents.move_to_background(run)]
    return [*map(describe_job, moved), *jobs.move_to_background(owner)]


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────


async def _context(here: ActionContext, _arguments: Arguments) -> ContextView:
    return agent_context(here.agent)


async def _compact(here: ActionContext, arguments: Arguments) -> CompactResult:
    return await compact_now(here.agent, str(arguments["keep"]))


async def _model(here: ActionContext, arguments: Arguments) -> ModelChange:
    return await change_model(
        here.team, here.agent_factory, here.models, here.agent, str(arguments["model"]), str(arguments["by"])
    )


async def _reload(here: ActionContext, _arguments: Arguments) -> tuple[str, ...]:
    result, _ = await here.reloading().apply([here.agent])
    return result.members


async def _running(here: ActionContext, _arguments: Arguments) -> tuple[str, ...]:
    return tuple(list_running(here.agent_factory, here.agent.name))


async def _foreground(here: ActionContext, _arguments: Arguments) -> tuple[str, ...]:
    return tuple(list_foreground(here.agent_factory))


async def _background(here: ActionContext, arguments: Arguments) -> tuple[str, ...] | None:
    name = str(arguments["name"])
    moved = move_to_background(here.agent_factory, name, "" if name else here.agent.name)
    return None if moved is None else tuple(moved)


async def _stop(here: ActionContext, arguments: Arguments) -> str | None:
    found = find_job(here.agent_factory, str(arguments["name"]))
    return None if found is None or found.state != "running" else await stop_running(here.agent_factory, found)


async def _ask(here: ActionContext, arguments: Arguments) -> str:
    return await ask_side_question(here.agent, str(arguments["question"]), str(arguments["by"]))


async def _allow(here: ActionContext, arguments: Arguments) -> Budget:
    holds = here.agent_factory.budget_tracker.set_budget(here.agent.name, Budget.from_json(arguments["budget"]))
    if (teammate := here.team.find(here.agent.name)) is not None:
        teammate.note_raised_budget()
    return holds


def _encode_compaction(result: CompactResult) -> Arguments:
    failure = None if result.failure is None else {"slug": result.failure.slug, "what": result.failure.what}
    plain = {name: getattr(result, name) for name in ("done", "before", "after", "why", "summary", "limit")}
    return {**plain, "failure": failure, "usage": usage_to_json(result.usage)}


def _decode_compaction(fields: Arguments) -> CompactResult:
    failure = None if fields["failure"] is None else Failure(**fields["failure"])
    values: dict[str, Any] = {**fields, "failure": failure, "usage": usage_from_json(fields["usage"])}
    return CompactResult(**values)


def _encode_lines(lines: tuple[str, ...] | None) -> Arguments:
    return {"lines": lines}


def _decode_lines(fields: Arguments) -> tuple[str, ...]:
    return tuple(fields["lines"])


CONTEXT = Action("context", _context, to_builtins, partial(convert, type=ContextView), "nothing was looked at")
"""Return the content of the context window."""
COMPACT = Action("compact", _compact, _encode_compaction, _decode_compaction, "nothing was compacted")
"""Compact the conversation; `keep` says what the summary must contain."""
MODEL = Action("model", _model, to_builtins, partial(convert, type=ModelChange))
"""Change the model to `model`, a name, from the next call on, for `by`."""
RELOAD = Action("reload", _reload, _encode_lines, _decode_lines)
"""Reload the configuration of the process; return the agents that get a new prefix."""
RUNNING = Action("running", _running, _encode_lines, _decode_lines)
"""Return the running sub-agents and commands, a line each."""
BACKGROUND = Action(
    "background",
    _background,
    _encode_lines,
    lambda fields: None if fields["lines"] is None else _decode_lines(fields),
)
"""Move to the background what the member itself waits for, or what has that `name`. None: unknown name."""
FOREGROUND = Action("foreground", _foreground, _encode_lines, _decode_lines)
"""Return what the member and its sub-agents wait for, a line each."""
STOP = Action("stop", _stop, lambda what: {"what": what}, lambda fields: fields["what"])
"""Stop the sub-agent or command of that `name`. Return the result; None when no running job has the name."""
ALLOW = Action(
    "allow", _allow, lambda holds: {"budget": holds.as_json()}, lambda fields: Budget.from_json(fields["budget"])
)
"""Change the caps that `budget` contains; return the resulting caps."""
ASK = Action("ask", _ask, lambda text: {"text": text}, lambda fields: str(fields["text"]), "nothing was asked")
"""Answer the `question` of a person, asked `by` someone, beside the work of the member."""

ACTIONS: Mapping[str, Action[Any]] = {
    act.name: act for act in (CONTEXT, COMPACT, MODEL, RELOAD, RUNNING, BACKGROUND, FOREGROUND, STOP, ALLOW, ASK)
}


async def perform(here: ActionContext, name: str, arguments: Arguments) -> Arguments | None:
    """Run an action that came over the socket, and return its result; None for an unknown one. Raises
    TeamwrightError.
    """
    act = ACTIONS.get(name)
    return None if act is None else act.encode(await act.run(here, arguments))


# ── the actions as a person and the API call them ────────────────────────────────────────────────────────────


async def context_view(session: Session, name: str = "") -> ContextView:
    """Return the present context of the lead, or of that member. Raises as `Action.find`."""
    return await CONTEXT.on(session, CONTEXT.find(session, name))


async def compact_agent(session: Session, name: str = "", keep: str = "") -> CompactResult:
    """Compact the conversation of the lead or a member, at once or before its next model call, and wait for it.

    `keep` says what the summary must contain. Raises UnknownMember; all other failures are in the result.
    """
    return await COMPACT.on(session, COMPACT.find(session, name), keep=keep)


class PendingCompaction(Struct, frozen=True):
    """A requested compaction; `waits` means that the agent runs it before its next model call."""

    member: str
    waits: bool
    task: asyncio.Task[CompactResult]


def request_compaction(session: Session, name: str = "", keep: str = "") -> PendingCompaction:
    """Request a compaction without waiting for it; it is cancelled with the session. Raises UnknownMember."""
    agent = COMPACT.find(session, name)
    waits = (
        agent.state in BUSY_STATES if isinstance(agent, ProcessTeammateBase) else agent.compaction.turn_lock.locked()
    )

    async def compact() -> CompactResult:
        try:
            return await COMPACT.on(session, agent, keep=keep)
        except TeamwrightError as problem:  # no caller waits, and the member may end before
            return CompactResult(False, why=problem.what)

    task = asyncio.create_task(compact(), name=f"compaction of {agent.name}")
    session.compactions.add(task)
    task.add_done_callback(session.compactions.discard)
    return PendingCompaction(agent.name, waits, task)


async def clear_lead(session: Session) -> CompactResult:
    """Clear the lead's conversation; members and all files stay. Raises TeamRefused in a turn."""
    return await session.lead.clear()


async def set_model(session: Session, model: str | Model, member: str = "", by: str = "user") -> ModelChange:
    """Change the model of the lead or of that member, like `change_model`. Also raises as `Action.find`.

    For a member in another process this one checks the price for the run's cap on money, and changes the roster.
    """
    agent = MODEL.find(session, member)
    if not isinstance(agent, ProcessTeammateBase):
        return await change_model(session.team, session.agent_factory, session.models, agent, model, by)
    if not isinstance(model, str):
        raise TeamRefused(
            "team-refused",
            f"{agent.name} runs in a separate process, which cannot receive a model object",
            do=["name the model, as provider/model"],
            note=NOTHING,
        )
    _, opened = await session.models.choose(model)
    require_affordable(session.agent_factory, agent.name, opened.card)
    change = await MODEL.on(session, agent, model=model, by=by)
    await change_entry(session.team, agent.name, lambda entry: replace(entry, model=opened.card.name))
    return change


async def models_in_use(session: Session) -> list[tuple[str, str, int]]:
    """Return the lead and all live members: name, model, and the tokens of its window, 0 where unknown here."""
    agents = [session.lead.agent, *(teammate.agent for teammate in session.team.in_process_members)]
    rows = [(agent.name, agent.model.card.name, agent.model.card.context_tokens) for agent in agents]
    for teammate in remote_members(session.team):
        window = 0
        with suppress(TeamwrightError):
            window = (await session.models.open(teammate.model, "")).card.context_tokens
        rows.append((teammate.name, teammate.model, window))
    return rows


async def set_member_budget(session: Session, teammate: Teammate, budget: Budget) -> Budget:
    """Change the caps of a member, also for a resume, and return those that apply.

    Raises TeamRefused for a member that another program runs.
    """
    team = session.team
    if teammate.name.lower() in team.external.external_names:
        what = f"another program runs {teammate.name}: what it uses is not counted here, and cannot be capped"
        raise TeamRefused("team-refused", what, note=NOTHING)
    holds = await ALLOW.on(session, ALLOW.find(session, teammate.name), budget=budget.as_json())
    await save_budget(team.state, teammate.name, holds)
    return holds


async def ask_agent(session: Session, question: str, name: str = "", by: str = BY_PERSON) -> str:
    """Ask the lead or a member a question in passing, also while it works, and return the answer.

    Raises UnknownMember, as `ask_side_question`, and TeamRefused when the session ends before the answer.
    """
    agent = ASK.find(session, name)
    task = asyncio.create_task(ASK.on(session, agent, question=question, by=by), name=f"side question to {agent.name}")
    session.side_questions.add(task)
    task.add_done_callback(session.side_questions.discard)
    try:
        return await task
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if own is not None and own.cancelling():
            raise
        raise TeamRefused("team-refused", "the session ended before the answer to the question") from None


async def reload_session(session: Session) -> ReloadResult:
    """Apply changes of the configuration to all agents, in all processes.

    Raises CannotStart, UsageError; then nothing is changed. A notice reports a member process that fails.
    """

    async def reload_member(teammate: ProcessTeammateBase) -> tuple[str, ...]:
        try:
            return await RELOAD.on(session, teammate)
        except TeamwrightError as problem:
            text = f"{teammate.name} continues unchanged: {problem.what}"
            session.team.emit(Notice(member=teammate.name, text=text, level="warning"))
            return ()

    reloading = session.reloading
    result, fresh = await reloading.apply(
        [session.lead.agent, *(teammate.agent for teammate in session.team.in_process_members)]
    )
    theirs = await asyncio.gather(*map(reload_member, remote_members(session.team)))
    result = replace(result, members=(*result.members, *(name for names in theirs for name in names)))
    reloading.notify(result, fresh)
    return result
