"""A member that another program runs, started by us: how it stands is what its files tell, and the probe of its place.

It is driven by files alone. Nothing rings it, it polls; nothing interrupts it. At work it is when its roster entry says
so; at rest when it said that it is idle, has no mail, and gave no sign for longer than it polls. That it is over is
decided here. Knows its inbox, its place and the lifecycle; refuses to know which program it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import field

from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import ModeChanged
from teamwright.protocol.mail import IdleNotification
from teamwright.protocol.secret_texts import mask_tokens
from teamwright.protocol.values import dataclass
from teamwright.storage.processes.family import start_of
from teamwright.storage.processes.lives import Life as ProcessLife
from teamwright.teams.lifecycle import GONE, Event, State
from teamwright.teams.member.placed import Placed
from teamwright.teams.places.detached import DETACHED
from teamwright.teams.plans.awaited import Awaited
from teamwright.teams.strangers.signs import InboxSigns

CALM_S = 2.0
"""So long after its last sign an idle one counts as at rest: longer than it takes to poll, twice."""

DOUBT_S = 6.0
"""So long one counts as at work that took mail, or whose notice and roster entry say different things."""

STALE_S = 10.0
"""So long one counts as at work whose entry says so though it took no mail: a person wrote to it where it runs, or
another program put an old copy of the roster back."""

PROBE_S = 5.0
"""How often it is asked whether one at work still runs, where no event tells its end."""

LEAVE_S = 15.0
"""How long one that agreed to stop may take to end by itself."""

_ASKABLE = frozenset({State.IDLE, State.AWAITING, State.WORKING, State.BLOCKED})


@dataclass(slots=True, kw_only=True, eq=False)
class Stranger(Placed):
    """One member that another program runs. `live` lasts until that has ended, from `begin` on.

    `first` is the id of its first prompt; `left` sees to what follows from its end, `hear` reads the lead's mail before
    that, where its last words may be; `tell` writes it a note.
    """

    signs: InboxSigns
    first: str
    left: Callable[[str, str], Awaitable[None]]
    hear: Callable[[], Awaitable[object]]
    tell: Callable[[str, str], None]
    unfollow: Callable[[], None] = lambda: None
    """Ends that its files are followed; harmless a second time."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """It has read its first prompt, or said that it is active."""
    _active: bool | None = None
    _busy: bool = False
    _took: bool = False
    _idled: bool = False
    _waiting: int = 0
    _going: asyncio.Event = field(default_factory=asyncio.Event)
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)
    _timer: asyncio.TimerHandle | None = None

    # ── see Mate ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def external(self) -> bool:
        """See Mate."""
        return True

    @property
    def mode(self) -> str:
        """See Mate: what it was given; what it is in is its program's business."""
        return self.said_mode

    @property
    def door(self) -> Stranger:
        """See Mate."""
        return self

    @property
    def owes(self) -> bool:
        """See Mate."""
        return False

    @property
    def stopped_by(self) -> str:
        """See Mate."""
        return ""

    def late(self, text: str) -> None:
        """See Mate."""
        self.tell(text, "an answer came late")

    def notice(self, text: str, key: str = "") -> None:
        """See Mate."""
        self.tell(text, "a note")

    def budget_raised(self) -> None:
        """See Mate: what it uses is not counted here."""

    def interrupt(self) -> bool:
        """See Mate."""
        return False

    async def wind_up(self, grace_s: float) -> str:
        """See Mate. Its place is closed, with all that runs there."""
        self._stop_timer()
        try:
            return await self._close_place()
        finally:
            self.unfollow()

    # ── the door ──────────────────────────────────────────────────────────────────────────────────────────────

    def ring(self) -> None:
        """See Doorway. It polls by itself; here only its inbox is looked at."""
        self.look()

    def held(self, sender: str, /) -> bool:
        """See Doorway: nothing keeps mail from it."""
        return False

    @property
    def rung(self) -> bool:
        """See Doorway."""
        return bool(self.signs.unread)

    # ── what its files say (see Followed) ─────────────────────────────────────────────────────────────────────

    def look(self) -> None:
        """Look into its inbox: mail that it has not taken, or took just now, keeps it from resting."""
        changed, taken = self.signs.look()
        if not changed or self.state in GONE:
            return
        if self.first not in self.signs.unread:
            self.begun.set()
        if self.asked and self.asked in taken and self.state in _ASKABLE:
            self.move(Event.STOP_ASKED)
        self._stirs()
        self._took = self._took or bool(taken)
        if taken and self._active is None:
            self._works()  # it never said yet whether it is in a turn: whoever takes mail is
        elif not self._busy:
            self._calm_after(DOUBT_S)

    def active(self, now: bool, /) -> None:
        """See Followed."""
        self.look()
        self._active = now
        self.begun.set()
        if not now:
            self._rests()
            return
        self._works()
        if not self._took and self._idled:
            self._calm_after(STALE_S)

    def idles(self, notice: IdleNotification, /) -> None:
        """See Followed. While its entry says otherwise that is held against it for a while: one of both is old."""
        self.look()
        self.last_active_ms = now_ms()
        if self._active:
            self._calm_after(DOUBT_S)
        else:
            self._rests()

    def waits_for(self, what: str, /) -> None:
        """See Followed."""
        self._waiting += 1
        self._works()
        if self.state is State.WORKING:
            self.move(Event.BLOCK, what)

    def got_answer(self) -> None:
        """See Followed."""
        self._waiting = max(0, self._waiting - 1)
        if not self._waiting and self.state is State.BLOCKED:
            self.move(Event.ANSWERED)

    def given(self, mode: str, /) -> None:
        """See Followed."""
        self.said_mode = mode
        self.emit(ModeChanged(member=self.name, mode=mode))

    def handed_in(self, plan: Awaited, /) -> None:
        """See Followed."""
        self.plan = plan
        self._show()
        self.changed.set()

    def agreed(self) -> None:
        """See Followed."""
        if not self.leaving:
            self.leaving = "shut down on request"
            self._going.set()

    def objected(self) -> None:
        """See Followed."""
        self.asked = ""
        if self.state is State.STOPPING:
            self.move(Event.OBJECTED)
            self._works()

    # ── its life ──────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, active: bool | None = None) -> None:
        """It answered, and lives from now on. `active` is what its entry says, where it went on without its lead."""
        self._active = active if self._active is None else self._active
        self.move(Event.READY)
        if self._active is None and not self._idled:
            self._busy = True  # it took its first prompt, and has not said that it is done
        self._stirs()
        if self._busy or self._active:
            self._works()
        else:
            self._calm_after(CALM_S)

    async def live(self) -> None:
        """Until its program ends, or has agreed to; then whatever follows from that is seen to."""
        ended, going = asyncio.create_task(self._ended()), asyncio.create_task(self._going.wait())
        try:
            await asyncio.wait({ended, going}, return_when=asyncio.FIRST_COMPLETED)
            if self.state in GONE:
                return  # whoever ended it sees it out
            if not going.done():
                await self._heard_last()
            await asyncio.wait({ended}, timeout=LEAVE_S)
        finally:
            ended.cancel()
            going.cancel()
        if self.state in GONE:
            return
        words = "" if self.leaving else await self._last_words()
        cause = self.leaving or f"its program ended without a word{words}"
        failed, self.leaving = not self.leaving, cause
        await self.wind_up(0)
        self.move(Event.BROKE if failed else Event.LEFT, cause)
        await self.left(self.name, f"failed: {cause}" if failed else cause)
        self.changed.set()

    async def _last_words(self) -> str:
        """The last line that the program wrote, where that is no screen: there it is the program's own status line."""
        on_screen = self.spot is None or self.spot.kind != DETACHED
        return "" if on_screen else mask_tokens(await self._last_line())

    async def _heard_last(self) -> None:
        """It is gone; its last mail may say that it agreed."""
        try:
            await self.hear()
        except TeamwrightError:
            return

    async def _ended(self) -> None:
        """Until its program has ended: an event where its process is known, else a slow probe while it is at work."""
        facts = self.spot.facts if self.spot is not None else dict[str, str]()
        pid, start = facts.get("pid", ""), facts.get("start", "")
        life = ProcessLife.of(int(pid)) if pid.isdigit() and start else None
        if life is not None:
            gone = asyncio.Event()
            stop = life.on_end(gone.set)
            try:
                if start_of(life.pid) == start:
                    await gone.wait()
            finally:
                stop()
                life.close()
        while await self._runs():
            await asyncio.sleep(PROBE_S)
            self._stirred.clear()
            if self.resting:
                await self._stirred.wait()
            self.look()

    async def _runs(self) -> bool:
        """Whether it still runs; when its place does not answer nobody knows, and it counts as running."""
        try:
            return self.spot is None or await self.place.alive(self.spot)
        except TeamwrightError:
            return True

    # ── at work or at rest ────────────────────────────────────────────────────────────────────────────────────

    def _works(self) -> None:
        self._stop_timer()
        self._busy = True
        self._stirs()
        self._show()

    def _turn_unseen(self) -> None:
        """Its plan is answered, and it rests: whatever turn it made of the answer was over before anybody looked."""
        if self.state is State.AWAITING and not self.plan.open:
            self._works()

    def _rests(self) -> None:
        self._turn_unseen()
        self._busy, self._took, self._idled = False, False, True
        self._show()
        self._calm_after(CALM_S)

    def _calm_after(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._calm)

    def _calm(self) -> None:
        """It gave no sign for long enough: it rests, if it took all of its mail."""
        self._timer = None
        self.look()
        if self._timer is not None or self.state in GONE or self._waiting:
            return
        if not self.signs.unread:
            self._turn_unseen()
        self._busy, self._active = False, False if self._active else self._active
        self._show()
        self.resting = not self.signs.unread and self.state is not State.STOPPING
        self.changed.set()

    def _show(self) -> None:
        """Move along the lifecycle, where what is known of it says another state."""
        busy, self.last_active_ms = self._busy, now_ms()
        if busy and self.state in {State.IDLE, State.AWAITING}:
            self.turns += 1
            self.move(Event.WOKEN)
        elif not busy and self.state in {State.WORKING, State.BLOCKED}:
            if self.state is State.BLOCKED:
                self._waiting = 0  # a person answered it where it runs, or cut its turn short
                self.move(Event.ANSWERED)
            self.move(*((Event.AWAIT, self.plan.words) if self.plan.open else (Event.REST, "")))
        elif not busy and self.state is State.IDLE and self.plan.open:
            self.move(Event.AWAIT, self.plan.words)
        self.changed.set()

    def _stirs(self) -> None:
        self.resting = False
        self._stirred.set()
        self.changed.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
