"""How the member that a process is for comes to its end, whoever brings that about; said once, the first counts.

Knows the member; refuses to know who leads it, and what follows from its end.
"""

from __future__ import annotations

import asyncio
from dataclasses import field

from teamwright.protocol.values import dataclass
from teamwright.teams.in_process_teammate import InProcessTeammate
from teamwright.teams.lifecycle import ENDED_STATES, MemberState

_FAILED = "failed: "


@dataclass(frozen=True, slots=True)
class MemberEnd:
    """How it is over: `left`, `failed`, `killed` or `suspended`, and why."""

    how: str
    cause: str
    agreed_to: str | None = None


@dataclass(slots=True, kw_only=True)
class MemberLifetime:
    """The end of one member. `mate` is the member, once it is at work here; `over` is set when `ended` says how."""

    mate: InProcessTeammate | None = None
    ended: MemberEnd | None = None
    has_ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_until_ended(self) -> MemberEnd:
        """How the member ended."""
        await self.has_ended.wait()
        return self.ended or MemberEnd("left", "")

    def end(self, how: str, cause: str) -> None:
        """The member ends now: cut off at whatever it does. `how` is suspended (it keeps its place) or killed."""
        if self.ended is not None:
            return
        self.ended = MemberEnd(how, cause)
        self.cut()
        self.has_ended.set()

    def cut(self) -> None:
        """What was ended is cut off, if it is at work."""
        mate, ended = self.mate, self.ended
        if mate is None or ended is None or mate.state in ENDED_STATES:
            return
        mate.end_cause = ended.cause or ended.how
        mate.state = MemberState.SUSPENDED if ended.how == "suspended" else MemberState.KILLED
        if mate.run_task is not None:
            mate.run_task.cancel()

    async def departed(self, _name: str, cause: str, agreed_to: str | None) -> None:
        """The member ended by itself (see Team.departed)."""
        if self.ended is None:
            how = "failed" if cause.startswith(_FAILED) else "left"
            self.ended = MemberEnd(how, cause.removeprefix(_FAILED), agreed_to)
        if self.mate is not None:
            self.mate.end_processed = True
        self.has_ended.set()
