"""Colours and styles of text, for terminals that support them and without `NO_COLOR`; and diffs in them.

`Paint(False)` returns every text unchanged. Changed words of a line of a diff are marked. Texts are not cleaned; the
caller makes them safe for a terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from teamwright.storage.paths import Home

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "purple": "35",
    "cyan": "36",
    "orange": "38;5;208",
    "pink": "38;5;205",
    "removed": "31",
    "added": "32",
    "removed words": "7;31",
    "added words": "7;32",
}

PLAIN_TERMINALS = frozenset({"", "dumb", "unknown"})
"""Values of TERM for terminals without colours and without a movable cursor."""


class Paint(Struct, frozen=True):
    """A function that adds colours to texts, or leaves them unchanged."""

    on: bool = False

    def __call__(self, style: str, text: str) -> str:
        """Return the text in a colour or style of this module; an unknown style changes nothing."""
        code = _CODES.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and code and text else text


def make_paint(env: Mapping[str, str], *, is_tty: bool) -> Paint:
    """Return a Paint with colours on a terminal that supports them; any value of `NO_COLOR` disables them
    (no-color.org).
    """
    return Paint(is_tty and not env.get("NO_COLOR") and not is_plain_terminal(env))


def is_plain_terminal(env: Mapping[str, str]) -> bool:
    """Return True for a terminal that gets text alone, without colours and without a movable cursor."""
    return env.get("TERM", "") in PLAIN_TERMINALS


def terminal_environment(env: Mapping[str, str], *, plain: bool) -> Mapping[str, str]:
    """Return the environment that describes the terminal: with `plain` that of a terminal without a movable cursor."""
    return {**env, "TERM": "dumb"} if plain else env


def configured_terminal(home: Home, *, plain: bool = False) -> Mapping[str, str]:
    """Return the environment that describes the terminal; `plain` is the value of the flag."""
    from teamwright.config.settings.files import user_setting  # only a start reads settings

    is_plain = plain or user_setting(home, "terminal.plain") is True
    return terminal_environment(os.environ, plain=is_plain)


StyledLine: TypeAlias = tuple[str, str]
"""A style, empty for none, and a text."""

_REMOVED, _ADDED, _NO_NEWLINE = "removed", "added", "no newline"

_STYLES = {"+": _ADDED, "-": _REMOVED, "@": "cyan", "\\": _NO_NEWLINE}
"""The style of a line of a hunk, by its first character."""

MAX_BLOCK_LINES = 100
"""The number of removed and added lines of a block in which words are compared. A larger block has whole lines only."""

MAX_WORDS = 400
"""The number of words of a line that are compared."""

MIN_SIMILARITY = 0.5
"""The part of its words that a removed line shares with the added line that replaces it."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


def styled_diff(lines: Sequence[str]) -> Iterator[StyledLine]:
    """Yield the lines of a text with their styles. A diff begins at its two heads; lines before it have no style."""
    heads = _first_head(lines)
    yield from (("", line) for line in lines[:heads])
    yield from (("bold", line) for line in lines[heads : heads + 2])
    yield from hunk_lines(lines[heads + 2 :])


def hunk_lines(lines: Iterable[str]) -> Iterator[StyledLine]:
    """Yield the lines of a diff after its two heads, with their styles."""
    return ((_STYLES.get(line[:1], ""), line) for line in lines)


def _first_head(lines: Sequence[str]) -> int:
    pairs = enumerate(pairwise(lines))
    return next((at for at, (old, new) in pairs if old[:4] == "--- " and new[:4] == "+++ "), len(lines))


def paint_lines(lines: Iterable[StyledLine], paint: Paint) -> Iterator[str]:
    """Yield the lines with their colours. In removed lines and the added lines that replace them, the words that differ
    are reversed.
    """
    block: list[StyledLine] = []
    for style, text in lines:
        is_new = style == _REMOVED and any(one == _ADDED for one, _ in block)
        if is_new or style not in {_REMOVED, _ADDED, _NO_NEWLINE}:
            yield from _painted_block(block, paint)
            block = []
        if style in {_REMOVED, _ADDED, _NO_NEWLINE}:
            block.append((style, text))
        else:
            yield paint(style, text)
    yield from _painted_block(block, paint)


def _painted_block(block: Sequence[StyledLine], paint: Paint) -> Iterator[str]:
    """Yield removed lines and the added lines after them."""
    marked = _marked_lines(block) if paint.on and len(block) <= MAX_BLOCK_LINES else {}
    for at, (style, text) in enumerate(block):
        if style == _NO_NEWLINE:
            yield paint("dim", text)
        elif at in marked:
            yield "".join(paint(f"{style} words" if differs else style, part) for part, differs in marked[at])
        else:
            yield paint(style, text)


_Parts: TypeAlias = list[tuple[str, bool]]
"""The parts of a line, each with True when the other line has another text there."""


def _marked_lines(block: Sequence[StyledLine]) -> dict[int, _Parts]:
    """Return the parts of each line that replaces another one or is replaced, by its index."""
    removed = [at for at, (style, _) in enumerate(block) if style == _REMOVED]
    added = [at for at, (style, _) in enumerate(block) if style == _ADDED]
    marked: dict[int, _Parts] = {}
    begin = 0
    for old in removed:
        for place in range(begin, len(added)):
            if (parts := _compared(block[old][1], block[added[place]][1])) is not None:
                marked[old], marked[added[place]] = parts
                begin = place + 1
                break
    return marked


def _compared(old: str, new: str) -> tuple[_Parts, _Parts] | None:
    """Return the parts of a removed and an added line; None for lines with little in common."""
    import difflib

    before, after = _WORD.findall(old[1:]), _WORD.findall(new[1:])
    if max(len(before), len(after)) > MAX_WORDS:
        return None
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if matcher.real_quick_ratio() < MIN_SIMILARITY or matcher.ratio() < MIN_SIMILARITY:
        return None
    parts: tuple[_Parts, _Parts] = ([(old[0], False)], [(new[0], False)])
    for what, first, last, start, end in matcher.get_opcodes():
        for line, words in zip(parts, (before[first:last], after[start:end]), strict=True):
            text, differs = line[-1]
            if differs is (what != "equal"):
                line[-1] = text + "".join(words), differs
            elif words:
                line.append(("".join(words), not differs))
    return parts
