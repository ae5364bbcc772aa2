"""The port for asking a member to stop: the session owns the deadlines that follow."""

from __future__ import annotations

from typing import Protocol


class Stopping(Protocol):
    """Filled in `app`, which owns the timers."""

    async def ask(self, to: str, reason: str, call: str = "") -> str:
        """Ask a member to stop; the request's id, one for each `call`. Raises UnknownMember or TeamRefused."""
        ...
