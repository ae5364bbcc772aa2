"""Words of a command as one line, for people and rules. Parses nothing: loading it costs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable


def as_line(words: Iterable[str | None]) -> str:
    """Words as one line for people and rules, quoted where needed; an unknown one as `…`."""
    return " ".join("…" if word is None else _quoted(word) for word in words)


def _quoted(word: str) -> str:
    if word and re.fullmatch(r"[\w@%+=:,./~*?^{}\[\]!#-]+", word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"
