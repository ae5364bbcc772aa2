"""The shortest line that is still wrong: pieces are left out as long as the judge finds the same effect.

Depends on a judgement as a function. Knows no syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s+|\w+|.", re.DOTALL)


def minimise(line: str, still_wrong: Callable[[str], bool], most: int = 120) -> str:
    """The line without what is not needed for its effect, after at most so many judgements."""
    left = most

    def holds(parts: list[str]) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and still_wrong("".join(parts))

    return "".join(_shorten(list("".join(_shorten(_TOKEN.findall(line), holds))), holds))


def _shorten(parts: list[str], holds: Callable[[list[str]], bool]) -> list[str]:
    size = max(1, len(parts) // 2)
    while True:
        at = 0
        while at < len(parts):
            without = parts[:at] + parts[at + size :]
            if without and holds(without):
                parts = without
            else:
                at += size
        if size == 1:
            return parts
        size = max(1, size // 2)
