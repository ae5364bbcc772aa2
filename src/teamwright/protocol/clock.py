"""Times as they are written: milliseconds since 1970, and ISO 8601 in UTC with milliseconds and `Z`."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


def iso(ms: int | None = None) -> str:
    """`2026-11-20T12:34:56.789Z` for a time in milliseconds (default: now)."""
    moment = datetime.fromtimestamp((now_ms() if ms is None else ms) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"
