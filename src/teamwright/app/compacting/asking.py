"""A person, or a program, asks for a compaction: of the lead, or of a member, by name.

Knows a session; knows no screen. The agent itself says in its events what becomes of it.
"""

from __future__ import annotations

import asyncio

from teamwright.agent.agent import Agent
from teamwright.agent.compacting.compact import compact_now
from teamwright.agent.compacting.state import Shortened
from teamwright.app.session import Session
from teamwright.protocol.errors import UnknownMember
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, addressee, nearest


def agent_of(session: Session, name: str = "", note: str = "nothing was compacted") -> Agent:
    """The lead, or the live member of that name. Raises UnknownMember naming the nearest, InvalidName."""
    if not name or addressee(name) == LEAD:
        return session.lead.agent
    mate = session.team.own(addressee(name))
    if mate is not None:
        return mate.agent
    names = [LEAD_ALIAS, *(one.name for one in session.team.live)]
    close = nearest(name, names)
    raise UnknownMember(
        "unknown-member",
        f'"{name}" is not in the team',
        looked_at=[("members", ", ".join(names))],
        do=[f"did you mean {close}?"] if close else [],
        note=note,
    )


async def compact_agent(session: Session, name: str = "", keep: str = "") -> Shortened:
    """Compact the conversation of the lead, or of that member, and wait for it: at once, or before its next model call.

    `keep` says what the summary must not lose. Raises UnknownMember; all else that is in the way is in the result.
    """
    return await compact_now(agent_of(session, name), keep)


def begin_compacting(session: Session, name: str = "", keep: str = "") -> tuple[Agent, asyncio.Task[Shortened]]:
    """The same without waiting; it ends with the session. Raises UnknownMember."""
    agent = agent_of(session, name)
    task = asyncio.create_task(compact_now(agent, keep), name=f"compaction of {agent.name}")
    session.compactions.add(task)
    task.add_done_callback(session.compactions.discard)
    return agent, task
