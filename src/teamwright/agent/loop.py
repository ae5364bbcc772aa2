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

from teamwright.agent.agent import REPEATS, Agent, TurnEnd
from teamwright.agent.compacting.compact import answer
from teamwright.agent.conversation import INTERRUPTED, Told
from teamwright.agent.guards.asked_again import AskedAgain
from teamwright.agent.guards.repeats import Repeats, now
from teamwright.agent.listening import CALL_NOTE, is_call_as_text
from teamwright.agent.tool import ToolResult
from teamwright.models.ends import ENDS, End, kept_of
from teamwright.models.model import Failure, Refusal, Reply
from teamwright.protocol.blocks import Block, ToolCall, text_of, tool_calls, tool_result_block
from teamwright.protocol.usage import UNUSED, Usage
from teamwright.protocol.values import dataclass


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


@dataclass(slots=True)
class _SoFar:
    """The state of a turn so far."""

    usage: Usage = UNUSED
    rounds: int = 0
    tools: int = 0
    text: str = ""
    end: str = ""
    joins: bool = False
    """True when the newest text continues in the next answer."""

    def ends(self, stop: str, *, failure: Failure | None = None, refusal: Refusal | None = None) -> TurnEnd:
        limit, reason = (refusal.limit, refusal.why) if refusal is not None else ("", "")
        made = TurnEnd(stop, self.text, self.usage, self.rounds, failure, limit, self.tools, reason)
        return replace(made, end=self.end)

    def take(self, agent: Agent, answer: Reply, end: End, task: str) -> list[ToolCall]:
        """Store what is kept of an answer, count it and show it; the calls of it that are run."""
        self.end = str(end)
        content = kept_of(answer.content, end)
        if content:
            agent.conversation.reply(
                answer if len(content) == len(answer.content) else replace(answer, content=content)
            )
            agent.say("assistant", content, answer)
        self.rounds += 1
        self.usage += answer.usage
        if agent.rounds_left is not None:
            agent.rounds_left -= 1
        calls, words = tool_calls(content), text_of(content)
        if words:
            self.text = self.text + words if self.joins else words
        self.joins = end is End.LENGTH and not calls
        agent.ended_round(answer, len(calls), task)
        self.tools += len(calls)
        return calls


async def _rounds(agent: Agent) -> TurnEnd:
    """Listen and answer calls, until there are none. What follows from an answer's end is a row of `ENDS`."""
    so_far, again = _SoFar(), AskedAgain()
    places = agent.toolbox.workplace
    repeats = Repeats(lambda: (places.cwd, *places.roots, *agent.watched()), agent.toolbox.waits)
    while True:
        answered = await answer(agent)
        heard = answered.heard
        so_far.usage += answered.beside
        if isinstance(heard, Refusal):
            return so_far.ends("limit", refusal=heard)
        so_far.usage += heard.lost
        if isinstance(heard, Failure):
            so_far.text = text_of(heard.partial) or so_far.text
            return so_far.ends("failed", failure=heard)
        end = heard.end
        calls, note = so_far.take(agent, heard, end, answered.task), ENDS[end].note
        if calls:
            if await answer_calls(agent, calls, note=note, repeats=repeats):
                return so_far.ends("done")
            if repeats.why:
                return so_far.ends("limit", refusal=Refusal(REPEATS, repeats.why))
            await asyncio.sleep(0)  # a model and tools that never wait must not keep deadlines from running
        elif (failure := again.failure(heard, end, agent.model.card)) is not None:
            return so_far.ends("failed", failure=failure)
        elif end is End.DONE and not (is_call_as_text(heard.content) and again.may_call_again(agent)):
            return so_far.ends("done")
        elif end is End.DONE:
            tell(agent, Told((agent.tags.note(CALL_NOTE),)))
        elif note:
            tell(agent, Told((agent.tags.note(note),)))


NOT_RUN = "The call was not run: the cap on tool calls is spent."

Done: TypeAlias = dict[str, tuple[Block, ToolResult]]
"""Results of a round as they come, by the calls' ids."""


async def answer_calls(
    agent: Agent,
    calls: Sequence[ToolCall],
    run: Callable[[Sequence[ToolCall], Done], Awaitable[None]] | None = None,
    *,
    note: str = "",
    repeats: Repeats | None = None,
) -> bool:
    """Run the calls of a round and append the results, with messages that have arrived. Return True at the turn's end.

    `note` follows the results; `repeats` says when they are the same again and again.
    """
    done: Done = {}
    began = now()
    try:
        if run is not None:
            await run(calls, done)
        else:
            await agent.toolbox.run_all(calls[: await agent.meter.admit(len(calls))], done)
        over = any(result.ends_turn for _, result in done.values())
        steered = None if over else await agent.steering.between_rounds()
        if repeats is not None and steered is None:
            results = {id: result for id, (_, result) in done.items()}
            note = " ".join(filter(None, (note, await repeats.note(calls, results, began))))
        elif repeats is not None:
            repeats.forget()
    except BaseException:
        # An interrupt, or an inbox that cannot be read: what was done is told, whatever follows.
        tell(agent, Told(_results(calls, done)))
        raise
    told = _results(calls, done, NOT_RUN if run is None else INTERRUPTED)
    told += (agent.tags.note(note),) if note else ()
    if steered is None:
        tell(agent, Told(told))
    else:
        tell(agent, Told((*told, *steered.texts), steered.ids))
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
