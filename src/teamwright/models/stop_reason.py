"""The end of a model's answer: one value for all services, and one table of its effects.

Formats translate each service's stop reasons into those of the Messages API (and `content_filter`, which that API does
not have); `answer_end` computes the value from the stop reason and the blocks. docs/reference/answer-ends.md shows the
whole table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from teamwright.protocol.messages import Block

CONTENT_FILTER = "content_filter"
"""The stop reason of an answer that the service's filter withheld or shortened."""

INTERRUPTED = "interrupted"
"""The stop reason of an answer that was interrupted here: by a person, a deadline, or the end of the session."""

_THINKING = frozenset({"thinking", "redacted_thinking"})


class AnswerEnd(StrEnum):
    """The end of an answer."""

    DONE = "done"
    """The answer is complete."""

    TOOL_CALLS = "tool_calls"
    """The answer asks for tool calls."""

    LENGTH = "length"
    """The answer reached the output limit, or the end of the window."""

    FILTERED = "filtered"
    """The service's filter stopped it."""

    REFUSED = "refused"
    """The model refused to answer."""

    EMPTY = "empty"
    """The answer has no usable content: no text and no call, or only the announcement of a call."""

    PAUSED = "paused"
    """The service expects another request to continue the answer."""

    UNKNOWN = "unknown"
    """The stop reason is unknown: nothing is concluded from it."""


_END_BY_STOP_REASON: Mapping[str, AnswerEnd] = {
    "end_turn": AnswerEnd.DONE,
    "stop_sequence": AnswerEnd.DONE,
    "tool_use": AnswerEnd.TOOL_CALLS,
    "max_tokens": AnswerEnd.LENGTH,
    "model_context_window_exceeded": AnswerEnd.LENGTH,
    "pause_turn": AnswerEnd.PAUSED,
    "refusal": AnswerEnd.REFUSED,
    CONTENT_FILTER: AnswerEnd.FILTERED,
}


class EndRule(Struct, frozen=True):
    """The effects of an end.

    `runs_calls`: the calls of the answer are run. `retries`: how often in a row the model is asked again before the
    turn fails; `note` is its text. `what`: the error of a turn that fails with this end, after the model's name; empty
    where the turn does not fail. `do`: the advice for a person.
    """

    runs_calls: bool = False
    retries: int = 0
    note: str = ""
    what: str = ""
    do: str = ""

    @property
    def is_failure(self) -> bool:
        """True when a turn with this end has failed: the member is failed, its lead is notified, exit code 1."""
        return bool(self.what)


NO_ANSWER = "no-answer"
"""The slug of every turn that failed because of its end."""

ENDS: Mapping[AnswerEnd, EndRule] = {
    AnswerEnd.DONE: EndRule(),
    AnswerEnd.TOOL_CALLS: EndRule(runs_calls=True),
    AnswerEnd.LENGTH: EndRule(
        runs_calls=True,
        retries=2,
        note="Your last answer reached the output limit and was cut off there. A tool call that was not complete was "
        "not run. Continue where it was cut, with shorter answers and smaller tool calls.",
        what="reached its output limit, and the answer was cut off",
        do="ask for shorter answers, or choose a model with a larger output limit",
    ),
    AnswerEnd.FILTERED: EndRule(
        what="gave no whole answer: the filter of its service stopped it",
        do="say it in other words, or choose another model",
    ),
    AnswerEnd.REFUSED: EndRule(what="refused to answer", do="say it in other words, or choose another model"),
    AnswerEnd.EMPTY: EndRule(
        retries=2,
        note="Your last answer had no text and no complete tool call. Answer in words, or make the tool call.",
        what="gave an empty answer",
        do="say it in other words, or choose another model",
    ),
    AnswerEnd.PAUSED: EndRule(
        retries=2,
        what="paused its answer again and again, and never completed it",
        do="continue later, or choose another model",
    ),
    AnswerEnd.UNKNOWN: EndRule(
        what="ended its answer for a reason that is not known",
        do="look at what came; a newer version may know the reason",
    ),
}
"""The effects of each end. A failed turn has the error `no-answer`, and the text of the answer is kept."""


def answer_end(stop_reason: str, content: Iterable[Block]) -> AnswerEnd:
    """Return the end of an answer with this stop reason and these blocks."""
    end = _END_BY_STOP_REASON.get(stop_reason, AnswerEnd.UNKNOWN)
    if end is not AnswerEnd.DONE and end is not AnswerEnd.TOOL_CALLS:
        return end
    kinds = [str(block.get("type")) for block in content]
    if "tool_use" in kinds:
        return AnswerEnd.TOOL_CALLS
    return AnswerEnd.EMPTY if end is AnswerEnd.TOOL_CALLS or not has_words(kinds) else AnswerEnd.DONE


def has_words(kinds: Iterable[str]) -> bool:
    """Return True when these kinds of blocks contain more than thinking, so that the answer can be sent again."""
    return not _THINKING.issuperset(kinds)


def kept_blocks(content: Iterable[Block], end: AnswerEnd) -> list[Block]:
    """Return the blocks that the conversation keeps: calls that are not run are left out, and thinking without other
    blocks."""
    runs = ENDS[end].runs_calls
    left = [block for block in content if runs or block.get("type") != "tool_use"]
    return left if has_words(str(block.get("type")) for block in left) else []
