"""Tables of words, written as one text so that they can be read and compared at a glance. Depends on nothing."""

from __future__ import annotations

from functools import cache


def table(text: str) -> frozenset[str]:
    """The words of a text, by blanks."""
    return frozenset(text.split())


@cache
def rows(text: str) -> dict[str, str]:
    """The lines of a text by their first word; a line that begins with a blank continues the one before it."""
    found: dict[str, str] = {}
    name = ""
    for line in text.strip().splitlines():
        first, _, rest = line.partition(" ")
        name = first or name
        found[name] = f"{found.get(name, '')} {rest}".strip()
    return found
