"""Text that came from elsewhere, made fit for a terminal: what could steer it is spelt out, width is counted in cells.

Everything a model, a file or a command wrote goes through `clean` before it is shown, so that no escape sequence
and no invisible character changes what a person sees. Pure.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable
from textwrap import wrap

from teamwright.protocol.values import dataclass
from teamwright.ui.printable import JOINERS, char_code, clean, escape_char


def window_size() -> os.terminal_size:
    """Columns and rows; without a terminal what the environment says, else 80 by 24."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # no terminal, a closed one, or somebody else's object
        return shutil.get_terminal_size()
    return size if size.columns and size.lines else shutil.get_terminal_size()


@dataclass(slots=True)
class LineStream:
    """Takes pieces of text and gives whole lines."""

    _rest: str = ""

    def add(self, text: str) -> list[str]:
        """The lines that this piece completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        return lines

    def end(self) -> list[str]:
        """What is left, as a last line; nothing when there is nothing."""
        rest, self._rest = self._rest, ""
        return [rest] if rest else []


_BLANK_LOOKALIKES = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0")
"""Letters, marks and signs that are drawn as a blank, or not at all."""

_COLUMN = re.compile(r" *\S+(?: \S+)* {2,}(?=\S)")
"""What stands before a second column: words with one blank between them, then two or more."""


def fold_lines(lines: Iterable[str], width: int) -> list[str]:
    """The lines with those that are wider than the window broken between words: the terminal would break within them.

    The rest of a line stands under its second column, else one step further in than its beginning; a word that is
    wider than that (a path) stays whole. Lines must bear no colours.
    """
    return [part for line in lines for part in ([line] if cell_width(line) <= width else _break_line(line, width))]


def _break_line(line: str, width: int) -> list[str]:
    indent = len(line) - len(line.lstrip())
    column = _COLUMN.match(line)
    begins = column.end() if column is not None else indent
    if " " not in line[begins:].rstrip():
        return [line]
    rest = begins if indent < begins <= width // 2 else min(indent + 2, width // 2)  # a column needs room beside it
    return wrap(
        line.strip(),
        max(width, 2),
        initial_indent=" " * indent,
        subsequent_indent=" " * rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def clean_exact(text: str) -> str:
    """As `clean`, and what only looks like a blank or like nothing is spelt out too: for what a person answers for."""
    if text.isascii():
        return clean(text)
    return "".join(char_code(char) if _is_deceptive(char) else escape_char(char) for char in text)


def model_name(name: str) -> str:
    """A model's name as people read it: of a script the file alone."""
    kind, found, file = name.partition(":")
    return clean(f"{kind}:{file.rpartition('/')[2]}" if found and kind == "scripted" else name)


def one_line(text: str) -> str:
    """The text on one line, cleaned, runs of blanks as one."""
    return clean(" ".join(text.split()))


def cell_width(text: str) -> int:
    """How many columns the text takes on a terminal."""
    return len(text) if text.isascii() else sum(_cells(char) for char in text)


def cut(text: str, width: int) -> str:
    """At most `width` columns of the text, with `…` where something is missing."""
    if cell_width(text) <= width:
        return text
    if width < 1:
        return ""
    used = 0
    for at, char in enumerate(text):
        used += _cells(char)
        if used > width - 1:
            return text[:at] + "…"
    return text


def pad(text: str, width: int) -> str:
    """The text with blanks up to `width` columns; longer text is left as it is."""
    return text + " " * (width - cell_width(text))


def _is_deceptive(char: str) -> bool:
    """Whether a character takes part in a word, or keeps words apart, without being seen to."""
    if char == " ":
        return False
    return (
        char in JOINERS
        or char in _BLANK_LOOKALIKES
        or "\ufe00" <= char <= "\ufe0f"
        or "\U000e0100" <= char <= "\U000e01ef"
        or unicodedata.category(char) == "Zs"
    )


def _cells(char: str) -> int:
    if char in JOINERS or unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
