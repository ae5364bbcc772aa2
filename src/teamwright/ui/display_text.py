"""Text prepared for people and programs: cleaned of invisible characters, folded, cut and padded by its width in cells.

Every write to a terminal or to stderr goes through `clean`, so that no escape sequence changes the screen; `json_text`
does the same for programs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable
from functools import cache
from textwrap import wrap
from typing import Any

JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")
"""Invisible characters that emoji and some scripts need; they do not move the cursor."""

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_TAB = "    "

_CONTROL_CHARS = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that JSON leaves unescaped, but that move a cursor, change the direction of text, or are invisible."""


def clean(text: str) -> str:
    """Return the text with tabs as blanks and every other control or invisible character spelt out.

    Line feeds stay.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escape_char(char) for char in text)


def escape_char(char: str) -> str:
    """Return a character as it may be printed: itself, blanks for a tab, or its code."""
    if char == "\n" or char in JOINERS:
        return char
    if char == "\t":
        return _TAB
    return char_code(char) if unicodedata.category(char) in _UNSAFE else char


def char_code(char: str) -> str:
    """Return the code of a character."""
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON without control characters; parsing it gives the same value."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if text.isprintable() else _CONTROL_CHARS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def discard_buffer(stream: Any) -> None:
    """Discard the buffered output of a stream that has no reader, so that the flush at exit does not fail."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        devnull = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)


def window_size() -> os.terminal_size:
    """Return columns and rows of the terminal; without one those of the environment, else 80 by 24."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    # no terminal, a closed one, or an object that the host put in the place of stdout
    except (OSError, ValueError, AttributeError):
        return shutil.get_terminal_size()
    return size if size.columns and size.lines else shutil.get_terminal_size()


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


_WITHOUT_BLANKS = "\u2e80-\u9fff\uac00-\ud7af\uff00-\uff60"
"""The characters of scripts that separate no words with blanks, for a class of a regular expression."""


@cache  # compiling the ranges takes milliseconds, for which no start should wait
def _word_pattern() -> re.Pattern[str]:
    """Return the pattern of blanks, of a character of a script without blanks, or of a word."""
    return re.compile(rf"\s+|[{_WITHOUT_BLANKS}]|[^\s{_WITHOUT_BLANKS}]+")


def wrap_words(line: str, width: int) -> list[str]:
    """Break a line of text between words into lines of `width` columns, all with its indentation.

    A word that is wider than a line is not broken. The line must not contain colours.
    """
    if cell_width(line) <= width:
        return [line]
    indent = " " * min(len(line) - len(line.lstrip()), width // 2)
    lines: list[str] = []
    now = indent
    for word in _word_pattern().findall(line.strip()):
        if cell_width(now) + cell_width(word.rstrip()) > width and now.strip():
            lines.append(now.rstrip())
            now = indent
        now += word if now.strip() else word.lstrip()
    return [*lines, now.rstrip()]


@cache
def _break_pattern() -> re.Pattern[str]:
    """Return the pattern of a text up to the last place between two words."""
    return re.compile(rf".*[\s{_WITHOUT_BLANKS}]", re.DOTALL)


def whole_words(text: str) -> str:
    """Return the text without a last word that may not be complete."""
    found = _break_pattern().match(text)
    return found[0] if found else ""


def clean_exact(text: str) -> str:
    """Clean a text, and also show characters that look like a blank or are not visible. For text that a person
    approves.
    """
    if text.isascii():
        return clean(text)
    return "".join(char_code(char) if _is_deceptive(char) else escape_char(char) for char in text)


def exact_line(text: str) -> str:
    """Return the text on one line, with every line end and every character that is not visible spelt out.

    For rules and commands that a person approves: nothing is left out, and nothing looks like something else.
    """
    return clean_exact(text).replace("\n", "\\n")


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
    used = 0
    end = None
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
