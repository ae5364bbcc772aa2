"""A member that another program runs, started by us: how it stands is what its files tell, and the probe of its place.

It is driven by files alone. Nothing rings it, it polls; nothing interrupts it. At work it is when its roster entry says
so; at rest when it said that it is idle, has no mail, and gave no sign for longer than it polls. That it is over is
decided here. Knows its inbox, its place and the lifecycle; refuses to know which program it is.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import field
from pathlib import Path

from teamwright.mail.inbox import read_entries
from teamwright.processes.pid_watch import WatchedProcess as ProcessLife
from teamwright.processes.process_tree import process_start
from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.events import ModeChanged
from teamwright.protocol.mail import IdleNotification, InboxEntry
from teamwright.protocol.secret_texts import mask_tokens
from teamwright.protocol.values import dataclass
from teamwright.storage.json_array import FileStamp, file_stamp
from teamwright.teams.backend_teammate import BackendTeammate
from teamwright.teams.backends.detached import DETACHED
from teamwright.teams.lifecycle import ENDED_STATES, LifecycleEvent, MemberState
from teamwright.teams.plan_requests import PendingPlan


@dataclass(slots=True)
class InboxSigns:
    """The inbox of one program. `unread` are the ids of what it has not taken yet."""

    path: Path
    unread: frozenset[str] = frozenset()
    _stamp: FileStamp | None = field(default=None)

    def read_changes(self) -> tuple[bool, frozenset[str]]:
        """Whether the file is another one than at the last look, and the ids of what was taken since."""
        now = file_stamp(self.path)
        if now == self._stamp:
            return False, frozenset()
        try:
            unread = frozenset(_entry_id(entry) for entry in read_entries(self.path) if not entry.read)
        except StorageError:
            return False, frozenset()
        taken, self.unread, self._stamp = self.unread - unread, unread, now
        return True, taken


def _entry_id(entry: InboxEntry) -> str:
    """An entry's id; strangers' have none in the older format, and are known by what they say."""
    said = f"{entry.sender}\0{entry.timestamp}\0{entry.text}"
    return entry.msg_id or hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()


REST_AFTER_S = 2.0
"""So long after its last sign an idle one counts as at rest: longer than it takes to poll, twice."""

UNCERTAIN_S = 6.0
"""So long one counts as at work that took mail, or whose notice and roster entry say different things."""

STALE_ENTRY_S = 10.0
"""So long one counts as at work whose entry says so though it took no mail: a person wrote to it where it runs, or
another program put an old copy of the roster back."""

PROBE_S = 5.0
"""How often it is asked whether one at work still runs, where no event tells its end."""

LEAVE_S = 15.0
"""How long one that agreed to stop may take to end by itself."""

_STOPPABLE_STATES = frozenset({MemberState.IDLE, MemberState.AWAITING, MemberState.WORKING, MemberState.BLOCKED})


@dataclass(slots=True, kw_only=True, eq=False)
class ExternalMember(BackendTeammate):
    """One member that another program runs. `live` lasts until that has ended, from `begin` on.

    `first` is the id of its first prompt; `left` sees to what follows from its end, `hear` reads the lead's mail before
    that, where its last words may be; `tell` writes it a note.
    """

    inbox_signs: InboxSigns
    first_message_id: str
    report_end: Callable[[str, str], Awaitable[None]]
    read_lead_mail: Callable[[], Awaitable[object]]
    send_note: Callable[[str, str], None]
    unfollow: Callable[[], None] = lambda: None
    """Ends that its files are followed; harmless a second time."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    """It has read its first prompt, or said that it is active."""
    _active: bool | None = None
    _in_turn: bool = False
    _took_mail: bool = False
    _said_idle: bool = False
    _open_waits: int = 0
    _agreed_to_stop: asyncio.Event = field(default_factory=asyncio.Event)
    _activity: asyncio.Event = field(default_factory=asyncio.Event)
    _timer: asyncio.TimerHandle | None = None

    # ── see Mate ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_external(self) -> bool:
        """See Mate."""
        return True

    @property
    def mode(self) -> str:
        """See Mate: what it was given; what it is in is its program's business."""
        return self.reported_mode

    @property
    def wake_target(self) -> ExternalMember:
        """See Mate."""
        return self

    @property
    def owes_turn(self) -> bool:
        """See Mate."""
        return False

    @property
    def cap_reason(self) -> str:
        """See Mate."""
        return ""

    def deliver_late_answer(self, text: str) -> None:
        """See Mate."""
        self.send_note(text, "an answer came late")

    def notify(self, text: str, key: str = "") -> None:
        """See Mate."""
        self.send_note(text, "a note")

    def note_raised_budget(self) -> None:
        """See Mate: what it uses is not counted here."""

    def interrupt(self) -> bool:
        """See Mate."""
        return False

    async def terminate(self, grace_s: float) -> str:
        """See Mate. Its place is closed, with all that runs there."""
        self._stop_timer()
        try:
            return await self._close_backend()
        finally:
            self.unfollow()

    # ── the door ──────────────────────────────────────────────────────────────────────────────────────────────

    def wake(self) -> None:
        """See Doorway. It polls by itself; here only its inbox is looked at."""
        self.check_inbox()

    def is_held(self, sender: str, /) -> bool:
        """See Doorway: nothing keeps mail from it."""
        return False

    @property
    def wake_pending(self) -> bool:
        """See Doorway."""
        return bool(self.inbox_signs.unread)

    # ── what its files say (see Followed) ─────────────────────────────────────────────────────────────────────

    def check_inbox(self) -> None:
        """Look into its inbox: mail that it has not taken, or took just now, keeps it from resting."""
        changed, taken = self.inbox_signs.read_changes()
        if not changed or self.state in ENDED_STATES:
            return
        if self.first_message_id not in self.inbox_signs.unread:
            self.started.set()
        if self.stop_request_id and self.stop_request_id in taken and self.state in _STOPPABLE_STATES:
            self.transition(LifecycleEvent.STOP_REQUESTED)
        self._note_activity()
        self._took_mail = self._took_mail or bool(taken)
        if taken and self._active is None:
            self._set_working()  # it never said yet whether it is in a turn: whoever takes mail is
        elif not self._in_turn:
            self._rest_after(UNCERTAIN_S)

    def note_active(self, active: bool, /) -> None:
        """See Followed."""
        self.check_inbox()
        self._active = active
        self.started.set()
        if not active:
            self._set_resting()
            return
        self._set_working()
        if not self._took_mail and self._said_idle:
            self._rest_after(STALE_ENTRY_S)

    def note_idle(self, notice: IdleNotification, /) -> None:
        """See Followed. While its entry says otherwise that is held against it for a while: one of both is old."""
        self.check_inbox()
        self.last_active_ms = now_ms()
        if self._active:
            self._rest_after(UNCERTAIN_S)
        else:
            self._set_resting()

    def note_waiting(self, what: str, /) -> None:
        """See Followed."""
        self._open_waits += 1
        self._set_working()
        if self.state is MemberState.WORKING:
            self.transition(LifecycleEvent.BLOCK, what)

    def note_answered(self) -> None:
        """See Followed."""
        self._open_waits = max(0, self._open_waits - 1)
        if not self._open_waits and self.state is MemberState.BLOCKED:
            self.transition(LifecycleEvent.ANSWERED)

    def note_mode(self, mode: str, /) -> None:
        """See Followed."""
        self.reported_mode = mode
        self.emit(ModeChanged(member=self.name, mode=mode))

    def note_plan(self, plan: PendingPlan, /) -> None:
        """See Followed."""
        self.pending_plan = plan
        self._update_state()
        self.team_changed.set()

    def note_agreement(self) -> None:
        """See Followed."""
        if not self.end_cause:
            self.end_cause = "shut down on request"
            self._agreed_to_stop.set()

    def note_objection(self) -> None:
        """See Followed."""
        self.stop_request_id = ""
        if self.state is MemberState.STOPPING:
            self.transition(LifecycleEvent.OBJECTED)
            self._set_working()

    # ── its life ──────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, active: bool | None = None) -> None:
        """It answered, and lives from now on. `active` is what its entry says, where it went on without its lead."""
        self._active = active if self._active is None else self._active
        self.transition(LifecycleEvent.READY)
        if self._active is None and not self._said_idle:
            self._in_turn = True  # it took its first prompt, and has not said that it is done
        self._note_activity()
        if self._in_turn or self._active:
            self._set_working()
        else:
            self._rest_after(REST_AFTER_S)

    async def run(self) -> None:
        """Until its program ends, or has agreed to; then whatever follows from that is seen to."""
        ended, going = asyncio.create_task(self._wait_until_ended()), asyncio.create_task(self._agreed_to_stop.wait())
        try:
            await asyncio.wait({ended, going}, return_when=asyncio.FIRST_COMPLETED)
            if self.state in ENDED_STATES:
                return  # whoever ended it sees it out
            if not going.done():
                await self._read_last_mail()
            await asyncio.wait({ended}, timeout=LEAVE_S)
        finally:
            ended.cancel()
            going.cancel()
        if self.state in ENDED_STATES:
            return
        words = "" if self.end_cause else await self._last_output()
        cause = self.end_cause or f"its program ended without a word{words}"
        failed, self.end_cause = not self.end_cause, cause
        await self.terminate(0)
        self.transition(LifecycleEvent.FAILED if failed else LifecycleEvent.LEFT, cause)
        await self.report_end(self.name, f"failed: {cause}" if failed else cause)
        self.team_changed.set()

    async def _last_output(self) -> str:
        """The last line that the program wrote, where that is no screen: there it is the program's own status line."""
        on_screen = self.location is None or self.location.kind != DETACHED
        return "" if on_screen else mask_tokens(await self._last_line())

    async def _read_last_mail(self) -> None:
        """It is gone; its last mail may say that it agreed."""
        try:
            await self.read_lead_mail()
        except TeamwrightError:
            return

    async def _wait_until_ended(self) -> None:
        """Until its program has ended: an event where its process is known, else a slow probe while it is at work."""
        facts = self.location.facts if self.location is not None else dict[str, str]()
        pid, start = facts.get("pid", ""), facts.get("start", "")
        life = ProcessLife.open(int(pid)) if pid.isdigit() and start else None
        if life is not None:
            gone = asyncio.Event()
            stop = life.on_end(gone.set)
            try:
                if process_start(life.pid) == start:
                    await gone.wait()
            finally:
                stop()
                life.close()
        while await self._is_running():
            await asyncio.sleep(PROBE_S)
            self._activity.clear()
            if self.is_resting:
                await self._activity.wait()
            self.check_inbox()

    async def _is_running(self) -> bool:
        """Whether it still runs; when its place does not answer nobody knows, and it counts as running."""
        try:
            return self.location is None or await self.backend.is_alive(self.location)
        except TeamwrightError:
            return True

    # ── at work or at rest ────────────────────────────────────────────────────────────────────────────────────

    def _set_working(self) -> None:
        self._stop_timer()
        self._in_turn = True
        self._note_activity()
        self._update_state()

    def _count_unseen_turn(self) -> None:
        """Its plan is answered, and it rests: whatever turn it made of the answer was over before anybody looked."""
        if self.state is MemberState.AWAITING and not self.pending_plan.is_open:
            self._set_working()

    def _set_resting(self) -> None:
        self._count_unseen_turn()
        self._in_turn, self._took_mail, self._said_idle = False, False, True
        self._update_state()
        self._rest_after(REST_AFTER_S)

    def _rest_after(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._rest_if_quiet)

    def _rest_if_quiet(self) -> None:
        """It gave no sign for long enough: it rests, if it took all of its mail."""
        self._timer = None
        self.check_inbox()
        if self._timer is not None or self.state in ENDED_STATES or self._open_waits:
            return
        if not self.inbox_signs.unread:
            self._count_unseen_turn()
        self._in_turn, self._active = False, False if self._active else self._active
        self._update_state()
        self.is_resting = not self.inbox_signs.unread and self.state is not MemberState.STOPPING
        self.team_changed.set()

    def _update_state(self) -> None:
        """Move along the lifecycle, where what is known of it says another state."""
        busy, self.last_active_ms = self._in_turn, now_ms()
        if busy and self.state in {MemberState.IDLE, MemberState.AWAITING}:
            self.turns += 1
            self.transition(LifecycleEvent.WOKEN)
        elif not busy and self.state in {MemberState.WORKING, MemberState.BLOCKED}:
            if self.state is MemberState.BLOCKED:
                self._open_waits = 0  # a person answered it where it runs, or cut its turn short
                self.transition(LifecycleEvent.ANSWERED)
            self.transition(
                *(
                    (LifecycleEvent.AWAIT, self.pending_plan.description)
                    if self.pending_plan.is_open
                    else (LifecycleEvent.REST, "")
                )
            )
        elif not busy and self.state is MemberState.IDLE and self.pending_plan.is_open:
            self.transition(LifecycleEvent.AWAIT, self.pending_plan.description)
        self.team_changed.set()

    def _note_activity(self) -> None:
        self.is_resting = False
        self._activity.set()
        self.team_changed.set()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
