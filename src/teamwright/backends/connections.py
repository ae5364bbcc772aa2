"""The lead's end of the IPC connections: member processes connect with a token, and their notes and calls arrive here.

Their logged events become events of the session, each line once: the session's log records the origin. Depends on
member processes and the team; calls that do not concern a team go to `MemberCallHandler`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from teamwright.backends.process_teammate import ProcessEnd, ProcessTeammate
from teamwright.processes.ipc import IpcBody, IpcConnection, IpcServer
from teamwright.protocol.errors import TeamRefused, error_from_json
from teamwright.protocol.event_json import from_json, live_from_json, to_json
from teamwright.protocol.events import (
    MemberChanged,
    MessageSent,
    ModeChanged,
    ModelCallEnded,
    ModelChanged,
    RunEnded,
    SessionOpened,
    SubagentChanged,
    TaskChanged,
    TeamEvent,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import ShutdownRejected, wire_type
from teamwright.protocol.members import RosterMember
from teamwright.storage.event_log import log_path, read_events
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_state import Incarnation, process_directory
from teamwright.teams.backend import Backend, Launch, Location
from teamwright.teams.outgoing_mail import count_message, notify_lead
from teamwright.teams.team import SessionTeam


class ProcessHost(Protocol):
    """The port with the backends of members and the launch of their processes."""

    async def choose_backend(self, spec: SpawnSpec) -> tuple[str, Backend] | None:
        """Return the name and backend of a new member; None when it runs in this process.

        Raises CannotStart for an unavailable one.
        """
        ...

    @property
    def choice_reason(self) -> str:
        """The reason for the last choice of `auto`, a clause; empty when the backend was named."""
        ...

    async def backend_for(self, location: Location) -> Backend | None:
        """Return the backend of this location, to probe or close it; None when there is none any more."""
        ...

    def process_token(self, incarnation: Incarnation) -> str:
        """Return the token of the member's last process; empty when it is unknown."""
        ...

    def discard(self, directory: Path) -> None:
        """Delete the start file in this process directory if the process did not read it. Never raises."""

    def last_event_number(self, name: str, incarnation: Incarnation) -> int:
        """Return the number of the newest line of the member's own log that the session's log contains."""
        ...

    def build_launch(self, member: RosterMember, incarnation: Incarnation, token: str, *, resumed: bool) -> Launch:
        """Return the launch of the member's process. Raises CannotStart, StorageError."""
        ...


class MemberCallHandler(Protocol):
    """The port for requests of member processes that do not concern the team."""

    def welcome_facts(self, name: str) -> IpcBody:
        """Return the facts that this member's process receives when it connects."""
        ...

    def receive_note(self, name: str, what: str, arguments: IpcBody) -> None:
        """Receive a note from this member's process."""

    def process_ended(self, name: str, directory: Path) -> None:
        """Handle the end of this member's process with that process directory, for any cause."""

    async def handle_call(self, name: str, what: str, arguments: IpcBody) -> IpcBody:
        """Perform a call of this member's process: the answer to a question, room for a model call."""
        ...


VERSION = 1
"""The version of the IPC protocol: both ends belong to one installation and refuse another version."""

_SESSION_EVENTS = (SessionOpened, RunEnded)
"""Events of a member's own log that do not concern the session."""

FORWARDED_EVENTS = (MemberChanged, TaskChanged, TurnEnded, ModeChanged, ModelChanged, SubagentChanged)
"""Events about other members that member processes receive."""

REMOTE_PAUSE_S = 0.1
"""Seconds for which notes to a member on another machine are collected, for each of these members.

Each of them receives the state of all others: the pause keeps the cost of a second the same.
"""


class MemberConnections:
    """The endpoint for member processes. `translate` converts their events into those of the session."""

    def __init__(
        self,
        team: SessionTeam,
        path: Path,
        help: MemberCallHandler,
        *,
        is_watched: Callable[[], bool] = lambda: False,
        translate: Callable[[str, TeamEvent], TeamEvent] = lambda _member, event: event,
    ) -> None:
        self.team = team
        self.path = path
        self.requests = help
        self.is_watched = is_watched
        """Returns True when a display here shows text of members while they produce it."""
        self.translate = translate
        self._expected: dict[str, ProcessTeammate] = {}
        self._switchboard: IpcServer | None = None
        self._opening = asyncio.Lock()
        self._wires: dict[ProcessTeammate, IpcConnection] = {}
        self._notify_tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen, unless that is done already. Raises StorageError."""
        async with self._opening:
            if self._switchboard is None:
                self._switchboard = await IpcServer.open(self.path, self._on_call)

    async def close(self) -> None:
        """Stop listening; connected processes stay reachable. Remove the socket of a killed lead too."""
        if self._switchboard is not None:
            board, self._switchboard = self._switchboard, None
            await board.close()
            return
        with suppress(OSError):
            self.path.unlink()

    def expect(self, process: ProcessTeammate) -> None:
        """Expect this process to connect with its token as this member."""
        self._expected[process.token] = process
        self.team.changed.set()

    def forget(self, process: ProcessTeammate) -> None:
        """Stop expecting the process: its token is no longer valid."""
        self._expected.pop(process.token, None)
        self._wires.pop(process, None)

    def forward(self, event: TeamEvent) -> None:
        """Forward the state of another member to every member process."""
        if not self._wires or not isinstance(event, FORWARDED_EVENTS):
            return
        payload = to_json(event)
        is_followed = _is_followed_by_remote_members(event)
        replaces = f"state of {event.member}" if isinstance(event, MemberChanged) else ""
        for process, wire in self._wires.items():
            if process.name != event.member and not (process.is_remote and is_followed):
                wire.add_note("elsewhere", replaces=replaces, event=payload)

    def broadcast(self, what: str, **arguments: object) -> None:
        """Send a note to every member process."""
        for wire in self._wires.values():
            wire.send_note(what, **arguments)

    def set_watched(self, is_watched: bool) -> None:
        """Record whether a display here shows text of members while they produce it, and notify their processes."""
        self.broadcast("watched", on=is_watched)

    def emit_live(self, body: IpcBody) -> None:
        """Emit a member's live text or activity."""
        if self.is_watched() and (event := live_from_json(body)) is not None:
            self.team.emit(event)

    async def _on_call(self, wire: IpcConnection) -> None:
        line = _Connection(self, wire)
        try:
            await wire.read_until_closed(line)
        finally:
            if (process := line.process) is not None and process.wire is wire:
                self._wires.pop(process, None)
                self._set_pauses()
                if process.end is None and process.start_error is None:
                    self.read_missed_events(process)
                process.disconnect()

    def read_missed_events(self, process: ProcessTeammate) -> None:
        """Read the logged events of a member whose process ended without notice and did not send them."""
        with suppress(OSError):
            for number, event in read_events(
                log_path(process_directory(process.transcript)), process.last_event_number
            ):
                self.receive_event(process, number, to_json(event), is_past=True)

    async def register(self, wire: IpcConnection, arguments: IpcBody) -> ProcessTeammate:
        """Return the member whose token the connection presents. Raises TeamRefused for an unknown token.

        While members are resumed one after another, the next connection waits for its turn.
        """
        token = str(arguments.get("token"))
        changed = self.team.changed
        while token not in self._expected and str(arguments.get("name")).lower() in self.team.resuming:
            changed.clear()
            await changed.wait()
        process = self._expected.get(token)
        if process is None or arguments.get("version") != VERSION:
            raise TeamRefused("team-refused", "no teammate here waits for this process", note="it ends")
        process.connect(wire, int(arguments.get("pid", 0)), arguments.get("stands") or {})
        self._wires[process] = wire
        self._set_pauses()
        return process

    def _set_pauses(self) -> None:
        remote = [wire for process, wire in self._wires.items() if process.is_remote]
        for wire in remote:
            wire.set_pause(REMOTE_PAUSE_S * len(remote))

    # ── notes ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def receive_event(
        self,
        process: ProcessTeammate,
        number: int,
        body: IpcBody,
        *,
        facts: IpcBody | None = None,
        is_past: bool = False,
    ) -> None:
        """Turn a line of the process's log into an event of the session, once. `is_past`: from an earlier process.

        `facts` are those of a call, which are in no log.
        """
        if number and number <= process.last_event_number:
            return
        process.last_event_number = max(number, process.last_event_number)
        event = from_json(body)
        if event is None or isinstance(event, _SESSION_EVENTS):
            return
        mine = event.member == process.name
        if isinstance(event, MemberChanged) and mine and (is_past or not process.note_state(event)):
            return
        if number:
            event = replace(event, origin=f"{process.name}#{process.incarnation}:{number}")
        if facts and isinstance(event, ToolCalled):
            event = replace(event, facts=facts)
        event = self.translate(process.name, event)
        self._update_process(process, event, mine)
        self.team.emit(event)
        self._notify_others(process, event)

    def _update_process(self, process: ProcessTeammate, event: TeamEvent, mine: bool) -> None:
        match event:
            case TaskChanged():
                self.team.external.note_reported_task(event.task)
            case ModelChanged() if mine:
                process.model = event.model
            case ModelCallEnded() if mine:
                process.usage += event.usage
            case TurnEnded() if mine:
                process.note_cap(event.detail if event.stop == "limit" else "")
            case _:
                pass

    def _notify_others(self, process: ProcessTeammate, event: TeamEvent) -> None:
        """Apply the effects of an event on the other members, as if it had happened here."""
        team = self.team
        match event:
            case TaskChanged():
                team.message_counts.clear()
                if event.change != "claimed":
                    team.wake_idle()
            case MessageSent(member=sender, to=to) if not event.wire:
                if count_message(team, sender, to):
                    task = asyncio.create_task(notify_lead(team, sender, to))
                    self._notify_tasks.add(task)
                    task.add_done_callback(self._notify_tasks.discard)
                team.wake(to)
            case MessageSent(to=to, wire=wire):
                if wire == wire_type(ShutdownRejected):
                    process.stop_request_id = ""  # it objected, and may be asked again
                team.wake(to)
            case _:
                pass
        team.changed.set()


def _is_followed_by_remote_members(event: TeamEvent) -> bool:
    """Return True for an event that a member on another machine need not receive.

    It reads the task list itself; a task concerns it only when another one gives or takes it.
    """
    if isinstance(event, TurnEnded):
        return event.stop != "failed"
    if not isinstance(event, TaskChanged):
        return False
    owner = event.task.owner or ""
    return event.change in {"created", "claimed", "completed"} and owner.lower() in {"", event.member.lower()}


class _Connection:
    """One connected process (an `IpcHandler`)."""

    def __init__(self, hub: MemberConnections, wire: IpcConnection) -> None:
        self._hub = hub
        self._wire = wire
        self.process: ProcessTeammate | None = None

    def handle_note(self, name: str, arguments: IpcBody, /) -> None:
        process = self.process
        exchange = self._hub
        if process is None:
            return
        match name:
            case "event":
                past = bool(arguments.get("past"))
                facts = arguments.get("facts")
                exchange.receive_event(process, int(arguments["n"]), arguments["event"], facts=facts, is_past=past)
            case "live":
                exchange.emit_live(arguments["event"])
            case "rests":
                process.note_rest(arguments)
            case "mode":
                process.reported_mode = str(arguments["mode"])
            case "bye" | "failed":
                if "error" in arguments:
                    process.start_error = error_from_json(arguments["error"])
                else:
                    process.end = ProcessEnd(
                        str(arguments["how"]), str(arguments["cause"]), str(arguments.get("agreed_to") or "")
                    )
            case "plan":
                process.note_plan(arguments)
                if arguments["request"] and exchange.team.ports.on_plan is not None:
                    request = exchange.team.requests.get(str(arguments["request"]))
                    if request is not None:
                        exchange.team.ports.on_plan(request)
            case "late" if arguments.get("owner") == LEAD:
                exchange.team.deliver_late_answer(LEAD, str(arguments["text"]))
            case _:
                exchange.requests.receive_note(process.name, name, arguments)

    async def handle_call(self, name: str, arguments: IpcBody, /) -> IpcBody:
        if name == "hello":
            self.process = await self._hub.register(self._wire, arguments)
            known = {"heard": self.process.last_event_number, "watched": self._hub.is_watched()}
            return {**known, **self._hub.requests.welcome_facts(self.process.name)}
        if self.process is None:
            raise TeamRefused("team-refused", "a process must identify itself first", note="nothing was done")
        return await self._hub.requests.handle_call(self.process.name, name, arguments)
