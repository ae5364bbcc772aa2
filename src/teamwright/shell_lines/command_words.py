"""Words of commands, and tables of words, written as one text for easy reading and comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

Words = tuple[str | None, ...]
"""The words of a command. None is a word that only the shell knows."""


def base_name(word: str | None) -> str | None:
    """Return the program's name without its directory."""
    return None if word is None else word.rsplit("/", 1)[-1]


def join_words(words: Iterable[str | None]) -> str:
    """Return words as one line for people and rules, quoted where needed; an unknown one as `…`."""
    return " ".join("…" if word is None else _quoted(word) for word in words)


def _quoted(word: str) -> str:
    if word and re.fullmatch(r"[\w@%+=:,./~*?^{}\[\]!#-]+", word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, split at blanks."""
    return frozenset(text.split())


@cache
def parse_rows(text: str) -> dict[str, str]:
    """Return the lines of a text by their first word. A line that begins with a blank continues the one before it."""
    found: dict[str, str] = {}
    name = ""
    for line in text.strip().splitlines():
        first, _, rest = line.partition(" ")
        name = first or name
        found[name] = f"{found.get(name, '')} {rest}".strip()
    return found
