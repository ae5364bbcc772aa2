"""Text of models, files and commands, made safe to print: `clean` for people, `json_text` for programs.

Depends on nothing. Every write to a terminal or to stderr goes through one of the two; width, colours and line
breaks are left to others.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
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
    import unicodedata  # loaded only for text with such characters

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
