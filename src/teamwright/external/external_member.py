"""A member that another program runs, started by us: its files and the probe of its backend give its state.

Only files drive it: it polls, and cannot be woken or interrupted. It is working when its roster entry says so; at rest
when it reported idle, has no mail, and gave no sign for longer than its poll interval. Its end is decided here. Depends
on its inbox, its backend and the lifecycle.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from teamwright.backends.detached import DETACHED
from teamwright.mail.mailbox import FollowedMailbox
from teamwright.processes.pid_watch import WatchedProcess
from teamwright.processes.process_tree import process_start
from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.events import FileMark, ModeChanged
from teamwright.protocol.ids import now_ms
from teamwright.protocol.mail import IdleNotification, InboxEntry
from teamwright.protocol.members import MemberState
from teamwright.protocol.runtime_tags import TaskEnd
from teamwright.team_records.life_cycle import ENDED_STATES, LifecycleEvent
from teamwright.teams.backend_teammate import BackendTeammate
from teamwright.teams.plan_requests import PendingPlan
from teamwright.teams.shutdown_answers import SHUT_DOWN


class InboxSigns(Struct):
    """The inbox of one program. `unread` are the ids of entries that it has not read yet."""

    mailbox: FollowedMailbox
    unread: frozenset[str] = frozenset()
    _mark: FileMark | None = field(default=None)

    def read_changes(self) -> tuple[bool, frozenset[str]]:
        """Return whether the file changed since the last check, and the ids of entries read since then."""
        now = self.mailbox.mark()
        if now is not None and now == self._mark:
            return False, frozenset()
        try:
            unread = frozenset(_entry_id(entry) for entry in self.mailbox.entries() if not entry.read)
        except StorageError:
            return False, frozenset()
        read_ids = self.unread - unread
        self.unread = unread
        self._mark = now
        return True, read_ids


def _entry_id(entry: InboxEntry) -> str:
    """Return an entry's id; entries of other programs have none in the older format, and are
    identified by their text.
    """
    content = f"{entry.sender}\0{entry.timestamp}\0{entry.text}"
    return entry.msg_id or hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()


REST_AFTER_S = 2.0
"""Seconds after its last sign until an idle member counts as at rest: more than two poll intervals."""

UNCERTAIN_S = 6.0
"""Seconds that a member counts as working after it read mail, or while its notice and its roster entry disagree."""

STALE_ENTRY_S = 10.0
"""Seconds that an entry counts as working though the member read no mail: a person wrote to it in its terminal, or
another program restored an old copy of the roster.
"""

PROBE_S = 5.0
"""Seconds between checks whether a working member still runs, when no event reports its end."""

LEAVE_S = 15.0
"""Seconds that a member may take to end after it agreed to stop."""

_STOPPABLE_STATES = frozenset({MemberState.IDLE, MemberState.AWAITING, MemberState.WORKING, MemberState.BLOCKED})


class ExternalMember(BackendTeammate, kw_only=True, eq=False):
    """One member that another program runs. From `start` on, `run_task` lasts until the program has ended.

    `first_message_id` is the id of its first prompt; `report_end` handles the effects of its end, after
    `read_lead_mail` has read the lead's mail, which may contain its last message; `send_note` writes it a note.
    """

    inbox_signs: InboxSigns
    first_message_id: str
    report_end: Callable[[str, str], Awaitable[None]]
    read_lead_mail: Callable[[], Awaitable[object]]
    send_note: Callable[[str, str], None]
    unfollow: Callable[[], None]
    """Stops following its files; harmless a second time."""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it has read its first prompt, or reported that it is active."""
    _active: bool | None = None
    _in_turn: bool = False
    _took_mail: bool = False
    _said_idle: bool = False
    _open_waits: int = 0
    _agreed_to_stop: asyncio.Event = field(default_factory=asyncio.Event)
    _activity: asyncio.Event = field(default_factory=asyncio.Event)
    _timer: asyncio.TimerHandle | None = None

    # ── see `Teammate` ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_external(self) -> bool:
        return True

    @property
    def mode(self) -> str:
        """See `Teammate`: its start mode, because the program's present mode is unknown."""
        return self.reported_mode

    @property
    def wake_target(self) -> ExternalMember:
        return self

    @property
    def owes_turn(self) -> bool:
        return False

    @property
    def cap_reason(self) -> str:
        return ""

    def deliver_late_answer(self, text: str) -> None:
        self.send_note(text, "an answer came late")

    def notify(self, notice: str | TaskEnd, key: str = "") -> None:
        """See `Teammate`. Of an end it reads the sentence: the jobs of another program's member are its own."""
        self.send_note(notice if isinstance(notice, str) else notice.summary, "a note")

    def note_raised_budget(self) -> None:
        """See `Teammate`: its usage is not counted here."""

    def interrupt(self) -> bool:
        return False

    async def terminate(self, grace_s: float) -> str:
        """See `Teammate`. Closes its location, with all processes in it."""
        self._stop_timer()
        try:
            return await self._close_backend()
        finally:
            self.unfollow()

    # ── wake-up ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def wake(self) -> None:
        """See `Wakeable`. The program polls; this call only checks its inbox."""
        self.check_inbox()

    def is_held(self, sender: str, /) -> bool:
        """See `Wakeable`: mail to it is never held."""
        return False

    @property
    def wake_pending(self) -> bool:
        return bool(self.inbox_signs.unread)

    # ── signs in its files (see `ExternalMemberListener`) ─────────────────────────────────────────────────────────────

    def check_inbox(self) -> None:
        """Check its inbox: mail that it has not read, or read just now, prevents its rest."""
        changed, read_ids = self.inbox_signs.read_changes()
        if not changed or self.state in ENDED_STATES:
            return
        if self.first_message_id not in self.inbox_signs.unread:
            self.started.set()
        if self.stop_request_id and self.stop_request_id in read_ids and self.state in _STOPPABLE_STATES:
            self.transition(LifecycleEvent.STOP_REQUESTED)
        self._note_activity()
        self._took_mail = self._took_mail or bool(read_ids)
        if read_ids and self._active is None:
            self._set_working()  # it never reported whether it is in a turn: reading mail counts as working
        elif not self._in_turn:
            self._rest_after(UNCERTAIN_S)

    def note_active(self, active: bool, /) -> None:
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
        """See `ExternalMemberListener`. If its entry disagrees it counts as working for a while: one
        of the two is old.
        """
        self.check_inbox()
        self.last_active_ms = now_ms()
        if self._active:
            self._rest_after(UNCERTAIN_S)
        else:
            self._set_resting()

    def note_waiting(self, what: str, /) -> None:
        self._open_waits += 1
        self._set_working()
        if self.state is MemberState.WORKING:
            self.transition(LifecycleEvent.BLOCK, what)

    def note_answered(self) -> None:
        self._open_waits = max(0, self._open_waits - 1)
        if not self._open_waits and self.state is MemberState.BLOCKED:
            self.transition(LifecycleEvent.ANSWERED)

    def note_mode(self, mode: str, /) -> None:
        self.reported_mode = mode
        self.emit(ModeChanged(member=self.name, mode=mode))

    def note_plan(self, plan: PendingPlan, /) -> None:
        self.pending_plan = plan
        self._update_state()
        self.team_changed.set()

    def note_agreement(self) -> None:
        if not self.end_cause:
            self.end_cause = SHUT_DOWN
            self._agreed_to_stop.set()

    def note_objection(self) -> None:
        self.stop_request_id = ""
        if self.state is MemberState.STOPPING:
            self.transition(LifecycleEvent.OBJECTED)
            self._set_working()

    # ── lifecycle ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, active: bool | None = None) -> None:
        """Start following the program, which has answered. `active` is the value of its entry when it continued without
        its lead.
        """
        self._active = active if self._active is None else self._active
        self.transition(LifecycleEvent.READY)
        if self._active is None and not self._said_idle:
            self._in_turn = True  # it read its first prompt, and has not reported its end
        self._note_activity()
        if self._in_turn or self._active:
            self._set_working()
        else:
            self._rest_after(REST_AFTER_S)

    async def run(self) -> None:
        """Wait until its program ends, or has agreed to; then handle the effects of its end."""
        ended = asyncio.create_task(self._wait_until_ended())
        going = asyncio.create_task(self._agreed_to_stop.wait())
        try:
            await asyncio.wait({ended, going}, return_when=asyncio.FIRST_COMPLETED)
            if self.state in ENDED_STATES:
                return  # the caller that ended it handles that
            if not going.done():
                await self._read_last_mail()
            await asyncio.wait({ended}, timeout=LEAVE_S)
        finally:
            ended.cancel()
            going.cancel()
        if self.state in ENDED_STATES:
            return
        # The last line of a screen is the program's status line, not its output.
        on_screen = self.location is None or self.location.kind != DETACHED
        words = "" if self.end_cause or on_screen else await self._last_line()
        cause = self.end_cause or f"its program ended without a message{words}"
        failed = not self.end_cause
        self.end_cause = cause
        await self.terminate(0)
        self.transition(LifecycleEvent.FAILED if failed else LifecycleEvent.LEFT, cause)
        await self.report_end(self.name, f"failed: {cause}" if failed else cause)
        self.team_changed.set()

    async def _read_last_mail(self) -> None:
        """Read its last mail, which may contain its agreement to stop."""
        try:
            await self.read_lead_mail()
        except TeamwrightError:
            return

    async def _wait_until_ended(self) -> None:
        """Wait until its program has ended: an event if its process is known, else a slow probe while it is working."""
        facts = self.location.facts if self.location is not None else dict[str, str]()
        pid = facts.get("pid", "")
        start = facts.get("start", "")
        process = WatchedProcess.open(int(pid)) if pid.isdigit() and start else None
        if process is not None:
            has_ended = asyncio.Event()
            stop = process.on_end(has_ended.set)
            try:
                if process_start(process.pid) == start:
                    await has_ended.wait()
            finally:
                stop()
                process.close()
        while await self._is_running():
            await asyncio.sleep(PROBE_S)
            self._activity.clear()
            if self.is_resting:
                await self._activity.wait()
            self.check_inbox()

    async def _is_running(self) -> bool:
        """Return True while it runs; also when its backend does not answer, since its state is then unknown."""
        try:
            return self.location is None or await self.backend.is_alive(self.location)
        except TeamwrightError:
            return True

    # ── working or at rest ────────────────────────────────────────────────────────────────────────────────────────────

    def _set_working(self) -> None:
        self._stop_timer()
        self._in_turn = True
        self._note_activity()
        self._update_state()

    def _count_unseen_turn(self) -> None:
        """Count a turn after an answered plan that was too short to be seen: the member rests."""
        if self.state is MemberState.AWAITING and not self.pending_plan.is_open:
            self._set_working()

    def _set_resting(self) -> None:
        self._count_unseen_turn()
        self._in_turn = False
        self._took_mail = False
        self._said_idle = True
        self._update_state()
        self._rest_after(REST_AFTER_S)

    def _rest_after(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._rest_if_quiet)

    def _rest_if_quiet(self) -> None:
        """Let it rest if it gave no sign for long enough and has read all of its mail."""
        self._timer = None
        self.check_inbox()
        if self._timer is not None or self.state in ENDED_STATES or self._open_waits:
            return
        if not self.inbox_signs.unread:
            self._count_unseen_turn()
        self._in_turn = False
        self._active = False if self._active else self._active
        self._update_state()
        self.is_resting = not self.inbox_signs.unread and self.state is not MemberState.STOPPING
        self.team_changed.set()

    def _update_state(self) -> None:
        """Take a lifecycle step when the known signs indicate another state."""
        busy = self._in_turn
        self.last_active_ms = now_ms()
        if busy and self.state in {MemberState.IDLE, MemberState.AWAITING}:
            self.turns += 1
            self.transition(LifecycleEvent.WOKEN)
        elif not busy and self.state in {MemberState.WORKING, MemberState.BLOCKED}:
            if self.state is MemberState.BLOCKED:
                self._open_waits = 0  # a person answered it in its terminal, or interrupted its turn
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
