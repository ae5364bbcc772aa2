"""The encoding in which a shell reads a line, and the signs that a line loses in some encodings.

In GBK, Big5 and Shift JIS a character may consist of a byte above 127 and a backslash, a bar or a bracket. A line in
UTF-8 then has other quotes than it seems to have. Reads the environment only.
"""

from __future__ import annotations

import os
import re

_SWALLOWED = re.compile(r"[^\x00-\x7f][\\|\[\]{}^~@`]")
_LOCALE = re.compile(r"LANG|LC_[A-Z]+")
_PLAIN_LOCALE = re.compile(r"(C|POSIX|(C|[a-z]{2,3}(_[A-Z]{2})?)\.(UTF-8|UTF8|utf8|utf-8)(@[a-z]+)?)?")
_SINGLE_BYTES = re.compile(r"[a-z]{2,3}(_[A-Z]{2})?\.ISO-?8859-?[0-9]+(@[a-z]+)?", re.IGNORECASE)


def may_lose_signs(text: str) -> bool:
    """Return True when a sign follows a character beyond ASCII, and may belong to it in another encoding."""
    return not text.isascii() and _SWALLOWED.search(text) is not None


def is_locale(name: str) -> bool:
    """Return True for a variable that sets the language, and with it the encoding."""
    return _LOCALE.fullmatch(name) is not None


def is_plain_locale(value: str) -> bool:
    """Return True for a locale whose encoding is UTF-8 or ASCII."""
    return _PLAIN_LOCALE.fullmatch(value) is not None


def has_odd_encoding() -> bool:
    """Return True when commands get an encoding in which characters may contain ASCII signs."""
    value = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    return not (is_plain_locale(value) or _SINGLE_BYTES.fullmatch(value))
