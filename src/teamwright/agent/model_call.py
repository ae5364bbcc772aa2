"""One model call of an agent: the budget check first, then the stream, whose last part is the answer.

Text is shown as it arrives, and usage is added to the meter. Depends on the agent and the contract of a model.
"""

from __future__ import annotations

import re
import secrets
import time
from contextlib import aclosing, suppress
from typing import TypeAlias

from msgspec.structs import replace

from teamwright.agent.agent import Agent
from teamwright.agent.conversation import UserMessage
from teamwright.agent.transcript import repaired_messages
from teamwright.models.model import (
    ENDS,
    INTERRUPTED,
    NO_ANSWER,
    AlivePart,
    AnswerEnd,
    BudgetRefusal,
    Failure,
    ModelCard,
    Part,
    Reply,
    Request,
    Retrying,
    TextPart,
    ThinkingPart,
    UsagePart,
    price_usage,
    with_price,
)
from teamwright.models.request_prefix import tool_names, without_tools
from teamwright.models.token_estimate import answer_tokens, fill_usage, text_size, written_tokens
from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import Notice, TextDelta, ThinkingDelta
from teamwright.protocol.messages import Block, message_text, text_block, tool_calls
from teamwright.protocol.usage import NO_USAGE, Usage

INTERRUPTED_NOTE = (
    "Your answer above was interrupted before it was complete: the rest never came, and no tool call of it was run."
)
NOTE_FAILED = "Your answer above broke off, because its service failed: the rest never came, and no tool call was run."
ATTEMPTS_WITH_FALLBACK = 3
"""Attempts of a call of a model that is not available, when a fallback model can answer."""
INTERRUPTED_EMPTY_NOTE = "Your answer was interrupted before any text of it arrived."


class PartialAnswer:
    """The text, usage and time that one answer has so far. The time begins when this is constructed."""

    __slots__ = (
        *("_asked_at", "_broken", "_failed_usage", "_has_started", "_text", "_usage"),
        *("first_part_s", "size"),
    )

    def __init__(self) -> None:
        self._asked_at = time.monotonic()
        self.first_part_s = 0.0
        """Seconds from the request to the first part of the answer's content; 0.0 before it."""
        self._failed_usage = NO_USAGE
        self._broken = ""
        self._forget()

    def _forget(self) -> None:
        self._has_started = False
        self._usage = NO_USAGE
        self._text: list[str] = []
        self.size = 0
        """The bytes of the present attempt's answer."""

    def add(self, part: Part) -> None:
        """Add a part. A failed attempt keeps its usage and loses its text."""
        if not self.first_part_s and isinstance(part, TextPart | ThinkingPart | Reply):
            self.first_part_s = self.seconds
        match part:
            case TextPart():
                self._has_started = True
                self._text.append(part.text)
                self.size += text_size(part.text)
            case UsagePart():
                self._has_started = True
                self._usage = part.usage
            case ThinkingPart():
                self._has_started = True
                self.size += text_size(part.text)
            case AlivePart(size=size) if size:
                self._has_started = True
                self.size += size
            case Retrying():
                self._failed_usage += self._usage
                self._broken = "".join(self._text) or self._broken
                self._forget()
                self.first_part_s = 0.0
            case _:
                pass

    def add_failed(self, usage: Usage) -> None:
        """Add the usage of requests beside the answer that failed, or that only found out why it did."""
        self._failed_usage += usage

    @property
    def seconds(self) -> float:
        """Seconds since the request."""
        return round(time.monotonic() - self._asked_at, 3)

    def to_reply(self, agent: Agent, request: Request) -> Reply | None:
        """Return the answer so far, with the service's usage or an estimate. None when nothing arrived."""
        card = agent.model.card
        text = "".join(self._text)
        reported = self._usage
        lost = price_usage(card, self._failed_usage) if self._failed_usage.tokens else NO_USAGE
        if not self._has_started and not lost.requests:
            return None
        used = fill_usage(reported, request, self.size) if self._has_started else NO_USAGE
        content = agent.tags.mask_key([text_block(text)]) if text.strip() else []
        return Reply(
            content,
            INTERRUPTED,
            price_usage(card, used),
            card.wire,
            failed_usage=lost,
            is_estimated=used.tokens != reported.tokens,
            seconds=self.seconds,
            first_part_s=self.first_part_s,
        )

    def usage_so_far(self, agent: Agent, request: Request) -> Usage:
        """Return the usage of this call, failed attempts included."""
        card = agent.model.card
        used = fill_usage(self._usage, request, self.size) if self._has_started else NO_USAGE
        lost = price_usage(card, self._failed_usage) if self._failed_usage.tokens else NO_USAGE
        return lost + price_usage(card, used) if used.requests else lost

    def unavailable(self, agent: Agent, reason: str) -> Failure:
        """Return the failure of a model that is not available, without further attempts."""
        usage = price_usage(agent.model.card, self._failed_usage) if self._failed_usage.tokens else NO_USAGE
        return Failure("model-failed", reason, retriable=True, failed_usage=usage)

    def failed(self, agent: Agent, failure: Failure) -> Failure:
        """Return the failure with the text of the last attempt that had any. Its cost is included already."""
        words = "".join(self._text) or self._broken
        return replace(failure, partial=agent.tags.mask_key([text_block(words)]) if words.strip() else [])


def keep_failed(agent: Agent, failure: Failure) -> None:
    """Store the text of an answer that failed after all attempts, and add a note for the model.

    Raises nothing when the line cannot be stored: the event of the failure is emitted anyway.
    """
    if failure.partial and not agent.conversation.is_closed:
        with suppress(StorageError):
            _store(agent, Reply(failure.partial, INTERRUPTED, NO_USAGE, agent.model.card.wire), NOTE_FAILED)


def keep_partial_answer(agent: Agent, request: Request, partial: PartialAnswer) -> None:
    """Store and charge the part of an answer that is cancelled now, and add a note for the model.

    Raises nothing when the line cannot be stored: the cancellation continues.
    """
    cut = partial.to_reply(agent, request)
    if cut is None:
        return
    task = agent.meter.settle(cut)
    agent.report_failed_attempts(cut, task)
    if not cut.usage.requests:
        return
    if not request.aside:
        if agent.model_calls_left is not None:
            agent.model_calls_left -= 1
        if not agent.conversation.is_closed:
            with suppress(StorageError):
                _store(agent, cut)
    agent.report_model_call(cut, 0, task, aside=request.purpose)


def _store(agent: Agent, cut: Reply, note_of_words: str = INTERRUPTED_NOTE) -> None:
    if cut.content:
        agent.conversation.append_reply(cut)
        agent.emit_message("assistant", cut.content, cut)
    note = agent.tags.note(note_of_words if cut.content else INTERRUPTED_EMPTY_NOTE)
    agent.conversation.append_user_message(UserMessage((note,)))
    agent.emit_message("user", (note,))


class RetryCount:
    """A count of consecutive answers of one turn that ended early in the same way."""

    __slots__ = ("_call_as_text", "_count", "_end")

    def __init__(self) -> None:
        self._end = AnswerEnd.DONE
        self._count = 0
        self._call_as_text = False

    def may_call_again(self, agent: Agent) -> bool:
        """Return True when a model whose call came as text is called again: once a turn; then the user is warned."""
        if self._call_as_text or not agent.toolbox.offered_tools:
            warn_of_call_as_text(agent)
            return False
        self._call_as_text = True
        return True

    def failure(self, answer: Reply, end: AnswerEnd, card: ModelCard) -> Failure | None:
        """Return the failure that an answer with this end causes; None when the turn continues or is done."""
        row = ENDS[end]
        self._count = self._count + 1 if end is self._end else 1
        self._end = end
        return answer_failure(answer, card) if row.is_failure and self._count > row.retries else None


def answer_failure(answer: Reply, card: ModelCard) -> Failure:
    """Return the failure of an answer without usable content. Its text is stored separately."""
    row = ENDS[answer.end]
    times = f" {row.retries + 1} times in a row" if row.retries else ""
    stop_reason = answer.stop_reason or "no stop reason"
    return Failure(
        NO_ANSWER,
        f"{card.name} {row.what}{times} ({stop_reason})",
        looked_at=(("end", str(answer.end)), *([("request", answer.request_id)] if answer.request_id else [])),
        do=(row.do,),
    )


CallOutcome: TypeAlias = Reply | Failure | BudgetRefusal

CALL_AS_TEXT = re.compile(
    r"^\s*(?:<tool_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call)"
    r"|^\s*</?tool_response>"
    r"|^\s*(?:```(?:json)?\s*)?\{\s*\"name\"\s*:\s*\"\w+\"\s*,\s*\"(?:arguments|parameters)\"\s*:",
    re.M,
)
"""The form in which models write calls that their server should have taken out of the text, and results that no tool
gave."""


async def send_request(agent: Agent, request: Request) -> tuple[CallOutcome, str]:
    """Send a request when the budget has room for it. Return the answer and the task that it was charged to.

    The text of a request with another purpose is not shown. The text of a cancelled answer is stored and charged. The
    text of an answer to a prompt that the server cut is not stored: it answers another prompt.
    """
    agent.activity.start_wait("room in the budget")
    if (refusal := await agent.meter.reserve(request, agent.model.card)) is not None:
        return refusal, ""
    so_far = PartialAnswer()
    try:
        try:
            answer = await _read_stream(agent, request, so_far)
            if isinstance(answer, Failure) and answer.refuses_request:
                answer = await _send_repaired(agent, request, so_far, answer)
            if isinstance(answer, Failure) and answer.refuses_request and not request.aside:
                answer = await _send_without_refused_tools(agent, request, so_far, answer)
            if isinstance(answer, BudgetRefusal):
                keep_partial_answer(agent, request, so_far)
                return answer, ""
        except BaseException:
            keep_partial_answer(agent, request, so_far)
            raise
        if isinstance(answer, Failure) and not request.aside and answer.slug != "window-too-small":
            answer = so_far.failed(agent, answer)
            keep_failed(agent, answer)
        task = agent.meter.settle(answer)
        agent.report_failed_attempts(answer, task, so_far.seconds)
        return answer, task
    finally:
        agent.meter.settle(None)


async def _send_repaired(agent: Agent, request: Request, so_far: PartialAnswer, refusal: Failure) -> CallOutcome:
    """Send a refused conversation once more with text and calls alone: earlier thinking and unknown blocks are valid
    for one key and one service only.

    Return the answer, or the first refusal. A form that the service accepts is kept.
    """
    items = repaired_messages(request.items)
    if all(item is old for item, old in zip(items, request.items, strict=True)):
        return refusal
    answer = await _read_stream(agent, replace(request, items=items), so_far)
    if isinstance(answer, BudgetRefusal):
        return answer
    answer = replace(answer, failed_usage=refusal.failed_usage + answer.failed_usage)
    if isinstance(answer, Failure):
        return replace(refusal, failed_usage=answer.failed_usage) if answer.refuses_request else answer
    if not agent.conversation.is_closed:
        with suppress(StorageError):  # the answer cannot be stored either, which ends the turn
            agent.conversation.repair({"why": "refused", "model": agent.model.card.name})
    text = f"{refusal.sentence}. The conversation continues with its text and tool calls, without earlier thinking."
    agent.emit(Notice(member=agent.name, text=text, level="warning"))
    return answer


async def _send_without_refused_tools(
    agent: Agent, request: Request, so_far: PartialAnswer, refusal: Failure
) -> CallOutcome:
    """Send a refused request once more without the tools that the service refuses, which are left out from now on.

    Return the answer, or the refusal when no tool is the reason. The tools are searched once for each agent.
    """
    if not agent.searched_refused_tools:
        from teamwright.agent.refused_tools import RefusedToolSearch

        async def charge(used: Usage) -> BudgetRefusal | None:
            so_far.add_failed(used)
            return await agent.meter.charge(so_far.usage_so_far(agent, request))

        agent.searched_refused_tools = True
        search = RefusedToolSearch(agent, charge)
        found = await search.find()
        if search.refusal is not None:
            return search.refusal
        for tool in found:
            agent.refused_tools.add(tool.name)
            text = f"{agent.model.card.name} refuses the schema of {tool.name} of {tool.origin}: the tool is left out"
            agent.emit(Notice(member=agent.name, text=text, level="warning"))
        refusal = replace(refusal, failed_usage=refusal.failed_usage + search.usage)
    names = agent.refused_tools.intersection(tool_names(request.prefix))
    if not names:
        return refusal
    agent.conversation.replace_prefix(without_tools(agent.conversation.prefix, names))
    answer = await _read_stream(agent, replace(request, prefix=without_tools(request.prefix, names)), so_far)
    if isinstance(answer, BudgetRefusal):
        return answer
    return replace(answer, failed_usage=refusal.failed_usage + answer.failed_usage)


async def _read_stream(agent: Agent, request: Request, so_far: PartialAnswer) -> CallOutcome:
    """Read an answer to its end.

    A failed attempt is charged at once, and so is an answer that is longer than it was asked to be. When a cap is used
    up by that, the stream is closed and the refusal returned.
    """
    activity = agent.activity
    tags = agent.tags
    unsent_text = unsent_thinking = ""
    longest = answer_tokens(request.prefix, agent.model.card.max_output_tokens)
    charged_at = longest
    activity.start_model_call(agent.model.card.name)
    async with aclosing(agent.model.stream(request)) as parts:
        async for part in parts:
            if isinstance(part, AlivePart) and part.prompt_read is not None:
                activity.note_prompt_read(part.prompt_read)
            else:
                activity.note_output(is_content=_is_content(part))
            so_far.add(part)
            if isinstance(part, Retrying) or written_tokens(so_far.size) > charged_at:
                charged_at = longest if isinstance(part, Retrying) else written_tokens(so_far.size) + longest // 16
                if (refusal := await agent.meter.charge(so_far.usage_so_far(agent, request))) is not None:
                    return refusal
            match part:
                case TextPart():
                    if agent.has_listeners() and not request.aside:
                        _emit_thinking(agent, unsent_thinking)
                        unsent_thinking = ""
                        text, unsent_text = tags.mask_key_in_part(unsent_text + part.text)
                        _emit_text(agent, text)
                case ThinkingPart():
                    if agent.has_listeners() and not request.aside:
                        _emit_text(agent, unsent_text)
                        unsent_text = ""
                        text, unsent_thinking = tags.mask_key_in_part(unsent_thinking + part.text)
                        _emit_thinking(agent, text)
                case Reply():
                    _emit_thinking(agent, unsent_thinking)
                    _emit_text(agent, unsent_text)
                    agent.mention_other_model(part.model)
                    reply = replace(
                        with_price(agent.model.card, part),
                        id=part.id or f"msg_{secrets.token_hex(16)}",
                        seconds=so_far.seconds,
                        first_part_s=so_far.first_part_s,
                    )
                    content = tags.mask_key(agent.conversation.with_own_ids(reply.content))
                    if content != reply.content:
                        reply = replace(reply, content=content)
                    return reply
                case Failure():
                    return with_price(agent.model.card, part)
                case Retrying():
                    unsent_text = unsent_thinking = ""
                    wait = f"{part.wait_s:.0f} s" if part.wait_s >= 1 else "now"
                    agent.emit(Notice(member=agent.name, text=f"{part.reason}; trying again: {wait}", level="warning"))
                    activity.start_wait(f"another try: {part.reason}")
                    if (
                        part.is_unavailable
                        and part.attempt >= ATTEMPTS_WITH_FALLBACK
                        and agent.fallback is not None
                        and await agent.fallback.next_model(agent) is not None
                    ):
                        return so_far.unavailable(agent, part.reason)
                case AlivePart(waits_for=waits_for) if waits_for:
                    activity.start_wait(waits_for)
                case _:
                    pass
    return Failure("model-failed", f"the stream of {agent.model.card.name} ended without a Reply or a Failure")


def _is_content(part: Part) -> bool:
    """Return False for counts and signs of progress, which may come before the content of an answer."""
    return part.size > 0 if isinstance(part, AlivePart) else not isinstance(part, UsagePart)


def _emit_text(agent: Agent, text: str) -> None:
    if text:
        agent.emit(TextDelta(member=agent.name, text=text))


def _emit_thinking(agent: Agent, text: str) -> None:
    if text:
        agent.emit(ThinkingDelta(member=agent.name, text=text))


def is_call_as_text(content: list[Block]) -> bool:
    """Return True when an answer without calls has one in its text."""
    return not tool_calls(content) and CALL_AS_TEXT.search(message_text(content)) is not None


CALL_NOTE = (
    "You wrote a tool call as text, or the result of one, and nothing was called. Make the call again as a tool call, "
    "in the form that your tools are given in. Write no call and no result into the text: results come from tools "
    "alone."
)
"""The note for a model whose call came as text, once a turn."""


def warn_of_call_as_text(agent: Agent) -> None:
    """Warn the user that a call came as text again: no tool ran, and the turn ends as if the agent were done."""
    name = agent.model.card.name
    text = (
        "it wrote a tool call as text, or an invented result, and nothing was called. Its server does not take calls "
        "out of the text "
        "(llama-server --jinja; vllm serve --enable-auto-tool-choice --tool-call-parser NAME), or the model is not "
        f"made for tools. To try it: teamwright doctor --live --model {name}"
    )
    agent.emit(Notice(member=agent.name, text=text, level="warning"))
