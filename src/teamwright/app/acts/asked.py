"""What a person at a session, or its program, has done with the lead or with a member, by name.

One whose agent is here has it done here, any other in its own process, with the same outcome and the same errors.
Knows a session; knows no screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from teamwright.agent.agent import Agent
from teamwright.agent.compacting.compact import compact_now
from teamwright.agent.compacting.state import Shortened
from teamwright.app.acts.table import COMPACT, CONTEXT, MODEL, RELOAD
from teamwright.app.acts.whom import away, whom
from teamwright.app.looking.context import ContextView, view_of
from teamwright.app.renewing.model import ModelSet, change_model, require_affordable
from teamwright.app.renewing.reload import Reload
from teamwright.app.session import Session
from teamwright.models.model import Model
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.values import dataclass
from teamwright.teams.lifecycle import BUSY
from teamwright.teams.member.away import Away
from teamwright.teams.own_entries import change_entry

NOTHING = "nothing was changed"


async def context_view(session: Session, name: str = "") -> ContextView:
    """The window of the lead, or of that member, as it is now. Raises UnknownMember naming the nearest, InvalidName."""
    agent = whom(session, name, "nothing was looked at")
    return await CONTEXT.at(agent) if isinstance(agent, Away) else view_of(agent)


# ── compaction ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Begun:
    """A compaction that was asked for: `waits` says that the agent does it before its next model call."""

    member: str
    waits: bool
    task: asyncio.Task[Shortened]


async def compact_agent(session: Session, name: str = "", keep: str = "") -> Shortened:
    """Compact the conversation of the lead, or of that member, and wait for it: at once, or before its next model call.

    `keep` says what the summary must not lose. Raises UnknownMember; all else that is in the way is in the result.
    """
    return await _compacting(whom(session, name, "nothing was compacted"), keep)


def begin_compacting(session: Session, name: str = "", keep: str = "") -> Begun:
    """The same without waiting; it ends with the session. Raises UnknownMember."""
    agent = whom(session, name, "nothing was compacted")
    waits = agent.state in BUSY if isinstance(agent, Away) else agent.compaction.turn.locked()
    task = asyncio.create_task(_result(_compacting(agent, keep)), name=f"compaction of {agent.name}")
    session.compactions.add(task)
    task.add_done_callback(session.compactions.discard)
    return Begun(agent.name, waits, task)


async def _result(compacting: Awaitable[Shortened]) -> Shortened:
    """What became of it, where nobody waits to be raised at: its member may end meanwhile."""
    try:
        return await compacting
    except TeamwrightError as problem:
        return Shortened(False, why=problem.what)


async def _compacting(agent: Agent | Away, keep: str) -> Shortened:
    return await COMPACT.at(agent, keep=keep) if isinstance(agent, Away) else await compact_now(agent, keep)


async def clear_lead(session: Session) -> Shortened:
    """Have the lead go on with an empty conversation; members and all on disk stay. Raises TeamRefused in a turn."""
    return await session.lead.clear()


# ── another model ────────────────────────────────────────────────────────────────────────────────────────────


async def set_model(session: Session, model: str | Model, member: str = "", by: str = "user") -> ModelSet:
    """Another model for the lead, or for that member; the rest as `change_model`. Raises UnknownMember also."""
    agent = whom(session, member, NOTHING)
    if isinstance(agent, Away):
        return await _set_away(session, agent, model, by)
    return await change_model(session.team, session.maker, session.models, agent, model, by)


async def _set_away(session: Session, mate: Away, model: str | Model, by: str) -> ModelSet:
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
    made = await MODEL.at(mate, model=model, by=by)
    await change_entry(session.team, mate.name, lambda entry: replace(entry, model=opened.card.name))
    return made


async def models_in_use(session: Session) -> list[tuple[str, str, int]]:
    """The lead and everybody alive: name, model, and the tokens of its window, 0 where that is not known here."""
    agents = [session.lead.agent, *(mate.agent for mate in session.team.own_live)]
    rows = [(agent.name, agent.model.card.name, agent.model.card.context_tokens) for agent in agents]
    for mate in away(session):
        rows.append((mate.name, mate.model, await _window(session, mate.model)))
    return rows


async def _window(session: Session, model: str) -> int:
    try:
        return (await session.models.open(model, "")).card.context_tokens
    except TeamwrightError:
        return 0


# ── configuration that is read again ─────────────────────────────────────────────────────────────────────────


async def reload_session(session: Session) -> Reload:
    """Take over what is different in the configuration, for everybody, wherever they live.

    Raises CannotStart, UsageError; nothing is changed then. A member's own process that cannot is told of in a notice.
    """
    reloading = session.reloading
    made, fresh = await reloading.take_over([session.lead.agent, *(mate.agent for mate in session.team.own_live)])
    theirs = await asyncio.gather(*(_reloaded(session, mate) for mate in away(session)))
    made = replace(made, members=(*made.members, *(name for names in theirs for name in names)))
    reloading.tell(made, fresh)
    return made


async def _reloaded(session: Session, mate: Away) -> tuple[str, ...]:
    try:
        return await RELOAD.at(mate)
    except TeamwrightError as problem:
        text = f"{mate.name} continues unchanged: {problem.what}"
        session.team.emit(Notice(member=mate.name, text=text, level="warning"))
        return ()
