"""The loop: one turn of one agent, from what it is told to its final answer.

A function that is handed everything and decides order, nothing else: tell, listen, run the calls, tell again
with whatever arrived in between. Tool failures are values, a model's failure is how a turn ends. Knows the
contracts of this room and of `models`; knows no tool, no team, no screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from teamwright.agent.activity import Activity
from teamwright.agent.conversation import INTERRUPTED, PAUSED, Conversation, Told
from teamwright.agent.hooked import UNHOOKED, AgentHooks
from teamwright.agent.plan_mode import PlanMode
from teamwright.agent.reminders import Remind, nothing
from teamwright.agent.tool import ToolResult
from teamwright.agent.toolbox import NO_TOOLS, Toolbox
from teamwright.models.model import (
    Alive,
    Failure,
    Meter,
    Model,
    Prefix,
    Refusal,
    Reply,
    Request,
    Retrying,
    TextPart,
    priced,
)
from teamwright.permissions.decide import Policy
from teamwright.protocol.blocks import Block, ToolCall, text_of, tool_calls, tool_result_block, with_own_ids
from teamwright.protocol.events import Attended, Emit, Notice, RoundEnded, Spoken, TextDelta, always
from teamwright.protocol.usage import Usage


@dataclass(frozen=True, slots=True)
class Steered:
    """What arrived between rounds: texts and the ids they carry; `seen` is called once the transcript has them."""

    texts: tuple[Block, ...]
    ids: tuple[str, ...]
    seen: Callable[[], Awaitable[None]] | None = None


class Steering(Protocol):
    """The port through which mail and notices reach a busy agent."""

    async def between_rounds(self) -> Steered | None:
        """What to tell before the next model call, or None. Cheap when there is nothing."""
        ...


class NoSteering:
    """For agents that nobody writes to."""

    async def between_rounds(self) -> Steered | None:
        """Nothing, ever."""
        return None


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended: `done`, `failed`, `limit`. `text` is the final text; `failure` says why it failed.

    `limit` names the cap that was hit, and `reason` says in a sentence whose it is and how much was spent: a budget is
    exceeded, and what was said so far is the partial result.
    """

    stop: str
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    rounds: int = 0
    failure: Failure | None = None
    limit: str = ""
    tools: int = 0
    reason: str = ""

    @property
    def why(self) -> str:
        """Why it is not done; empty when it is."""
        if self.failure is not None:
            return self.failure.what
        reason = self.reason or f"the cap on {self.limit} is spent"
        return f"budget_exceeded: {reason}" if self.stop == "limit" else ""


_NO_PREFIX = Prefix("", b"")


@dataclass(slots=True)
class Agent:
    """Everything one agent is: handed to `run_turn` as a value. `rounds_left` None means no cap of its own.

    `policy` is what its gate decides by; `remind` goes behind whatever it is told.
    """

    name: str
    agent_id: str
    model: Model
    conversation: Conversation
    toolbox: Toolbox
    meter: Meter
    emit: Emit
    steering: Steering = field(default_factory=NoSteering)
    rounds_left: int | None = None
    parent_call: str | None = None
    attended: Attended = always
    activity: Activity = field(default_factory=Activity)
    remind: Remind = nothing
    caller: str = ""
    hooks: AgentHooks = field(default_factory=lambda: UNHOOKED)
    policy: Policy = field(default_factory=Policy)
    plan: PlanMode | None = None

    def spent(self) -> Agent:
        """The same agent when its life is over: what tells of it, and nothing of what it held (history, tools)."""
        lived = self.conversation
        conversation = Conversation(lived.path, _NO_PREFIX, lived.header, lines=lived.lines)
        return Agent(self.name, self.agent_id, self.model, conversation, NO_TOOLS, self.meter, self.emit)

    def ended_round(self, answer: Reply, calls: int, task: str) -> None:
        """Tell what an answer cost, and to whom it was booked."""
        self.emit(
            RoundEnded(
                member=self.name, usage=answer.usage, model=answer.model, tools=calls, caller=self.caller, task=task
            )
        )

    def say(self, role: str, content: Sequence[Block], usage: Usage | None = None) -> None:
        """Tell surfaces of a line that was stored."""
        if not self.attended():
            return
        self.emit(
            Spoken(
                member=self.name,
                agent_id=self.agent_id,
                message={"role": role, "content": content},
                parent_call=self.parent_call,
                usage=usage,
                model=self.model.card.wire,
            )
        )


async def settle(agent: Agent) -> bool:
    """Answer the calls that a kill left without a result: what may be run again is. Whether that ends the turn."""
    calls = agent.conversation.unanswered()
    return bool(calls) and await answer_calls(agent, calls, agent.toolbox.run_again)


async def run_turn(agent: Agent, opening: Told | None) -> TurnEnd:
    """One turn. `opening` None answers what is still owed.

    Cancelling stores a result for every call that was running, so that the next request is accepted, and is
    re-raised. Raises StorageError when the transcript cannot be written: nothing was lost, nothing is pretended.
    """
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


async def _rounds(agent: Agent) -> TurnEnd:
    """Listen and answer calls, until there are none."""
    usage, rounds, tools, text = Usage(), 0, 0, ""
    while True:
        answer, task = await listen(agent)
        if isinstance(answer, Refusal):
            return TurnEnd("limit", text, usage, rounds, limit=answer.limit, tools=tools, reason=answer.why)
        if isinstance(answer, Failure):
            return TurnEnd("failed", text, usage, rounds, failure=answer, tools=tools)
        agent.conversation.reply(answer)
        agent.say("assistant", answer.content, answer.usage)
        rounds += 1
        usage += answer.usage
        if agent.rounds_left is not None:
            agent.rounds_left -= 1
        text = text_of(answer.content) or text
        calls = tool_calls(answer.content)
        agent.ended_round(answer, len(calls), task)
        tools += len(calls)
        if calls:
            if await answer_calls(agent, calls):
                return TurnEnd("done", text, usage, rounds, tools=tools)
            await asyncio.sleep(0)  # a model and tools that never wait must not keep deadlines from running
        elif answer.stop_reason != PAUSED:
            return TurnEnd("done", text, usage, rounds, tools=tools)


async def listen(agent: Agent) -> tuple[Reply | Failure | Refusal, str]:
    """One model call, when the budget has room for it; and the task that it was booked to.

    Text goes to surfaces as it comes, usage to the meter, the last part is the answer.
    """
    if agent.rounds_left == 0:
        return Refusal("turns", ""), ""
    request = Request(agent.conversation.prefix, agent.conversation.items, agent.name)
    agent.activity.pauses("room in the budget")
    if (refusal := await agent.meter.reserve(request, agent.model.card)) is not None:
        return refusal, ""
    try:
        answer = await _heard(agent, request)
        return answer, agent.meter.settle(answer) if isinstance(answer, Reply) else ""
    finally:
        agent.meter.settle(None)


async def _heard(agent: Agent, request: Request) -> Reply | Failure:
    activity = agent.activity
    activity.asks_model(agent.model.card.name)
    async with aclosing(agent.model.stream(request)) as parts:
        async for part in parts:
            activity.hears()
            match part:
                case TextPart():
                    if agent.attended():
                        agent.emit(TextDelta(member=agent.name, text=part.text))
                case Reply():
                    reply = priced(agent.model.card, part)
                    if (content := with_own_ids(reply.content)) is not reply.content:
                        reply = replace(reply, content=content)
                    return reply
                case Failure():
                    return part
                case Retrying():
                    wait = f"{part.wait_s:.0f} s" if part.wait_s >= 1 else "now"
                    agent.emit(Notice(member=agent.name, text=f"{part.reason}; trying again: {wait}", level="warning"))
                    activity.pauses(f"another try: {part.reason}")
                case Alive(waits_for=waits_for) if waits_for:
                    activity.pauses(waits_for)
                case _:
                    pass
    return Failure("model-failed", "the answer ended without an end")


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
            await agent.toolbox.run_all(calls[: agent.meter.admit(len(calls))], done)
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
    if note is not None:
        told = replace(told, blocks=(*told.blocks, note))
    agent.conversation.tell(told)
    agent.say("user", told.blocks)


def _results(calls: Sequence[ToolCall], done: Done, otherwise: str = INTERRUPTED) -> tuple[Block, ...]:
    """A result for every call, in their order."""
    return tuple(
        done[call.id][0] if call.id in done else tool_result_block(call.id, otherwise, is_error=True) for call in calls
    )
