"""Past the stops: a turn that a hook does not let end goes on with the hook's reason, a bounded number of times.

Knows the loop; does not know which hook asks, nor whose turn it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from teamwright.agent.agent import Agent, TurnEnd
from teamwright.agent.conversation import Told
from teamwright.agent.loop import run_turn, tell
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import message_id

Turn: TypeAlias = Callable[[Agent, Told | None], Awaitable[TurnEnd]]

MOST_BLOCKS = 8
"""How often in a row a turn may be kept from its end; then it ends, whatever the hook says."""


async def run_past_stops(
    agent: Agent,
    opening: Told | None,
    asks: Callable[[TurnEnd, bool], Awaitable[str]] | None,
    turn: Turn = run_turn,
) -> TurnEnd:
    """A turn, and what hooks add to it. `asks` says why the agent shall go on, empty when it may stop; None: nobody.

    It is given how the turn ended, and whether the agent went on already because of it. `turn` runs one. Raises what
    `run_turn` does.
    """
    end = await turn(agent, opening)
    if asks is None:
        return end
    blocked = 0
    while end.stop == "done" and (why := await asks(end, blocked > 0)):
        if blocked == MOST_BLOCKS:
            text = f"a hook would not let {agent.name} stop {MOST_BLOCKS} times in a row; now it stops"
            agent.emit(Notice(member=agent.name, text=text, level="warning"))
            break
        blocked += 1
        notes = agent.tags.hook_notes([f"A hook does not let you stop yet: {why}"])
        tell(agent, Told(notes, (f"notice:{message_id()}",)))
        end = both(end, await turn(agent, None))
    return end


def both(before: TurnEnd, after: TurnEnd) -> TurnEnd:
    """One turn of two parts."""
    return replace(
        after,
        text=after.text or before.text,
        usage=before.usage + after.usage,
        rounds=before.rounds + after.rounds,
        tools=before.tools + after.tools,
    )
