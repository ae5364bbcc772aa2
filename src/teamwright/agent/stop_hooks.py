"""Past the stops: a turn that a hook does not let end goes on with the hook's reason, a bounded number of times.

Knows the loop; does not know which hook asks, nor whose turn it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from teamwright.agent.agent import Agent, TurnEnd
from teamwright.agent.conversation import UserMessage
from teamwright.agent.loop import append_user_message, run_turn
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import message_id

RunTurn: TypeAlias = Callable[[Agent, UserMessage | None], Awaitable[TurnEnd]]

MAX_BLOCKS = 8
"""How often in a row a turn may be kept from its end; then it ends, whatever the hook says."""


async def run_turn_with_stop_hooks(
    agent: Agent,
    message: UserMessage | None,
    ask_hooks: Callable[[TurnEnd, bool], Awaitable[str]] | None,
    turn: RunTurn = run_turn,
) -> TurnEnd:
    """A turn, and what hooks add to it. `asks` says why the agent shall go on, empty when it may stop; None: nobody.

    It is given how the turn ended, and whether the agent went on already because of it. `turn` runs one. Raises what
    `run_turn` does.
    """
    end = await turn(agent, message)
    if ask_hooks is None:
        return end
    blocked = 0
    while end.stop == "done" and (why := await ask_hooks(end, blocked > 0)):
        if blocked == MAX_BLOCKS:
            text = f"a hook would not let {agent.name} stop {MAX_BLOCKS} times in a row; now it stops"
            agent.emit(Notice(member=agent.name, text=text, level="warning"))
            break
        blocked += 1
        notes = agent.tags.hook_notes([f"A hook does not let you stop yet: {why}"])
        append_user_message(agent, UserMessage(notes, (f"notice:{message_id()}",)))
        end = join_turns(end, await turn(agent, None))
    return end


def join_turns(before: TurnEnd, after: TurnEnd) -> TurnEnd:
    """One turn of two parts."""
    return replace(
        after,
        text=after.text or before.text,
        usage=before.usage + after.usage,
        model_calls=before.model_calls + after.model_calls,
        tool_calls=before.tool_calls + after.tool_calls,
    )
