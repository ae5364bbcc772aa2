"""Times as files contain them: milliseconds since 1970, and ISO 8601 in UTC with milliseconds and `Z`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return int(time.time() * 1000)


def iso_time(ms: int | None = None) -> str:
    """Return `2026-11-20T12:34:56.789Z` for a time in milliseconds (default: now)."""
    seconds, rest = divmod(now_ms() if ms is None else ms, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


def parse_iso_ms(text: str) -> int | None:
    """Return the milliseconds since 1970 of an ISO 8601 time; None for any other text."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    """Return the text of one second; cached, because many entries and lines have times in the same second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]
