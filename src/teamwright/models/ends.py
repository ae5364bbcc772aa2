"""How an answer of a model ended: one value for all services, and one table of what follows from it.

Dialects translate each service's own words into those of the Messages API (and `content_filter`, which that API does
not have); `end_of` makes the value of the word and of what came. docs/ends.md shows the whole table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from teamwright.protocol.blocks import Block
from teamwright.protocol.values import dataclass

FILTER = "content_filter"
"""The word for an answer that the service's own filter held back or cut."""

INTERRUPTED = "interrupted"
"""The word for an answer that was cut short on our side: a person, a deadline, the end of the session."""

_THINKING = frozenset({"thinking", "redacted_thinking"})


class End(StrEnum):
    """How an answer ended."""

    DONE = "done"
    """It is whole."""

    TOOL_CALLS = "tool_calls"
    """It asks for tool calls."""

    LENGTH = "length"
    """It reached the output limit, or the end of the window."""

    FILTERED = "filtered"
    """The service's filter stopped it."""

    REFUSED = "refused"
    """The model refused to answer."""

    EMPTY = "empty"
    """Nothing came that can be used: no text and no call, or the announcement of a call that never came."""

    PAUSED = "paused"
    """The service wants to be asked again to continue it."""

    UNKNOWN = "unknown"
    """A word that is not known: nothing is concluded from it."""


_WORDS: Mapping[str, End] = {
    "end_turn": End.DONE,
    "stop_sequence": End.DONE,
    "tool_use": End.TOOL_CALLS,
    "max_tokens": End.LENGTH,
    "model_context_window_exceeded": End.LENGTH,
    "pause_turn": End.PAUSED,
    "refusal": End.REFUSED,
    FILTER: End.FILTERED,
}


@dataclass(frozen=True, slots=True)
class EndRow:
    """The effects of an end.

    `runs_calls`: calls that came with it are run. `again`: how often in a row the model is asked again before the turn
    fails; `note` is its text. `what`: the error of a turn that fails by it, after the model's name; empty
    where the turn does not fail. `do`: what a person may do about it.
    """

    runs_calls: bool = False
    again: int = 0
    note: str = ""
    what: str = ""
    do: str = ""

    @property
    def fails(self) -> bool:
        """True when a turn with this end has failed: the member is failed, its lead is notified, exit code 1."""
        return bool(self.what)


SLUG = "no-answer"
"""The slug of every turn that failed by its end."""

ENDS: Mapping[End, EndRow] = {
    End.DONE: EndRow(),
    End.TOOL_CALLS: EndRow(runs_calls=True),
    End.LENGTH: EndRow(
        runs_calls=True,
        again=2,
        note="Your last answer reached the output limit and was cut off there. A tool call that was not complete was "
        "not run. Continue where it was cut, with shorter answers and smaller tool calls.",
        what="reached its output limit, and the answer was cut off",
        do="ask for shorter answers, or choose a model with a larger output limit",
    ),
    End.FILTERED: EndRow(
        what="gave no whole answer: the filter of its service stopped it",
        do="say it in other words, or choose another model",
    ),
    End.REFUSED: EndRow(what="refused to answer", do="say it in other words, or choose another model"),
    End.EMPTY: EndRow(
        again=2,
        note="Your last answer had no text and no complete tool call. Answer in words, or make the tool call.",
        what="gave an empty answer",
        do="say it in other words, or choose another model",
    ),
    End.PAUSED: EndRow(
        again=2,
        what="paused its answer again and again, and never completed it",
        do="continue later, or choose another model",
    ),
    End.UNKNOWN: EndRow(
        what="ended its answer for a reason that is not known",
        do="look at what came; a newer version may know the reason",
    ),
}
"""The effects of each end. A turn that fails has the error `no-answer`, and the text of the answer is kept."""


def end_of(word: str, content: Iterable[Block]) -> End:
    """The end of an answer with this stop reason and these blocks."""
    kinds = {str(block.get("type")) for block in content}
    end = _WORDS.get(word, End.UNKNOWN)
    if end in {End.DONE, End.TOOL_CALLS}:
        if "tool_use" in kinds:
            return End.TOOL_CALLS
        return End.EMPTY if end is End.TOOL_CALLS or not has_words(kinds) else End.DONE
    return end


def has_words(kinds: Iterable[str]) -> bool:
    """Return True when these kinds of blocks contain more than thinking, so that the answer can be sent again."""
    return not _THINKING.issuperset(kinds)


def kept_of(content: Iterable[Block], end: End) -> list[Block]:
    """The blocks of an answer that the conversation keeps: calls that are not run are left out, and mere thinking."""
    runs = ENDS[end].runs_calls
    left = [block for block in content if runs or block.get("type") != "tool_use"]
    return left if has_words({str(block.get("type")) for block in left}) else []
