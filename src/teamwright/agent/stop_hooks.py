"""Stop hooks: a turn that a hook blocks from ending continues with the hook's reason, a bounded number of times.

Depends on the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec.structs import replace

from teamwright.agent.agent import Agent, TurnEnd
from teamwright.agent.conversation import UserMessage
from teamwright.agent.loop import append_user_message
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import message_id

RunTurn: TypeAlias = Callable[[Agent, UserMessage | None], Awaitable[TurnEnd]]

MAX_BLOCKS = 8
"""The number of blocks in a row after which a turn ends anyway."""


async def run_turn_with_stop_hooks(
    agent: Agent,
    message: UserMessage | None,
    ask_hooks: Callable[[TurnEnd, bool], Awaitable[str]] | None,
    turn: RunTurn,
) -> TurnEnd:
    """Run a turn and what stop hooks add to it. `ask_hooks` returns the reason to continue, empty to stop;

    None: no hooks. It receives the end of the turn and whether the agent has continued before because of a hook. `turn`
    runs one turn. Raises the errors of `run_turn`.
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
    """Join two parts of a turn into one."""
    return replace(
        after,
        text=after.text or before.text,
        usage=before.usage + after.usage,
        model_calls=before.model_calls + after.model_calls,
        tool_calls=before.tool_calls + after.tool_calls,
    )
