"""How a member waits out a limit of the model's service: it stays, owes its turn, and tries again by itself.

Bounded in number and time; whoever writes to it makes it try at once. Knows how a turn ended; knows no service.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from teamwright.agent.agent import TurnEnd

TRIES_MOST = 3
"""How often a member tries again by itself before only words wake it: each try is a whole series of the model's own."""


class WaitingOut:
    """The waiting of one member. `due` is when it tries again (of `time.monotonic`), None when it does not.

    `owes` says that its last turn was given up though the same request may work later: it is not done.
    """

    __slots__ = ("due", "owes", "tries")

    def __init__(self) -> None:
        self.due: float | None = None
        self.owes = False
        self.tries = 0

    def note(self, end: TurnEnd) -> None:
        """A turn ended."""
        again_s = end.failure.again_s if end.failure is not None else None
        self.owes = end.failure is not None and (end.failure.retriable or again_s is not None)
        if again_s is None:
            self.due, self.tries = None, 0
        elif self.tries >= TRIES_MOST:
            self.due = None
        else:
            self.tries += 1
            # A little apart: the others of the team were refused at the same moment.
            self.due = time.monotonic() + again_s * (1 + random.random() * 0.1)

    @property
    def told_before(self) -> bool:
        """Whether the lead knows already that this member waits, and nothing but another try has changed."""
        return self.due is not None and self.tries > 1

    def words(self, end: TurnEnd) -> str:
        """Why it waits, as the lead is told."""
        if self.due is not None:
            wait_s = max(1, round(self.due - time.monotonic()))
            return (
                f"{end.why}. It is paused and nothing is lost: it tries again automatically in about {wait_s} s, "
                f"up to {TRIES_MOST} times, or at once when you write to it."
            )
        if self.tries:
            return f"{end.why}. It tried {self.tries} more times and stays paused now: write to it to make it go on."
        return end.why

    async def over(self, rung: Callable[[], Awaitable[None]]) -> bool:
        """Wait until it is due or somebody rings. Whether it is due: then the turn that is owed is to be run."""
        left_s = None if self.due is None else max(0.0, self.due - time.monotonic())
        try:
            async with asyncio.timeout(left_s):
                await rung()
        except TimeoutError:
            self.due = None
            return True
        return False
