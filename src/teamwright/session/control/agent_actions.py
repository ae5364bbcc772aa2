"""What a person at a session, or its program, has done with the lead or with a member, by name.

One whose agent is here has it done here, any other in its own process, with the same outcome and the same errors.
Knows a session; knows no screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from teamwright.agent.agent import Agent
from teamwright.agent.compaction.compact import compact_now
from teamwright.agent.compaction.compaction_state import CompactResult
from teamwright.agent.context_window import ContextView, agent_context
from teamwright.models.model import Model
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.values import dataclass
from teamwright.session.control.remote_actions import COMPACT, CONTEXT, MODEL, RELOAD
from teamwright.session.lookup.live_agents import find_live_agent, remote_members
from teamwright.session.reload.change_model import ModelChange, change_model, require_affordable
from teamwright.session.reload.reload_config import ReloadResult
from teamwright.session.session import Session
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.lifecycle import BUSY_STATES
from teamwright.teams.roster_entries import change_entry

NOTHING = "nothing was changed"


async def context_view(session: Session, name: str = "") -> ContextView:
    """The window of the lead, or of that member, as it is now. Raises UnknownMember naming the nearest, InvalidName."""
    agent = find_live_agent(session, name, "nothing was looked at")
    return await CONTEXT.perform_at(agent) if isinstance(agent, ProcessTeammateBase) else agent_context(agent)


# ── compaction ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PendingCompaction:
    """A compaction that was asked for: `waits` says that the agent does it before its next model call."""

    member: str
    waits: bool
    task: asyncio.Task[CompactResult]


async def compact_agent(session: Session, name: str = "", keep: str = "") -> CompactResult:
    """Compact the conversation of the lead, or of that member, and wait for it: at once, or before its next model call.

    `keep` says what the summary must not lose. Raises UnknownMember; all else that is in the way is in the result.
    """
    return await _start_compaction(find_live_agent(session, name, "nothing was compacted"), keep)


def request_compaction(session: Session, name: str = "", keep: str = "") -> PendingCompaction:
    """The same without waiting; it ends with the session. Raises UnknownMember."""
    agent = find_live_agent(session, name, "nothing was compacted")
    waits = (
        agent.state in BUSY_STATES if isinstance(agent, ProcessTeammateBase) else agent.compaction.turn_lock.locked()
    )
    task = asyncio.create_task(_result(_start_compaction(agent, keep)), name=f"compaction of {agent.name}")
    session.compactions.add(task)
    task.add_done_callback(session.compactions.discard)
    return PendingCompaction(agent.name, waits, task)


async def _result(compacting: Awaitable[CompactResult]) -> CompactResult:
    """What became of it, where nobody waits to be raised at: its member may end meanwhile."""
    try:
        return await compacting
    except TeamwrightError as problem:
        return CompactResult(False, why=problem.what)


async def _start_compaction(agent: Agent | ProcessTeammateBase, keep: str) -> CompactResult:
    return (
        await COMPACT.perform_at(agent, keep=keep)
        if isinstance(agent, ProcessTeammateBase)
        else await compact_now(agent, keep)
    )


async def clear_lead(session: Session) -> CompactResult:
    """Have the lead go on with an empty conversation; members and all on disk stay. Raises TeamRefused in a turn."""
    return await session.lead.clear()


# ── another model ────────────────────────────────────────────────────────────────────────────────────────────


async def set_model(session: Session, model: str | Model, member: str = "", by: str = "user") -> ModelChange:
    """Another model for the lead, or for that member; the rest as `change_model`. Raises UnknownMember also."""
    agent = find_live_agent(session, member, NOTHING)
    if isinstance(agent, ProcessTeammateBase):
        return await _set_remote_model(session, agent, model, by)
    return await change_model(session.team, session.maker, session.models, agent, model, by)


async def _set_remote_model(session: Session, mate: ProcessTeammateBase, model: str | Model, by: str) -> ModelChange:
    """In its own process; what the run's cap on money needs to know is asked here first."""
    if not isinstance(model, str):
        raise TeamRefused(
            "team-refused",
            f"{mate.name} runs in a separate process, which cannot receive a model object",
            do=["name the model, as provider/model"],
            note=NOTHING,
        )
    _, opened = await session.models.choose(model)
    require_affordable(session.maker, mate.name, opened.card)
    made = await MODEL.perform_at(mate, model=model, by=by)
    await change_entry(session.team, mate.name, lambda entry: replace(entry, model=opened.card.name))
    return made


async def models_in_use(session: Session) -> list[tuple[str, str, int]]:
    """The lead and everybody alive: name, model, and the tokens of its window, 0 where that is not known here."""
    agents = [session.lead.agent, *(mate.agent for mate in session.team.in_process_members)]
    rows = [(agent.name, agent.model.card.name, agent.model.card.context_tokens) for agent in agents]
    for mate in remote_members(session):
        rows.append((mate.name, mate.model, await _window(session, mate.model)))
    return rows


async def _window(session: Session, model: str) -> int:
    try:
        return (await session.models.open(model, "")).card.context_tokens
    except TeamwrightError:
        return 0


# ── configuration that is read again ─────────────────────────────────────────────────────────────────────────


async def reload_session(session: Session) -> ReloadResult:
    """Take over what is different in the configuration, for everybody, wherever they live.

    Raises CannotStart, UsageError; nothing is changed then. A member's own process that cannot is told of in a notice.
    """
    reloading = session.reloading
    made, fresh = await reloading.apply([session.lead.agent, *(mate.agent for mate in session.team.in_process_members)])
    theirs = await asyncio.gather(*(_reload_member(session, mate) for mate in remote_members(session)))
    made = replace(made, members=(*made.members, *(name for names in theirs for name in names)))
    reloading.notify(made, fresh)
    return made


async def _reload_member(session: Session, mate: ProcessTeammateBase) -> tuple[str, ...]:
    try:
        return await RELOAD.perform_at(mate)
    except TeamwrightError as problem:
        text = f"{mate.name} continues unchanged: {problem.what}"
        session.team.emit(Notice(member=mate.name, text=text, level="warning"))
        return ()
