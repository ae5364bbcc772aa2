"""The loop: one turn of one agent, from what it is told to its final answer.

A function that is handed everything and decides order, nothing else: tell, listen, run the calls, tell again
with whatever arrived in between. Tool failures are values, a model's failure is how a turn ends. Knows the
contracts of this room and of `models`; knows no tool, no team, no screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from teamwright.agent.agent import Agent, TurnEnd
from teamwright.agent.compacting.compact import answer
from teamwright.agent.conversation import INTERRUPTED, PAUSED, Told
from teamwright.agent.tool import ToolResult
from teamwright.models.model import Failure, Refusal
from teamwright.protocol.blocks import Block, ToolCall, text_of, tool_calls, tool_result_block
from teamwright.protocol.usage import UNUSED


async def settle(agent: Agent) -> bool:
    """Answer the calls that a kill left without a result: what may be run again is. Whether that ends the turn."""
    calls = agent.conversation.unanswered()
    return bool(calls) and await answer_calls(agent, calls, agent.toolbox.run_again)


async def run_turn(agent: Agent, opening: Told | None) -> TurnEnd:
    """One turn. `opening` None answers what is still owed.

    Cancelling stores a result for every call that was running, so that the next request is accepted, and is
    re-raised. Raises StorageError when the transcript cannot be written: nothing was lost, nothing is pretended.
    """
    async with agent.compaction.turn:
        agent.activity.works()
        try:
            over = await settle(agent)
            if opening is not None:
                tell(agent, opening)
            elif over:
                return TurnEnd("done")
            return await _rounds(agent)
        finally:
            agent.activity.rests()
            if not agent.conversation.closed:
                agent.catch_up()


async def _rounds(agent: Agent) -> TurnEnd:
    """Listen and answer calls, until there are none."""
    usage, rounds, tools, text = UNUSED, 0, 0, ""
    while True:
        answered = await answer(agent)
        heard = answered.heard
        usage += answered.beside
        usage += UNUSED if isinstance(heard, Refusal) else heard.lost
        if isinstance(heard, Refusal):
            return TurnEnd("limit", text, usage, rounds, limit=heard.limit, tools=tools, reason=heard.why)
        if isinstance(heard, Failure):
            return TurnEnd("failed", text, usage, rounds, failure=heard, tools=tools)
        agent.conversation.reply(heard)
        agent.say("assistant", heard.content, heard.usage)
        rounds += 1
        usage += heard.usage
        if agent.rounds_left is not None:
            agent.rounds_left -= 1
        text = text_of(heard.content) or text
        calls = tool_calls(heard.content)
        agent.ended_round(heard, len(calls), answered.task)
        tools += len(calls)
        if calls:
            if await answer_calls(agent, calls):
                return TurnEnd("done", text, usage, rounds, tools=tools)
            await asyncio.sleep(0)  # a model and tools that never wait must not keep deadlines from running
        elif heard.stop_reason != PAUSED:
            return TurnEnd("done", text, usage, rounds, tools=tools)


NOT_RUN = "The call was not run: the cap on tool calls is spent."

Done: TypeAlias = dict[str, tuple[Block, ToolResult]]
"""Results of a round as they come, by the calls' ids."""


async def answer_calls(
    agent: Agent,
    calls: Sequence[ToolCall],
    run: Callable[[Sequence[ToolCall], Done], Awaitable[None]] | None = None,
) -> bool:
    """Run the calls of a round and tell the results, with whatever arrived meanwhile. Whether the turn is over."""
    done: Done = {}
    try:
        if run is not None:
            await run(calls, done)
        else:
            await agent.toolbox.run_all(calls[: await agent.meter.admit(len(calls))], done)
        over = any(result.ends_turn for _, result in done.values())
        steered = None if over else await agent.steering.between_rounds()
    except BaseException:
        # An interrupt, or an inbox that cannot be read: what was done is told, whatever follows.
        tell(agent, Told(_results(calls, done)))
        raise
    results = _results(calls, done, NOT_RUN if run is None else INTERRUPTED)
    if steered is None:
        tell(agent, Told(results))
    else:
        tell(agent, Told((*results, *steered.texts), steered.ids))
        if steered.seen is not None:
            await steered.seen()
    return over


def tell(agent: Agent, told: Told) -> None:
    """Store what the agent is told, with what it is reminded of, then show it."""
    note = agent.remind(not told.blocks or told.blocks[0]["type"] != "tool_result")
    if note:
        told = replace(told, blocks=(*told.blocks, agent.tags.note(note)))
    agent.conversation.tell(told)
    agent.say("user", told.blocks)


def _results(calls: Sequence[ToolCall], done: Done, otherwise: str = INTERRUPTED) -> tuple[Block, ...]:
    """A result for every call, in their order."""
    return tuple(
        done[call.id][0] if call.id in done else tool_result_block(call.id, otherwise, is_error=True) for call in calls
    )
