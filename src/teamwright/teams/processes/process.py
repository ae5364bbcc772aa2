"""A member that is a process of ours: what it says over the wire, and how it is reached, interrupted and ended.

Its end is seen when the wire ends. Its own process moves it along the lifecycle; that it is over is decided here.
Knows the wire and the place; does not know what an agent does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from teamwright.permissions.verdict import Mode
from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.events import MemberChanged, Notice
from teamwright.protocol.values import dataclass
from teamwright.storage.bell import take_down
from teamwright.storage.processes.leftovers import end_leftovers
from teamwright.storage.sockets.wire import Said, Wire
from teamwright.teams.lifecycle import GONE, LIMITED, Event, State
from teamwright.teams.member.away import Away
from teamwright.teams.member.room import room_of
from teamwright.teams.plans.awaited import NOTHING_AWAITED, Awaited

SUSPENDED = "suspended"
"""How a process says that it leaves and keeps its place."""

FAILED = "failed"

CRASHED = "crashed"
"""How a process ended that said nothing."""

WITH_LEAD_S = 3.0
"""Within what time a lead ends that is ended along with a member's process."""

_END = {SUSPENDED: Event.CRASHED, FAILED: Event.BROKE, CRASHED: Event.CRASHED}
"""What the end of a process means whose lead goes on, by how it says that it ends; all else is leaving."""


@dataclass(frozen=True, slots=True)
class Bye:
    """The last words of a process that ends in order. `how` is left, failed or suspended."""

    how: str
    cause: str
    agreed_to: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class Process(Away):
    """One member in a process of its own. `live` lasts as long as that does.

    `left` sees to what follows from its end; `held_senders` are those whose mail may not wake it now; `bell` is where
    it listens.
    """

    token: str
    bell: Path
    left: Callable[[str, str, str | None], Awaitable[None]]
    held_senders: Callable[[str], list[str]]
    lead_mode: Callable[[], str]
    pid: int = 0
    wire: Wire | None = None
    attached: asyncio.Event = field(default_factory=asyncio.Event)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it can be written to, or will never be."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    bye: Bye | None = None
    trouble: TeamwrightError | None = None
    """Why it could not begin, as it said itself."""
    begun: bool = False
    """Whether its start is over: what follows from its end is seen to here only then."""
    heard: int = 0
    """The number of the newest line of its log that was told here."""
    _limited: bool = False
    _capped: str = ""
    _asked: int = field(default_factory=now_ms)
    """The number of the newest ring: above those of a lead before this one."""
    _rested: int = 0

    # ── see Mate ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def mode(self) -> str:
        """See Mate. Without one of its own it follows the lead's."""
        return self.lead_mode() if self.own_mode is Mode.BUBBLE else self.said_mode

    @property
    def own_mode(self) -> Mode:
        """See Mate."""
        return Mode(self.said_mode or Mode.BUBBLE)

    @property
    def door(self) -> Process:
        """See Mate."""
        return self

    @property
    def owes(self) -> bool:
        """See Mate."""
        return self._limited

    @property
    def stopped_by(self) -> str:
        """See Mate."""
        return self._capped

    def late(self, text: str) -> None:
        """See Mate."""
        self._note("late", text=text)

    def notice(self, text: str, key: str = "") -> None:
        """See Mate."""
        self._note("notice", text=text, key=key)
        self.ring()

    def budget_raised(self) -> None:
        """See Mate."""
        self._note("budget_raised")

    def interrupt(self) -> bool:
        """See Mate."""
        if self.wire is None or self.state in GONE | {State.IDLE, State.AWAITING, State.PENDING} or self.leaving:
            return False
        self._note("interrupt")
        return True

    async def perform(self, act: str, /, **said: Any) -> Mapping[str, Any]:
        """See Away."""
        if self.wire is None:
            raise self._unreachable()
        self._asked += 1  # it may have something to do after that: it does not rest before it looked again
        try:
            return await self.wire.call(act, **said)
        except ConnectionError:
            raise self._unreachable() from None
        finally:
            self.ring()

    async def wind_up(self, grace_s: float) -> str:
        """See Mate. Asked first; after `grace_s` seconds its place is closed with all that runs there.

        Commands that left its process group are ended by their records.
        """
        trouble = ""
        self._note("end", cause=self.leaving, suspend=self.state is State.SUSPENDED)
        try:
            async with asyncio.timeout(grace_s if self.wire is not None else 0):
                await self.over.wait()
        except TimeoutError:
            trouble = f"{self.name} did not wind up within {grace_s:.0f} s" if self.wire is not None else ""
        trouble = await self._close_place() or trouble
        await asyncio.to_thread(end_leftovers, room_of(self.transcript))
        take_down(self.bell)  # a killed process leaves it hanging
        return trouble

    # ── the door ──────────────────────────────────────────────────────────────────────────────────────────────

    def ring(self) -> None:
        """See Doorway. Its process says when it has looked."""
        self._asked += 1
        self._note("look", number=self._asked, held=self.held_senders(self.name))

    def held(self, sender: str, /) -> bool:
        """See Doorway."""
        return sender in self.held_senders(self.name)

    @property
    def rung(self) -> bool:
        """See Doorway: whether it has not said yet that it looked since."""
        return self._rested < self._asked

    # ── its life ──────────────────────────────────────────────────────────────────────────────────────────────

    def attach(self, wire: Wire, pid: int, stands: Mapping[str, Any]) -> None:
        """Its process has called: from now on it is reached by this wire. `stands`: how it has been for a while."""
        self.wire, self.pid = wire, pid
        self.over.clear()
        if stands:
            self._stands(stands)
        self.attached.set()
        self.ring()

    def _stands(self, said: Mapping[str, Any]) -> None:
        """It was at work before this process led it."""
        self.state, self.turns = State(said["state"]), int(said["turn"])
        self.model, self.effort = str(said["model"]), str(said["effort"])
        self.said_mode = str(said["mode"])
        request, whom = said["plan"]
        self.plan = Awaited(str(request), str(whom)) if request else NOTHING_AWAITED
        self._limited, self._capped = bool(said["limited"]), str(said["capped"])
        detail = str(said["detail"])
        self.waiting_on = detail if self.state in {State.BLOCKED, State.AWAITING} else ""
        self.ready.set()
        self._tell(LIMITED if self._limited else detail)

    def detached(self) -> None:
        """The wire has ended, and so has the process: it calls again only where its lead was gone."""
        self.wire, self.resting = None, False
        self.over.set()
        self.ready.set()
        self.changed.set()

    async def live(self) -> None:
        """Until its process ends; then whatever follows from that is seen to."""
        await self.over.wait()
        if not self.begun:
            return  # whoever starts it sees to that
        bye = self.bye
        if bye is None:
            bye = Bye(CRASHED, f"its process {self.pid} ended without a word{await self._last_line()}")
        if bye.how == SUSPENDED:
            await self._session_ends()
        if self.leaving or self.state in GONE:
            return  # whoever ends it sees it out
        self.leaving = bye.cause
        self.move(_END.get(bye.how, Event.LEFT), bye.cause)
        if trouble := await self.wind_up(0):  # before anybody hears of it: a lead that then ends leaves nothing behind
            self.emit(Notice(member=self.name, text=trouble, level="warning"))
        words = {FAILED: "failed: ", CRASHED: "crashed: ", SUSPENDED: "crashed: "}.get(bye.how, "")
        cause = f"{words}{bye.cause}"
        await self.left(self.name, cause, bye.agreed_to or None)
        self.changed.set()

    async def _session_ends(self) -> None:
        """Wait a little: what ended it (a closed window, a shutdown) may be ending its lead as well, which keeps it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WITH_LEAD_S):
                while not self.leaving and self.state not in GONE:
                    self.changed.clear()
                    await self.changed.wait()

    # ── what it says ──────────────────────────────────────────────────────────────────────────────────────────

    def rests(self, said: Said) -> None:
        """It has looked at everything up to this ring, and there is nothing to do."""
        if (number := int(said["number"])) > self._asked:
            return  # a ring of a lead before this one
        self._rested = max(self._rested, number)
        self.resting = True
        self.changed.set()

    def became(self, event: MemberChanged) -> bool:
        """Its own process moved it; False for an end, which is told here once it is true."""
        try:
            state = State(event.state)
        except ValueError:
            return False
        if state in GONE or self.state in GONE:
            return False
        self.state, self.turns = state, event.turn
        self.waiting_on = event.detail if state in {State.BLOCKED, State.AWAITING} else ""
        self.resting = self.resting and state in {State.IDLE, State.AWAITING}
        self._limited = event.detail == LIMITED
        self.last_active_ms = now_ms()
        if state is not State.PENDING and not self.ready.is_set():
            self.ready.set()
            self.ring()  # what was rung before it listened was not heard
        return True

    def handed_in(self, said: Said) -> None:
        """It handed in a plan, or one that waited was answered."""
        request = str(said["request"])
        self.plan = Awaited(request, str(said["target"])) if request else NOTHING_AWAITED

    def capped(self, why: str) -> None:
        """Its last turn ended at this cap; empty: at none."""
        self._capped = why

    def _note(self, what: str, **said: Any) -> None:
        if self.wire is not None:
            self.wire.note(what, **said)

    def _unreachable(self) -> TeamRefused:
        return TeamRefused(
            "team-refused",
            f"{self.name} runs in a separate process, which cannot be reached",
            do=["Write to it instead, or stop it and start another."],
            note="nothing was changed",
        )
