"""Text prepared for a terminal: folded, cut and padded by its width in cells, and cleaned of invisible characters.

Texts of models, files and commands go through `clean` before they are shown, so that no escape sequence changes the
screen.
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
    """Return columns and rows of the terminal; without one those of the environment, else 80 by 24."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    # no terminal, a closed one, or an object that the host put in the place of stdout
    except (OSError, ValueError, AttributeError):
        return shutil.get_terminal_size()
    return size if size.columns and size.lines else shutil.get_terminal_size()


@dataclass(slots=True)
class LineStream:
    """A buffer that takes pieces of text and returns whole lines."""

    _rest: str = ""

    def add(self, text: str) -> list[str]:
        """Add a piece of text and return the lines that it completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        return lines

    def end(self) -> list[str]:
        """Return the rest as a last line, or nothing."""
        rest, self._rest = self._rest, ""
        return [rest] if rest else []


_BLANK_LOOKALIKES = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0")
"""Characters that are drawn as a blank, or not at all."""

_COLUMN = re.compile(r" *\S+(?: \S+)* {2,}(?=\S)")
"""The text before a second column: words with single blanks, then two or more blanks."""


def fold_lines(lines: Iterable[str], width: int) -> list[str]:
    """Break lines that are wider than the window between words, since the terminal would break inside words.

    Continuation lines start under the second column, else two columns further right than the line. A single word that
    is too wide (a path) is not broken. The lines must not contain colours.
    """
    return [part for line in lines for part in ([line] if cell_width(line) <= width else _break_line(line, width))]


def _break_line(line: str, width: int) -> list[str]:
    indent = len(line) - len(line.lstrip())
    column = _COLUMN.match(line)
    begins = column.end() if column is not None else indent
    if " " not in line[begins:].rstrip():
        return [line]
    # a second column needs enough width after it
    rest = begins if indent < begins <= width // 2 else min(indent + 2, width // 2)
    return wrap(
        line.strip(),
        max(width, 2),
        initial_indent=" " * indent,
        subsequent_indent=" " * rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def clean_exact(text: str) -> str:
    """Clean a text, and also show characters that look like a blank or are not visible. For text that a person
    approves.
    """
    if text.isascii():
        return clean(text)
    return "".join(char_code(char) if _is_deceptive(char) else escape_char(char) for char in text)


def model_name(name: str) -> str:
    """Return a model's name for people; for a script only the file name."""
    kind, found, file = name.partition(":")
    return clean(f"{kind}:{file.rpartition('/')[2]}" if found and kind == "scripted" else name)


def one_line(text: str, width: int | None = None) -> str:
    """Return the text on one line, cleaned, with runs of blanks as one, and cut to `width` columns."""
    flat = clean(" ".join(text.split()))
    return flat if width is None else cut(flat, width)


def cell_width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    return len(text) if text.isascii() else sum(_cells(char) for char in text)


def cut(text: str, width: int) -> str:
    """Return at most `width` columns of the text, with `…` where text is left out."""
    if width < 1:
        return ""
    if text.isascii():
        return text if len(text) <= width else text[: width - 1] + "…"
    used, end = 0, None
    for at, char in enumerate(text):
        used += _cells(char)
        if used > width - 1 and end is None:
            end = at
        if used > width:
            return text[:end] + "…"
    return text


def pad(text: str, width: int) -> str:
    """Pad the text with blanks to `width` columns; longer text is unchanged."""
    return text + " " * (width - cell_width(text))


def _is_deceptive(char: str) -> bool:
    """Return True for a character that is part of a word, or separates words, without being visible."""
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
