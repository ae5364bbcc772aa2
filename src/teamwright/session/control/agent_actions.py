"""Actions of a person or a program on the lead or a member of a session, by name.

An agent of this process is changed directly, any other in its own process, with the same results and errors. Depends on
a session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent import Agent
from teamwright.agent.compaction.compact import compact_now
from teamwright.agent.compaction.compaction_state import CompactResult
from teamwright.agent.context_window import ContextView, agent_context
from teamwright.models.model import Model
from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.session.agents.models import ModelChange, change_model, require_affordable
from teamwright.session.control.live_agents import find_live_agent, remote_members
from teamwright.session.control.remote_actions import ALLOW, COMPACT, CONTEXT, MODEL, RELOAD
from teamwright.session.reload_config import ReloadResult
from teamwright.session.session import Session
from teamwright.team_records.life_cycle import BUSY_STATES
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.roster_entries import change_entry, save_budget
from teamwright.teams.teammate import Teammate

NOTHING = "nothing was changed"


async def context_view(session: Session, name: str = "") -> ContextView:
    """Return the present context of the lead, or of that member. Raises UnknownMember naming the nearest,
    InvalidName.
    """
    agent = find_live_agent(session.lead, session.team, name, "nothing was looked at")
    return await CONTEXT.perform_at(agent) if isinstance(agent, ProcessTeammateBase) else agent_context(agent)


# ── compaction ───────────────────────────────────────────────────────────────────────────────────────────────


class PendingCompaction(Struct, frozen=True):
    """A requested compaction; `waits` means that the agent runs it before its next model call."""

    member: str
    waits: bool
    task: asyncio.Task[CompactResult]


async def compact_agent(session: Session, name: str = "", keep: str = "") -> CompactResult:
    """Compact the conversation of the lead or a member, at once or before its next model call, and wait for it.

    `keep` says what the summary must contain. Raises UnknownMember; all other failures are in the result.
    """
    return await _start_compaction(find_live_agent(session.lead, session.team, name, "nothing was compacted"), keep)


def request_compaction(session: Session, name: str = "", keep: str = "") -> PendingCompaction:
    """Request a compaction without waiting for it; it is cancelled with the session. Raises UnknownMember."""
    agent = find_live_agent(session.lead, session.team, name, "nothing was compacted")
    waits = (
        agent.state in BUSY_STATES if isinstance(agent, ProcessTeammateBase) else agent.compaction.turn_lock.locked()
    )
    task = asyncio.create_task(_result(_start_compaction(agent, keep)), name=f"compaction of {agent.name}")
    session.compactions.add(task)
    task.add_done_callback(session.compactions.discard)
    return PendingCompaction(agent.name, waits, task)


async def _result(compacting: Awaitable[CompactResult]) -> CompactResult:
    """Return the result of a compaction that no caller waits for; its member may end before."""
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
    """Clear the lead's conversation; members and all files stay. Raises TeamRefused in a turn."""
    return await session.lead.clear()


# ── another model ────────────────────────────────────────────────────────────────────────────────────────────


async def set_model(session: Session, model: str | Model, member: str = "", by: str = "user") -> ModelChange:
    """Change the model of the lead or of that member, like `change_model`. Also raises UnknownMember."""
    agent = find_live_agent(session.lead, session.team, member, NOTHING)
    if isinstance(agent, ProcessTeammateBase):
        return await _set_remote_model(session, agent, model, by)
    return await change_model(session.team, session.agent_factory, session.models, agent, model, by)


async def set_member_budget(session: Session, teammate: Teammate, budget: Budget) -> Budget:
    """Change the caps of a member, also for a resume, and return those that apply.

    Raises TeamRefused for a member that another program runs.
    """
    team = session.team
    if teammate.name.lower() in team.external.external_names:
        what = f"another program runs {teammate.name}: what it uses is not counted here, and cannot be capped"
        raise TeamRefused("team-refused", what, note=NOTHING)
    if isinstance(teammate, ProcessTeammateBase):
        holds = await ALLOW.perform_at(teammate, budget=budget.as_json())
    else:
        holds = session.agent_factory.budget_tracker.set_budget(teammate.name, budget)
        teammate.note_raised_budget()
    await save_budget(team.state, teammate.name, holds)
    return holds


async def _set_remote_model(
    session: Session, teammate: ProcessTeammateBase, model: str | Model, by: str
) -> ModelChange:
    """Change the model in the member's process, after this process checked the price for the run's cap on money."""
    if not isinstance(model, str):
        raise TeamRefused(
            "team-refused",
            f"{teammate.name} runs in a separate process, which cannot receive a model object",
            do=["name the model, as provider/model"],
            note=NOTHING,
        )
    _, opened = await session.models.choose(model)
    require_affordable(session.agent_factory, teammate.name, opened.card)
    change = await MODEL.perform_at(teammate, model=model, by=by)
    await change_entry(session.team, teammate.name, lambda entry: replace(entry, model=opened.card.name))
    return change


async def models_in_use(session: Session) -> list[tuple[str, str, int]]:
    """Return the lead and all live members: name, model, and the tokens of its window, 0 where unknown here."""
    agents = [session.lead.agent, *(teammate.agent for teammate in session.team.in_process_members)]
    rows = [(agent.name, agent.model.card.name, agent.model.card.context_tokens) for agent in agents]
    for teammate in remote_members(session.team):
        rows.append((teammate.name, teammate.model, await _window(session, teammate.model)))
    return rows


async def _window(session: Session, model: str) -> int:
    try:
        return (await session.models.open(model, "")).card.context_tokens
    except TeamwrightError:
        return 0


# ── configuration that is read again ─────────────────────────────────────────────────────────────────────────


async def reload_session(session: Session) -> ReloadResult:
    """Apply changes of the configuration to all agents, in all processes.

    Raises CannotStart, UsageError; then nothing is changed. A notice reports a member process that fails.
    """
    reloading = session.reloading
    result, fresh = await reloading.apply(
        [session.lead.agent, *(teammate.agent for teammate in session.team.in_process_members)]
    )
    theirs = await asyncio.gather(*(_reload_member(session, teammate) for teammate in remote_members(session.team)))
    result = replace(result, members=(*result.members, *(name for names in theirs for name in names)))
    reloading.notify(result, fresh)
    return result


async def _reload_member(session: Session, teammate: ProcessTeammateBase) -> tuple[str, ...]:
    try:
        return await RELOAD.perform_at(teammate)
    except TeamwrightError as problem:
        text = f"{teammate.name} continues unchanged: {problem.what}"
        session.team.emit(Notice(member=teammate.name, text=text, level="warning"))
        return ()
