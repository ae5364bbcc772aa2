"""A teammate in a separate process of our program: messages over its IPC connection, wake-up, interruption and end.

The end of the connection shows the end of the process. The process moves itself along the lifecycle; its end is decided
here. Depends on the IPC connection and the backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from teamwright.permissions.verdict import Mode
from teamwright.processes.ipc import IpcBody, IpcConnection
from teamwright.processes.process_records import end_orphans
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.events import MemberChanged, Notice
from teamwright.protocol.ids import now_ms
from teamwright.protocol.members import MemberState
from teamwright.protocol.runtime_tags import TaskEnd
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.doorbell import remove_unused
from teamwright.team_records.life_cycle import ENDED_STATES, RATE_LIMITED, LifecycleEvent
from teamwright.team_records.team_state import process_directory
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.plan_requests import NO_PENDING_PLAN, PendingPlan
from teamwright.teams.shutdown_answers import SHUT_DOWN
from teamwright.teams.teammate import EXPLAINED_STATES

LEAD_END_S = 3.0
"""Seconds in which a lead ends that is ended together with a member's process."""

_END_EVENTS = {
    str(MemberState.SUSPENDED): LifecycleEvent.CRASHED,
    str(MemberState.FAILED): LifecycleEvent.FAILED,
    str(MemberState.CRASHED): LifecycleEvent.CRASHED,
}
"""The lifecycle event of a process's end while its lead continues, by the reported kind; any other kind is leaving."""

_UNFINISHED = {MemberState.SUSPENDED, MemberState.CRASHED}
"""The kinds of end that came from outside: a member that had agreed to its shutdown has ended by that."""

_END_PREFIXES = {LifecycleEvent.FAILED: "failed: ", LifecycleEvent.CRASHED: "crashed: "}


class ProcessEnd(Struct, frozen=True):
    """The end of a process. `kind` is left, failed, suspended, or crashed for an end without a last message."""

    kind: str
    cause: str
    agreed_to: str = ""


class ProcessTeammate(ProcessTeammateBase, kw_only=True, eq=False):
    """One member in a separate process. `run_task` lasts as long as the process.

    `report_end` handles the effects of its end; `held_senders` returns those whose mail may not wake it now.
    """

    token: str
    doorbell: Path
    report_end: Callable[[str, str, str | None], Awaitable[None]]
    held_senders: Callable[[str], list[str]]
    lead_mode: Callable[[], str]
    find_agreement: Callable[[], str | None]
    """Returns the shutdown request that it agreed to, as its file says; empty when it was approved for it."""
    is_remote: bool = False
    """True for a process on another machine, which reads the task list and its mailbox in the database."""
    pid: int = 0
    wire: IpcConnection | None = None
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it can receive messages, or never will."""
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    end: ProcessEnd | None = None
    start_error: TeamwrightError | None = None
    """The error that it reported at its start."""
    has_started: bool = False
    """True once its start is complete: only then are the effects of its end handled here."""
    last_event_number: int = 0
    """The number of the newest line of its log that arrived here."""
    _rate_limited: bool = False
    _cap_reason: str = ""
    _wake_number: int = field(default_factory=now_ms)
    """The number of the newest wake-up, above those of an earlier lead."""
    _rest_number: int = 0

    # ── see `Teammate` ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def mode(self) -> str:
        """See `Teammate`. Without its own mode it follows the lead's."""
        return self.lead_mode() if self.own_mode is Mode.BUBBLE else self.reported_mode

    @property
    def own_mode(self) -> Mode:
        return Mode(self.reported_mode or Mode.BUBBLE)

    @property
    def wake_target(self) -> ProcessTeammate:
        return self

    @property
    def owes_turn(self) -> bool:
        return self._rate_limited

    @property
    def cap_reason(self) -> str:
        return self._cap_reason

    def deliver_late_answer(self, text: str) -> None:
        self._send_note("late", text=text)

    def notify(self, notice: str | TaskEnd, key: str = "") -> None:
        self._send_note("notice", notice=to_builtins(notice), key=key)
        self.wake()

    def note_raised_budget(self) -> None:
        self._send_note("budget_raised")

    def interrupt(self) -> bool:
        if (
            self.wire is None
            or self.state in ENDED_STATES | {MemberState.IDLE, MemberState.AWAITING, MemberState.PENDING}
            or self.end_cause
        ):
            return False
        self._send_note("interrupt")
        return True

    async def perform(self, act: str, /, **arguments: Any) -> Mapping[str, Any]:
        if self.wire is None:
            raise self._unreachable_error()
        self._wake_number += 1  # it may have work after that, so it must look again before it rests
        try:
            return await self.wire.call(act, **arguments)
        except ConnectionError:
            raise self._unreachable_error() from None
        finally:
            self.wake()

    async def terminate(self, grace_s: float) -> str:
        """See `Teammate`. Asks first; after `grace_s` seconds closes its location with all processes in it.

        Commands that left its process group are ended by their records.
        """
        trouble = ""
        self._send_note("end", cause=self.end_cause, suspend=self.state is MemberState.SUSPENDED)
        try:
            async with time_limit(grace_s if self.wire is not None else 0):
                await self.disconnected.wait()
        except TimeoutError:
            trouble = f"{self.name} did not wind up within {grace_s:.0f} s" if self.wire is not None else ""
        trouble = await self._close_backend() or trouble
        await asyncio.to_thread(end_orphans, process_directory(self.transcript))
        remove_unused(self.doorbell)  # a killed process leaves its doorbell
        return trouble

    # ── wake-up ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def wake(self) -> None:
        """See `Wakeable`. Its process reports when it has looked."""
        self._wake_number += 1
        if self.wire is not None:
            senders = self.held_senders(self.name)
            self.wire.add_note("look", replaces="look", number=self._wake_number, held=senders)

    def is_held(self, sender: str, /) -> bool:
        return sender in self.held_senders(self.name)

    @property
    def wake_pending(self) -> bool:
        """See `Wakeable`: True until the process reports that it looked after the newest wake-up."""
        return self._rest_number < self._wake_number

    # ── lifecycle ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def connect(self, wire: IpcConnection, pid: int, status: Mapping[str, Any]) -> None:
        """Attach the connection of its process. `status` is the state that the process reports."""
        self.wire = wire
        self.pid = pid
        self.disconnected.clear()
        if status:
            self._take_status(status)
        self.connected.set()
        self.wake()

    def _take_status(self, arguments: Mapping[str, Any]) -> None:
        """Take over the state of a process that worked before this lead."""
        self.state = MemberState(arguments["state"])
        self.turns = int(arguments["turn"])
        self.model = str(arguments["model"])
        self.effort = str(arguments["effort"])
        self.reported_mode = str(arguments["mode"])
        request, whom = arguments["plan"]
        self.pending_plan = PendingPlan(str(request), str(whom)) if request else NO_PENDING_PLAN
        self._rate_limited = bool(arguments["limited"])
        self._cap_reason = str(arguments["capped"])
        detail = str(arguments["detail"])
        self.waiting_on = detail if self.state in EXPLAINED_STATES else ""
        self.ready.set()
        self._emit_state(RATE_LIMITED if self._rate_limited else detail)

    def disconnect(self) -> None:
        """Handle the end of the connection, which is the end of the process: it reconnects only after its lead was
        gone.
        """
        self.wire = None
        self.is_resting = False
        self.process_commands = ()
        self.disconnected.set()
        self.ready.set()
        self.team_changed.set()

    async def run(self) -> None:
        """Wait until the process ends, then handle the effects of its end."""
        await self.disconnected.wait()
        if not self.has_started:
            return  # the caller that starts it handles that
        bye = self.end
        if bye is None:
            bye = ProcessEnd(
                MemberState.CRASHED, f"its process {self.pid} ended without a message{await self._last_line()}"
            )
        if bye.kind in _UNFINISHED and (agreed := self.find_agreement()) is not None:
            bye = ProcessEnd("left", SHUT_DOWN, agreed)  # its message was lost, not its answer
        if bye.kind == MemberState.SUSPENDED:
            await self._wait_for_lead_end()
        if self.end_cause or self.state in ENDED_STATES:
            return  # the caller that ends it handles that
        self.end_cause = bye.cause
        event = _END_EVENTS.get(bye.kind, LifecycleEvent.LEFT)
        self.transition(event, bye.cause)
        # Before other members are notified: a lead that then ends leaves nothing behind.
        if trouble := await self.terminate(0):
            self.emit(Notice(member=self.name, text=trouble, level="warning"))
        cause = _END_PREFIXES.get(event, "") + bye.cause
        await self.report_end(self.name, cause, bye.agreed_to or None)
        self.team_changed.set()

    async def _wait_for_lead_end(self) -> None:
        """Wait briefly: the cause of the end (a closed window, a shutdown) may also end the lead, which keeps the
        member.
        """
        with suppress(TimeoutError):
            async with time_limit(LEAD_END_S):
                while not self.end_cause and self.state not in ENDED_STATES:
                    self.team_changed.clear()
                    await self.team_changed.wait()

    # ── notes of the process ──────────────────────────────────────────────────────────────────────────────────────────

    def note_rest(self, arguments: IpcBody) -> None:
        """Record that it has handled everything up to this wake-up, and has nothing to do."""
        if (number := int(arguments["number"])) > self._wake_number:
            return  # a wake-up of an earlier lead
        self._rest_number = max(self._rest_number, number)
        self.process_commands = tuple(map(str, arguments.get("commands", ())))
        self.is_resting = True
        self.team_changed.set()

    def note_state(self, event: MemberChanged) -> bool:
        """Apply a state that its own process reports; False for an end, which is reported here once it is true."""
        try:
            state = MemberState(event.state)
        except ValueError:
            return False
        if state in ENDED_STATES or self.state in ENDED_STATES:
            return False
        self.state = state
        self.turns = event.turn
        self.waiting_on = event.detail if state in EXPLAINED_STATES else ""
        if self.waits_for_answer:
            self.team_changed.set()
        self.is_resting = self.is_resting and state in {MemberState.IDLE, MemberState.AWAITING}
        self._rate_limited = event.detail == RATE_LIMITED
        self.last_active_ms = now_ms()
        if state is not MemberState.PENDING and not self.ready.is_set():
            self.ready.set()
            self.wake()  # wake-ups before it listened did not arrive
        return True

    def note_plan(self, arguments: IpcBody) -> None:
        """Record that it submitted a plan, or that its open plan was answered."""
        request = str(arguments["request"])
        self.pending_plan = PendingPlan(request, str(arguments["target"])) if request else NO_PENDING_PLAN

    def note_cap(self, why: str) -> None:
        """Record the cap at which its last turn ended; empty for none."""
        self._cap_reason = why

    def _send_note(self, what: str, **arguments: Any) -> None:
        if self.wire is not None:
            self.wire.send_note(what, **arguments)

    def _unreachable_error(self) -> TeamRefused:
        return TeamRefused(
            "team-refused",
            f"{self.name} runs in a separate process, which cannot be reached",
            do=["Write to it instead, or stop it and start another."],
            note="nothing was changed",
        )
