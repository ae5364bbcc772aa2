"""The loop: one turn of one agent, from its prompt to its final answer.

The function gets every object as a parameter and decides only the order: compact when that is due, call the model, run
the tool calls, deliver results and new input. Tool failures are values; a model failure is one way in which a turn
ends. A turn that a stop hook blocks from ending continues with the hook's reason, a bounded number of times. Depends on
the contracts of this package and of `models`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent import NO_STEERING, REPEATED_CALLS, Agent, Steering, TurnEnd
from teamwright.agent.compaction import (
    CONTEXT_FULL,
    NOTHING_TO_FOLD,
    SHORTER_SHARES,
    answer_request,
    compact,
    is_due,
    shorten_results,
)
from teamwright.agent.compaction_state import AUTO, CompactResult, learn_ratio, measure_context
from teamwright.agent.conversation import INTERRUPTED_RESULT, NEVER_RAN_RESULT, UserMessage
from teamwright.agent.model_call import CALL_NOTE, CallOutcome, RetryCount, is_call_as_text, send_request
from teamwright.agent.prompt import due_session_note
from teamwright.agent.repetition_guard import RepetitionGuard, file_time
from teamwright.agent.tool import ToolResult
from teamwright.hooks.hook_outcome import HookOutcome
from teamwright.models.model import ENDS, AnswerEnd, BudgetRefusal, Failure, Reply, Request, kept_blocks
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.messages import Block, ToolCall, message_text, tool_calls, tool_result_block
from teamwright.protocol.usage import NO_USAGE, Usage


class ModelAnswer(Struct, frozen=True):
    """A model's answer, the task that it was charged to, and the usage of compactions and failed models before it."""

    answer: CallOutcome
    task: str = ""
    usage_before: Usage = NO_USAGE


AskHooks: TypeAlias = Callable[[TurnEnd, bool], Awaitable[HookOutcome]]
"""Runs the stop hooks at this end of a turn; True when the agent has continued before because of a hook."""

LateInput: TypeAlias = Callable[[], Awaitable[UserMessage | None]]
"""Waits for what the agent has started, and returns input that must be answered before the turn ends."""

MAX_BLOCKS = 8
"""The number of blocks of stop hooks in a row after which a turn ends anyway."""


async def run_turn(
    agent: Agent,
    message: UserMessage | None,
    steering: Steering = NO_STEERING,
    *,
    ask_hooks: AskHooks | None = None,
    late_input: LateInput | None = None,
) -> TurnEnd:
    """Run one turn. `message` None asks for an answer that is still owed. `steering` has input for the busy agent.

    An agent that a stop hook does not let stop continues with the hook's reason; one that gets a context continues with
    it once. Its answers before that stay in the text of the turn. A cancel stores a result for every running call, so
    that the next request is accepted, and is raised again. Raises StorageError when the transcript cannot be written;
    nothing is lost then.
    """
    end: TurnEnd | None = None
    asked = 0  # times in a row that hooks made the agent continue
    while True:
        last = await _run_model_calls(agent, message, steering)
        while last.stop == "done" and late_input is not None and (late := await late_input()) is not None:
            last = _join(last, await _run_model_calls(agent, late, steering))
        if end is None:
            end = last
        elif asked:
            last = replace(last, text=last.text or end.text)
            end = replace(_join(end, last), text=_join_answers(end.text, last.text))
        else:
            end = _join(end, last)
        if end.stop != "done" or ask_hooks is None:
            break
        outcome = await ask_hooks(last, asked > 0)
        notes = list(outcome.contexts)
        if outcome.blocked and not outcome.halted and asked == MAX_BLOCKS:
            text = f"a hook would not let {agent.name} stop {MAX_BLOCKS} times in a row; now it stops"
            agent.emit(Notice(member=agent.name, text=text, level="warning"))
        elif not outcome.halted and (outcome.blocked or (notes and not asked)):
            if outcome.blocked:
                notes.append(f"A hook does not let you stop yet: {outcome.reason}")
            asked += 1
            message = UserMessage(agent.tags.hook_notes(notes), (f"notice:{message_id()}",))
            continue
        message = await steering.next_input() if late_input is not None else None  # what came while hooks were asked
        if message is None:
            break
        asked = 0
    if end.failure is not None:
        agent.hooks.note_failure(end.failure)
    return end


async def finish_interrupted_calls(agent: Agent, steering: Steering = NO_STEERING) -> bool:
    """Answer the calls that a kill left without a result; calls that may run again do. `steering` as in `run_turn`.

    Return True at the turn's end.
    """
    calls = agent.conversation.unanswered_calls()
    return bool(calls) and await run_tool_calls(agent, calls, steering, agent.toolbox.rerun)


class _TurnProgress(Struct):
    """The state of a running turn."""

    usage: Usage = NO_USAGE
    model_calls: int = 0
    tool_calls: int = 0
    text: str = ""
    end: str = ""
    continues: bool = False
    """True when the newest text continues in the next answer."""

    def end_turn(self, stop: str, *, failure: Failure | None = None, refusal: BudgetRefusal | None = None) -> TurnEnd:
        limit, reason = (refusal.limit, refusal.reason) if refusal is not None else ("", "")
        end = TurnEnd(stop, self.text, self.usage, self.model_calls, failure, limit, self.tool_calls, reason)
        return replace(end, answer_end=self.end)

    def take_answer(self, agent: Agent, answer: Reply, end: AnswerEnd, task: str) -> list[ToolCall]:
        """Store, count and show an answer. Return its calls that are to run."""
        self.end = str(end)
        content = kept_blocks(answer.content, end)
        if content:
            agent.conversation.append_reply(
                answer if len(content) == len(answer.content) else replace(answer, content=content)
            )
            agent.emit_message("assistant", content, answer)
        self.model_calls += 1
        self.usage += answer.usage
        if agent.model_calls_left is not None:
            agent.model_calls_left -= 1
        calls = tool_calls(content)
        words = message_text(content)
        if words:
            self.text = self.text + words if self.continues else words
        self.continues = end is AnswerEnd.LENGTH and not calls
        agent.report_model_call(answer, len(calls), task)
        self.tool_calls += len(calls)
        return calls


@asynccontextmanager
async def _turn_of(agent: Agent) -> AsyncGenerator[None]:
    """Hold the lock of the agent's turns, and make deferred changes when the turn has ended."""
    async with agent.compaction.turn_lock:
        agent.activity.start_turn()
        try:
            yield
        finally:
            agent.activity.end_turn()
            if not agent.conversation.is_closed:
                agent.apply_deferred_changes()


async def _run_model_calls(agent: Agent, message: UserMessage | None, steering: Steering) -> TurnEnd:
    """Deliver the message, then call the model and run its tool calls until an answer has none.

    `ENDS` decides what follows each end of an answer.
    """
    async with _turn_of(agent):
        over = await finish_interrupted_calls(agent, steering)
        if message is not None:
            await deliver(agent, message)
        elif over:
            return TurnEnd("done")
        so_far = _TurnProgress()
        again = RetryCount()
        places = agent.toolbox.workplace
        repeats = RepetitionGuard(
            lambda: (places.cwd, *places.directories(), *agent.watched_directories()), agent.toolbox
        )
        while True:
            answered = await _next_answer(agent)
            heard = answered.answer
            so_far.usage += answered.usage_before
            if isinstance(heard, BudgetRefusal):
                return so_far.end_turn("limit", refusal=heard)
            so_far.usage += heard.failed_usage
            if isinstance(heard, Failure):
                so_far.text = message_text(heard.partial) or so_far.text
                return so_far.end_turn("failed", failure=heard)
            end = heard.end
            calls = so_far.take_answer(agent, heard, end, answered.task)
            note = ENDS[end].note
            if calls:
                if await run_tool_calls(agent, calls, steering, note=note, repetition_guard=repeats):
                    return so_far.end_turn("done")
                if repeats.end_reason:
                    return so_far.end_turn("limit", refusal=BudgetRefusal(REPEATED_CALLS, repeats.end_reason))
                await asyncio.sleep(0)  # a model and tools that never wait must not keep deadlines from running
            elif (failure := again.failure(heard, end, agent.model.card)) is not None:
                return so_far.end_turn("failed", failure=failure)
            elif end is AnswerEnd.DONE and not (is_call_as_text(heard.content) and again.may_call_again(agent)):
                return so_far.end_turn("done")
            elif end is AnswerEnd.DONE:
                append_user_message(agent, UserMessage((agent.tags.note(CALL_NOTE),)))
            elif note:
                append_user_message(agent, UserMessage((agent.tags.note(note),)))


async def _next_answer(agent: Agent) -> ModelAnswer:
    """Return the next answer.

    The conversation is compacted first when that is due, and once when the window is full. A failure of a model that
    is not available is followed by calls of the fallback models, in order.
    """
    usage = NO_USAGE
    while True:
        agent.apply_deferred_changes()
        if agent.model_calls_left == 0:
            return ModelAnswer(BudgetRefusal("turns", ""), "", usage)
        if agent.compaction.request is not None:
            usage += (await answer_request(agent, agent.compaction.request)).usage
        elif is_due(agent):
            usage += (await compact(agent, AUTO)).usage
        answer, task = await send_request(agent, Request(agent.prefix, agent.conversation.items, agent.name))
        if isinstance(answer, Reply) and not answer.is_estimated:
            learn_ratio(agent.conversation, agent.compaction, answer.usage.prompt_tokens)
        if isinstance(answer, Failure) and answer.slug == CONTEXT_FULL:
            full = await _answer_when_full(agent, answer)
            answer, task = full.answer, full.task or task
            usage += full.usage_before
        if not (isinstance(answer, Failure) and answer.is_unavailable and agent.fallback is not None):
            return ModelAnswer(answer, task, usage)
        if not await agent.fallback.switch(agent, answer):
            return ModelAnswer(answer, task, usage)
        usage += answer.failed_usage


async def _answer_when_full(agent: Agent, refusal: Failure) -> ModelAnswer:
    """Return the answer after a compaction, and at last with the newest results of tools cut, to a request that the
    service refused as too long.
    """
    conversation = agent.conversation
    window = agent.model.card.context_tokens  # a prompt that a service did not count has more
    learn_ratio(conversation, agent.compaction, refusal.prompt_tokens or window)
    compacted = await compact(agent, AUTO, full=True)
    answer: CallOutcome = refusal
    task = ""
    shares = iter(SHORTER_SHARES)
    may_fit = compacted.done or (_is_too_long(compacted) and shorten_results(agent, next(shares)))
    while may_fit:
        answer, task = await send_request(agent, Request(agent.prefix, conversation.items, agent.name))
        if not isinstance(answer, Failure) or answer.slug != CONTEXT_FULL:
            break
        learn_ratio(conversation, agent.compaction, answer.prompt_tokens or window)
        may_fit = (share := next(shares, None)) is not None and shorten_results(agent, share)
    return ModelAnswer(_explain_full(agent, answer, compacted), task, compacted.usage)


def _is_too_long(compacted: CompactResult) -> bool:
    """Return True when the length is the reason why nothing was compacted: no cap, and no other failure."""
    return not compacted.limit and (compacted.failure is None or compacted.failure.slug == CONTEXT_FULL)


CAP_REACHED_RESULT = "The call was not run: the cap on tool calls is spent."

CallResults: TypeAlias = dict[str, tuple[Block, ToolResult]]
"""Results of a round of calls as they arrive, by the calls' ids."""


async def run_tool_calls(
    agent: Agent,
    calls: Sequence[ToolCall],
    steering: Steering,
    run: Callable[[Sequence[ToolCall], CallResults], Awaitable[None]] | None = None,
    *,
    note: str = "",
    repetition_guard: RepetitionGuard | None = None,
) -> bool:
    """Run the calls of one answer and append the results, with messages that have arrived.

    Return True at the turn's end. `note` follows the results; `repetition_guard` detects the same results again and
    again.
    """
    done: CallResults = {}
    began = file_time()
    try:
        if repetition_guard is not None:
            await repetition_guard.begin(calls)
        if run is not None:
            await run(calls, done)
        else:
            await agent.toolbox.run_all(calls[: await agent.meter.admit(len(calls))], done)
        batch = await agent.hooks.run_batch_hooks(
            list(map(agent.toolbox.call_as_run, calls)), {id: result for id, (_, result) in done.items()}
        )
        refusal = batch.reason if batch.blocked else batch.halt_reason if batch.halted else ""
        if refusal:
            agent.emit(Notice(member=agent.name, text=f"a hook ended the turn: {refusal}", level="warning"))
        over = bool(refusal) or any(result.ends_turn for _, result in done.values())
        steered = None if over else await steering.next_input()
        if repetition_guard is not None and (steered is None or steered.is_from_agents):
            results = {id: result for id, (_, result) in done.items()}
            arrived = steered.blocks if steered else ()
            note = " ".join(filter(None, (note, await repetition_guard.check(calls, results, began, arrived))))
        elif repetition_guard is not None:
            repetition_guard.reset()
    except BaseException:
        # After an interrupt or an unreadable inbox the results of finished calls are stored too. A suspended agent's
        # calls stay open, as after a kill: its resume asks again.
        if not agent.conversation.keeps_calls_open:
            # Calls that a kill left may have begun in an earlier process.
            never_ran = [] if run is not None else [call.id for call in calls if not agent.toolbox.has_begun(call)]
            append_user_message(agent, UserMessage(_result_blocks(calls, done, never_ran=never_ran)))
        raise
    blocks = _result_blocks(calls, done, CAP_REACHED_RESULT if run is None else INTERRUPTED_RESULT)
    blocks += (agent.tags.note(note),) if note else ()
    blocks += agent.tags.hook_notes([*batch.contexts, *([f"A hook ended this turn: {refusal}"] if refusal else [])])
    results = UserMessage(blocks)
    await deliver(agent, results if steered is None else replace(steered, blocks=(*blocks, *steered.blocks)))
    return over


async def deliver(agent: Agent, message: UserMessage) -> None:
    """Store a user message with its reminder, show it, and call its `on_delivered`."""
    append_user_message(agent, message)
    if message.on_delivered is not None:
        await message.on_delivered()


def append_user_message(agent: Agent, message: UserMessage) -> None:
    """Store a user message with its reminder, then show it."""
    begins = not message.blocks or message.blocks[0]["type"] != "tool_result"
    note = agent.remind(begins)
    reminder = (agent.tags.note(note),) if note else ()
    session = due_session_note(agent)
    # Members have most of it in common, and a cache keeps beginnings. The lead has no sibling, and programs that list
    # sessions show the first text of its file.
    comes_first = begins and agent.name != LEAD
    blocks = (*session, *message.blocks) if comes_first else (*message.blocks, *session)
    agent.conversation.append_user_message(replace(message, blocks=(*blocks, *reminder)))
    agent.lacks_session_note = agent.is_session_note_changed = False
    agent.emit_message("user", (*message.blocks, *reminder))


def _result_blocks(
    calls: Sequence[ToolCall],
    done: CallResults,
    otherwise: str = INTERRUPTED_RESULT,
    *,
    never_ran: Collection[str] = (),
) -> tuple[Block, ...]:
    """Return a result for every call, in their order. `never_ran` has the ids of calls whose tools have not begun."""

    def missing_result(id: str) -> Block:
        return tool_result_block(id, NEVER_RAN_RESULT if id in never_ran else otherwise, is_error=True)

    return tuple(done[call.id][0] if call.id in done else missing_result(call.id) for call in calls)


def _join_answers(before: str, after: str) -> str:
    """Return both answers: the one before a hook was asked is often the work, the one after it only the reaction.

    An answer that repeats the other one, or is JSON, replaces it.
    """
    if not after.strip() or before.strip() == after.strip():
        return before
    return after if _is_json(after) or before.strip() in after else f"{before}\n\n{after}"


def _is_json(text: str) -> bool:
    body = text.strip().removeprefix("```json").removesuffix("```").strip()
    if not body.startswith(("{", "[")):
        return False
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _join(before: TurnEnd, after: TurnEnd) -> TurnEnd:
    """Join two parts of a turn into one."""
    return replace(
        after,
        text=after.text or before.text,
        usage=before.usage + after.usage,
        model_calls=before.model_calls + after.model_calls,
        tool_calls=before.tool_calls + after.tool_calls,
    )


def _explain_full(agent: Agent, outcome: CallOutcome, compacted: CompactResult) -> CallOutcome:
    """Return the outcome for a conversation that was full: the next answer, or the reason why compaction failed."""
    if not compacted.done and compacted.limit:
        return BudgetRefusal(compacted.limit, compacted.why)
    if not compacted.done and compacted.failure is not None and compacted.failure.slug != CONTEXT_FULL:
        return compacted.failure  # the service may be available later
    if not isinstance(outcome, Failure) or outcome.slug != CONTEXT_FULL:
        return outcome
    name = agent.model.card.name
    tokens = f"{measure_context(agent.conversation, agent.compaction):,} tokens by our count"
    if compacted.done or compacted.why == NOTHING_TO_FOLD:
        even = ", even after compaction" if agent.conversation.is_compacted else ""
        what = f"the last message does not fit into the window of {name}{even}: {tokens}"
    else:
        what = f"the conversation no longer fits into the window of {name} and could not be compacted: {compacted.why}"
    do = ("put what is long into a file and name the file", "use a model with a larger window")
    return replace(outcome, what=what, do=do)
