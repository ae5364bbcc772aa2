"""Compaction: a long conversation continues from a summary that its own agent writes.

It starts automatically when the context passes its share of the model's window or the service reports a full window,
and by hand at any time. Only whole rounds of calls up to the last complete answer are replaced, and the file keeps
every line. Nothing changes before the summary exists: after a kill, a failure or a spent budget the conversation is as
it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from teamwright.agent.agent import Agent
from teamwright.agent.compaction_state import (
    AUTO,
    CLEAR,
    MANUAL,
    CompactRequest,
    CompactResult,
    measure_context,
    prompt_room,
)
from teamwright.agent.conversation import Conversation
from teamwright.agent.prompt import restated_session_note, without_session_notes
from teamwright.agent.side_call import SideAnswer, ask_aside
from teamwright.agent.transcript import USER_MESSAGE, without_thinking
from teamwright.hooks import payload
from teamwright.hooks.hook_definitions import POST_COMPACT, PRE_COMPACT
from teamwright.models.local_servers import RECOMMENDED_WINDOW, widen_command
from teamwright.models.model import Prefix
from teamwright.models.token_estimate import answer_tokens
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Compacted, Notice
from teamwright.protocol.messages import encode
from teamwright.protocol.usage import Usage

NOTHING_TO_CLEAR = "nothing was said yet"


async def clear_conversation(agent: Agent) -> CompactResult:
    """Clear the conversation of an idle agent. `done` is false for an empty conversation. Raises TeamwrightError.

    Delivered mail is marked as read first; queued input stays queued. The agent's record of read files is emptied. A
    cancel or kill before the line is written changes nothing.
    """
    from teamwright.agent.compaction_texts import cleared_blocks

    compaction = agent.compaction
    conversation = agent.conversation
    async with compaction.turn_lock:
        agent.apply_deferred_changes()
        before = measure_context(conversation, compaction)
        if not conversation.items or len(conversation.items) == int(conversation.is_compacted):
            return CompactResult(False, before, before, NOTHING_TO_CLEAR)
        await compaction.context.wait_until_marked_read(agent)
        await agent.hooks.run_session_end_hooks(CLEAR)
        contexts = await agent.hooks.run_session_start_hooks(agent.model.card.name, CLEAR)
        status = await compaction.context.status_text(agent)
        blocks = [*restated_session_note(agent), *cleared_blocks(agent.tags, status, agent.remind(True))]
        blocks += agent.tags.hook_notes(contexts)
        conversation.clear(encode({"role": "user", "content": blocks}), {"trigger": CLEAR, "before": before})
        compaction.measured_context = (0, 0)
        compaction.retry_at = 0
        agent.toolbox.workplace.seen_files.clear()
        agent.toolbox.workplace.forget_instructions()
        after = measure_context(conversation, compaction)
    agent.emit(Compacted(member=agent.name, state="done", trigger=CLEAR, before=before, after=after))
    return CompactResult(True, before, after)


PURPOSE = "compaction"
"""The name of a compaction's model call in events and in budgets."""

CONTEXT_FULL = "context-full"
"""The failure of a request that is larger than the window."""

RETRY_GROWTH = 0.05
"""The share of the window by which a conversation must grow before another automatic attempt."""

CONDENSED_SHARES = (0.6, 0.3, 0.1)
"""The sizes of a condensed conversation, tried in this order, as shares of the window or of a smaller conversation.

A service may have a far smaller window than the catalog says; the refused size is then the only known bound.
"""

CHARACTERS_PER_TOKEN = 3
"""The assumed characters per token; low on purpose, so that estimates are on the safe side."""

KEPT_SHARE_WHEN_FULL = 0.6
"""The share of the available room that is kept after a service reported a full window: our count was too low."""

SHORTER_SHARES = (0.6, 0.2)
"""The shares of the room to which results are cut, one after the other, when the service still refuses the prompt."""

NOTHING_TO_FOLD = "there is nothing yet that a summary could replace"
_CALLS_UNANSWERED = "one of its calls was cut off and has no result yet: the agent continues with that call first"
_CONVERSATION_CLOSED = "the agent has ended"


async def compact_now(agent: Agent, keep: str = "") -> CompactResult:
    """Compact on request: now when the agent is idle, before its next model call when it is in a turn.

    `keep` says in words which facts the summary must keep. Raises nothing: the result has the reason of a failure.
    """
    compaction = agent.compaction
    request = compaction.request
    if request is None:
        request = compaction.request = CompactRequest(keep, asyncio.get_running_loop().create_future())
    rests = asyncio.ensure_future(compaction.turn_lock.acquire())
    try:
        await asyncio.wait({rests, request.result}, return_when=asyncio.FIRST_COMPLETED)
        if not request.result.done():
            await answer_request(agent, request)
    finally:
        if not request.result.done() and compaction.request is request:
            compaction.request = None  # the cancelled caller no longer waits
        rests.cancel()
        if (await asyncio.gather(rests, return_exceptions=True))[0] is True:
            compaction.turn_lock.release()
    return request.result.result()


def is_due(agent: Agent) -> bool:
    """Return True when the conversation has passed its share of the window and compaction would free part of it.

    A service that accepted more than the known window has a larger one; it reports itself when that is full.
    """
    compaction = agent.compaction
    conversation = agent.conversation
    card = agent.model.card
    limit = compaction.threshold(card, answer_tokens(conversation.prefix))
    context = measure_context(conversation, compaction)
    if limit is None or context < max(limit, compaction.retry_at) or _obstacle(conversation):
        return False
    if conversation.reported_tokens[1] > card.context_tokens:
        return False
    ratio = compaction.ratio
    left = ratio.prefix_tokens(conversation.prefix)
    left += ratio.total_tokens(conversation.items[fold_position(conversation) :])
    # otherwise the newest messages are most of it, and they stay
    return context - left >= card.context_tokens * RETRY_GROWTH


async def compact(agent: Agent, trigger: str, keep: str = "", *, full: bool = False) -> CompactResult:
    """Replace the conversation up to its last complete answer by a summary.

    Call it within the agent's turn or while idle. `full`: the service reported that the conversation does not fit. A
    cancel changes nothing. Raises only CancelledError.
    """
    conversation = agent.conversation
    name = agent.name
    before = measure_context(conversation, agent.compaction)
    if why := _obstacle(conversation):
        if trigger == MANUAL:
            agent.emit(Compacted(member=name, state="failed", trigger=trigger, before=before, detail=why))
        return CompactResult(False, before, before, why)
    agent.emit(Compacted(member=name, state="begun", trigger=trigger, before=before))
    try:
        result = await _compact(agent, trigger, keep, before, full=full)
    except BaseException:
        agent.emit(Compacted(member=name, state="failed", trigger=trigger, before=before, detail="it was cut short"))
        raise
    agent.compaction.retry_at = result.after + int(agent.model.card.context_tokens * RETRY_GROWTH)
    state = "done" if result.done else "failed"
    agent.emit(
        Compacted(member=name, state=state, trigger=trigger, before=before, after=result.after, detail=result.why)
    )
    # Once: with so small a window the conversation is compacted again and again.
    card = agent.model.card
    if card.context_tokens < RECOMMENDED_WINDOW // 2 and not agent.compaction.warned_small_window:
        agent.compaction.warned_small_window = True
        widen = widen_command(card.provider, card.wire, card.context_tokens // 2)
        text = f"a window of {card.context_tokens:,} tokens is little, and much is forgotten: {widen}"
        agent.emit(Notice(member=agent.name, text=text, level="warning"))
    return result


async def _compact(agent: Agent, trigger: str, keep: str, before: int, *, full: bool) -> CompactResult:
    compaction = agent.compaction
    upto = fold_position(agent.conversation)
    usage = Usage()
    try:
        await compaction.context.wait_until_marked_read(agent)
        await agent.hooks.fire(PRE_COMPACT, lambda: payload.pre_compact(trigger, keep), trigger)
        answer, usage = await _write_summary(agent, agent.conversation.items[:upto], keep, full=full)
        if not answer.text:
            if answer.refusal is not None:
                why = answer.refusal.reason or f"the cap on {answer.refusal.limit} is spent"
                return CompactResult(False, before, before, why, limit=answer.refusal.limit, usage=usage)
            why = answer.failure.sentence if answer.failure is not None else "the model wrote no summary"
            return CompactResult(False, before, before, why, failure=answer.failure, usage=usage)
        restated = await compaction.context.status_text(agent)
        beside = SummaryNotes(restated, await agent.hooks.run_session_start_hooks(agent.model.card.name))
        after = _fold(agent, upto, answer.text, beside, {"trigger": trigger, "before": before}, tight=full)
    except TeamwrightError as problem:
        return CompactResult(False, before, before, problem.what, usage=usage)
    await agent.hooks.fire(POST_COMPACT, lambda: payload.post_compact(trigger, answer.text), trigger)
    return CompactResult(True, before, after, summary=answer.text, usage=usage)


async def _write_summary(agent: Agent, folded: Sequence[bytes], keep: str, *, full: bool) -> tuple[SideAnswer, Usage]:
    """Ask the agent for a summary. A conversation that does not fit any more is condensed first."""
    from teamwright.agent.compaction_texts import CONDENSED, condense, summary_directive

    window = max(agent.model.card.context_tokens, agent.conversation.reported_tokens[1] + 1)
    usage = Usage()
    if not full and measure_context(agent.conversation, agent.compaction) < window:
        answer = await ask_aside(agent, summary_directive(keep), PURPOSE)
        usage += answer.usage
        if not _is_worth_retry(answer):
            return answer, usage
    answer = SideAnswer()
    talk = without_session_notes(agent, folded)  # it is given again beside the summary
    most = min(window, agent.compaction.ratio.total_tokens(agent.conversation.items))
    refused: int | None = None
    for share in CONDENSED_SHARES:
        size = int(most * share) * CHARACTERS_PER_TOKEN
        short = condense(talk, size if refused is None else min(size, refused // 2))
        if refused is not None and len(short) >= refused:
            break  # it cannot become shorter, and the same request would be refused again
        refused = len(short)
        words = CONDENSED.format(conversation=agent.tags.conversation(short)) + summary_directive(keep)
        answer = await ask_aside(agent, words, PURPOSE, ())
        usage += answer.usage
        if not _is_worth_retry(answer):
            break
    return answer, usage


def _is_worth_retry(answer: SideAnswer) -> bool:
    """Return True when a shorter form may succeed: the request was too long, or the answer had only calls."""
    if answer.failure is not None:
        return answer.failure.slug == CONTEXT_FULL
    return answer.refusal is None and not answer.text


class SummaryNotes(Struct, frozen=True):
    """Texts that are delivered with a summary: the current status and the texts of hooks."""

    status_text: str
    hook_texts: Sequence[str] = ()


def _fold(agent: Agent, upto: int, summary: str, beside: SummaryNotes, about: dict[str, object], *, tight: bool) -> int:
    """Continue from the summary. Messages delivered while it was written stay. Return the new size in tokens.

    This function does not await, so no line can come between the kept messages and the line of the compaction.
    """
    from teamwright.agent.compaction_texts import cut_results, summary_blocks

    compaction = agent.compaction
    conversation = agent.conversation
    prefix = conversation.prefix if compaction.make_prefix is None else compaction.make_prefix(agent)
    if prefix.digest == conversation.prefix.digest:
        prefix = conversation.prefix  # prefixes are compared by identity
    blocks = restated_session_note(agent)
    blocks += summary_blocks(agent.tags, summary, beside.status_text, agent.remind(True))
    blocks += agent.tags.hook_notes(beside.hook_texts)
    first = encode({"role": "user", "content": blocks})
    remaining = [without_thinking(item) for item in conversation.items[upto:]]
    room = _results_room(agent, prefix, first)
    remaining = cut_results(remaining, int(room * KEPT_SHARE_WHEN_FULL) if tight else room, compaction.ratio)
    conversation.fold((first, *remaining), upto, about, prefix)
    compaction.measured_context = (0, 0)
    agent.toolbox.workplace.forget_instructions()
    return measure_context(conversation, compaction)


def shorten_results(agent: Agent, share: float) -> bool:
    """Cut the newest results of tools to this share of the free room. Return True when the conversation is shorter.

    Raises StorageError.
    """
    from teamwright.agent.compaction_texts import cut_results

    conversation = agent.conversation
    if not conversation.items or conversation.is_closed or _has_open_calls(conversation):
        return False
    first, *rest = conversation.items
    room = int(_results_room(agent, conversation.prefix, first) * share)
    shorter = cut_results(rest, room, agent.compaction.ratio)
    if shorter == rest:
        return False
    before = measure_context(conversation, agent.compaction)
    conversation.fold((first, *shorter), 1, {"trigger": AUTO, "before": before})
    agent.compaction.measured_context = (0, 0)
    text = f"the newest results of tools did not fit into the window of {agent.model.card.name} and were cut"
    agent.emit(Notice(member=agent.name, text=text, level="warning"))
    return True


def _results_room(agent: Agent, prefix: Prefix, first: bytes) -> int:
    """Return the tokens of the window that are left beside the prefix, the first message and an answer."""
    ratio = agent.compaction.ratio
    room = prompt_room(agent.model.card, answer_tokens(prefix))
    return room - ratio.prefix_tokens(prefix) - ratio.message_tokens(first)


def _has_open_calls(conversation: Conversation) -> bool:
    return bool(conversation.unanswered_calls()) or conversation.is_unstarted_fork


def fold_position(conversation: Conversation) -> int:
    """Return the position of the last complete answer. Everything before it can be summarized."""
    items = conversation.items
    return next((at for at in range(len(items) - 1, -1, -1) if not items[at].startswith(USER_MESSAGE)), 0)


def _obstacle(conversation: Conversation) -> str:
    """Return the reason why the conversation cannot be compacted now; empty when it can."""
    if conversation.is_closed:
        return _CONVERSATION_CLOSED
    if _has_open_calls(conversation):
        return _CALLS_UNANSWERED
    at = fold_position(conversation)
    paused = conversation.owes_answer and at == len(conversation.items) - 1
    return NOTHING_TO_FOLD if paused or at <= int(conversation.is_compacted) else ""


async def answer_request(agent: Agent, request: CompactRequest) -> CompactResult:
    """Run a compaction that was requested and set its result. After a cancel the request stays open."""
    result = await compact(agent, MANUAL, request.keep)
    agent.compaction.request = None
    if not request.result.done():
        request.result.set_result(result)
    return result
