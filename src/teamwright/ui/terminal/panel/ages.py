"""How long ago, in few characters, and when the words for it change: so nothing is redrawn before that. Pure."""

from __future__ import annotations

import math

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def age(seconds: float) -> str:
    """`12 s`, `3 min`, `2 h`, `4 d`."""
    whole = max(0, math.floor(seconds))
    for unit, size in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def changes_in(seconds: float) -> float:
    """After how many seconds the words for this age are others; at least a tenth of one."""
    step = next((size for size in (_DAY, _HOUR, _MINUTE) if seconds >= size), 1)
    return max(0.1, step - max(0.0, seconds) % step)


def count(tokens: int) -> str:
    """A number of tokens in at most five characters: `900`, `12.3k`, `1.2M`."""
    if tokens < 1_000:
        return str(tokens)
    if tokens < 999_500:
        return f"{tokens / 1_000:.1f}k" if tokens < 99_950 else f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000_000:.1f}M"
