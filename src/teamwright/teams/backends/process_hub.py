"""The lead's end of the wires: members' processes call in, are known by a token, and what they tell is heard here.

What they log becomes events of the session, each line once: its origin stands in the session's own log. Knows members
in processes and the team; what they ask that is none of a team's business goes to `HubRequests`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from teamwright.processes.ipc import IpcBody, IpcConnection, IpcServer
from teamwright.protocol.error_json import error_from_json
from teamwright.protocol.errors import TeamRefused
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
from teamwright.protocol.mail import ShutdownRejected
from teamwright.protocol.roster import RosterMember
from teamwright.storage.event_log_reader import read_events
from teamwright.teams.backends.backend import Backend, Launch, Location
from teamwright.teams.backends.process_teammate import ProcessEnd, ProcessTeammate
from teamwright.teams.incarnation import Incarnation, process_directory
from teamwright.teams.mailbox.ping_pong_guard import count_message, notify_lead
from teamwright.teams.spawn_spec import SpawnSpec
from teamwright.teams.team import SessionTeam


class ProcessHost(Protocol):
    """Where members live, and what their processes are started with."""

    async def choose_backend(self, spec: SpawnSpec) -> tuple[str, Backend] | None:
        """The backend of a new member and its place; None: it lives in this process.

        Raises CannotStart for one that is not to be had.
        """
        ...

    @property
    def choice_reason(self) -> str:
        """Why `auto` made the last choice, a clause; empty where it was asked for by name."""
        ...

    async def backend_for(self, location: Location) -> Backend | None:
        """The place of that kind, to probe or to close it; None when there is none any more."""
        ...

    def process_token(self, incarnation: Incarnation) -> str:
        """What the member's last process was told to call with; empty when that cannot be known."""
        ...

    def discard(self, directory: Path) -> None:
        """Delete what a process of this room was to read at its start and did not read. Never raises."""
        ...

    def last_event_number(self, name: str, incarnation: Incarnation) -> int:
        """The number of the newest line of the member's own log that stands in the session's."""
        ...

    def build_launch(self, member: RosterMember, incarnation: Incarnation, token: str, *, resumed: bool) -> Launch:
        """Everything that the member's process is started with. Raises CannotStart, StorageError."""
        ...


class HubRequests(Protocol):
    """What members' processes ask of the lead's, beyond what a team knows of."""

    def welcome_facts(self, name: str) -> IpcBody:
        """What the process of this member is told when it has called."""
        ...

    def receive_note(self, name: str, what: str, arguments: IpcBody) -> None:
        """The process of this member told something."""
        ...

    def process_ended(self, name: str, directory: Path) -> None:
        """The process of this member, with that room, has ended, however that came."""
        ...

    async def handle_call(self, name: str, what: str, arguments: IpcBody) -> IpcBody:
        """The process of this member has something done: a question answered, room for a call."""
        ...


VERSION = 1
"""Of what is said over a wire: both ends are of one installation, and refuse another."""

_SESSION_EVENTS = (SessionOpened, RunEnded)
"""Events of a member's own log that say nothing about the session."""

_FORWARDED_EVENTS = (MemberChanged, TaskChanged, TurnEnded, ModeChanged, ModelChanged, SubagentChanged)
"""What members' processes are told of the others: how they stand."""


class ProcessHub:
    """Where members' processes call in. `translate` makes of their events those of the session."""

    def __init__(self, team: SessionTeam, path: Path, help: HubRequests) -> None:
        self.team = team
        self.path = path
        self.requests = help
        self.is_watched: Callable[[], bool] = lambda: False
        """Whether anybody here would be shown what members say while they say it."""
        self.translate: Callable[[str, TeamEvent], TeamEvent] = lambda _member, event: event
        self._expected: dict[str, ProcessTeammate] = {}
        self._switchboard: IpcServer | None = None
        self._opening = asyncio.Lock()
        self._wires: dict[ProcessTeammate, IpcConnection] = {}
        self._notify_tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen, if nobody does yet. Raises StorageError."""
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
        """This process will call with its token, and be this member."""
        self._expected[process.token] = process
        self.team.changed.set()

    def forget(self, process: ProcessTeammate) -> None:
        """It is over: whoever calls with its token is nobody."""
        self._expected.pop(process.token, None)
        self._wires.pop(process, None)

    def forward(self, event: TeamEvent) -> None:
        """Tell every member's process how another one stands now."""
        if not self._wires or not isinstance(event, _FORWARDED_EVENTS):
            return
        told = to_json(event)
        for process, wire in self._wires.items():
            if process.name != event.member:
                wire.send_note("elsewhere", event=told)

    def broadcast(self, what: str, **arguments: object) -> None:
        """Tell every member's process."""
        for wire in self._wires.values():
            wire.send_note(what, **arguments)

    def set_watched(self, is_watched: bool) -> None:
        """Somebody here wants to be shown what members say while they say it; or nobody does any more."""
        self.broadcast("watched", on=is_watched)

    def emit_live(self, body: IpcBody) -> None:
        """What a member says, or begins to do, while it does."""
        if self.is_watched() and (event := live_from_json(body)) is not None:
            self.team.emit(event)

    async def _on_call(self, wire: IpcConnection) -> None:
        line = _Connection(self, wire)
        try:
            await wire.read_until_closed(line)
        finally:
            if (process := line.process) is not None and process.wire is wire:
                self._wires.pop(process, None)
                if process.end is None and process.start_error is None:
                    self._read_missed_events(process)
                process.disconnect()

    def _read_missed_events(self, process: ProcessTeammate) -> None:
        """What a process that ended without a word had logged, and not got across."""
        with suppress(OSError):
            for number, event in read_events(
                process_directory(process.transcript) / "events.jsonl", process.last_event_number
            ):
                self.receive_event(process, number, to_json(event), is_past=True)

    async def register(self, wire: IpcConnection, arguments: IpcBody) -> ProcessTeammate:
        """Whoever calls with a token that is expected is that member. Raises TeamRefused for anybody else.

        While members come back one after another, the next one in the row waits until it is its turn.
        """
        token, changed = str(arguments.get("token")), self.team.changed
        while token not in self._expected and str(arguments.get("name")).lower() in self.team.resuming:
            changed.clear()
            await changed.wait()
        process = self._expected.get(token)
        if process is None or arguments.get("version") != VERSION:
            raise TeamRefused("team-refused", "no teammate here waits for this process", note="it ends")
        process.connect(wire, int(arguments.get("pid", 0)), arguments.get("stands") or {})
        self._wires[process] = wire
        return process

    # ── what they tell ────────────────────────────────────────────────────────────────────────────────────────

    def receive_event(
        self,
        process: ProcessTeammate,
        number: int,
        body: IpcBody,
        *,
        facts: IpcBody | None = None,
        is_past: bool = False,
    ) -> None:
        """A line of the process's log: an event of the session, once. `past`: of a process before this one.

        `facts` are those of a call, which no log has.
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
        """What follows for the others, as if it had happened here."""
        team = self.team
        match event:
            case TaskChanged():
                team.message_counts.clear()
                if event.change != "claimed":
                    team.wake_idle()
            case MessageSent(member=sender, to=to) if not event.wire:
                if count_message(team, sender, to):
                    self._start_notify(notify_lead(team, sender, to))
                team.wake(to)
            case MessageSent(to=to, wire=wire):
                if wire == ShutdownRejected.TYPE:
                    process.stop_request_id = ""  # it objected, and may be asked again
                team.wake(to)
            case _:
                pass
        team.changed.set()

    def _start_notify(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(telling)
        self._notify_tasks.add(task)
        task.add_done_callback(self._notify_tasks.discard)


class _Connection:
    """One process that has called (an Ear)."""

    def __init__(self, hub: ProcessHub, wire: IpcConnection) -> None:
        self._hub = hub
        self._wire = wire
        self.process: ProcessTeammate | None = None

    def handle_note(self, name: str, arguments: IpcBody, /) -> None:
        """See Ear."""
        process, exchange = self.process, self._hub
        if process is None:
            return
        match name:
            case "event":
                past, facts = bool(arguments.get("past")), arguments.get("facts")
                exchange.receive_event(process, int(arguments["n"]), arguments["event"], facts=facts, is_past=past)
            case "live":
                exchange.emit_live(arguments["event"])
            case "rests" | "mode":
                _update_mode_or_rest(process, name, arguments)
            case "bye" | "failed":
                _record_end(process, arguments)
            case "plan":
                process.note_plan(arguments)
                if arguments["request"] and exchange.team.on_plan is not None:
                    request = exchange.team.requests.get(str(arguments["request"]))
                    if request is not None:
                        exchange.team.on_plan(request)
            case "late" if arguments.get("owner") == LEAD:
                exchange.team.deliver_late_answer(LEAD, str(arguments["text"]))
            case _:
                exchange.requests.receive_note(process.name, name, arguments)

    async def handle_call(self, name: str, arguments: IpcBody, /) -> IpcBody:
        """See Ear."""
        if name == "hello":
            self.process = await self._hub.register(self._wire, arguments)
            known = {"heard": self.process.last_event_number, "watched": self._hub.is_watched()}
            return {**known, **self._hub.requests.welcome_facts(self.process.name)}
        if self.process is None:
            raise TeamRefused("team-refused", "a process must identify itself first", note="nothing was done")
        return await self._hub.requests.handle_call(self.process.name, name, arguments)


def _update_mode_or_rest(process: ProcessTeammate, what: str, arguments: IpcBody) -> None:
    """Return its present state: idle, or with its own permission mode."""
    if what == "mode":
        process.reported_mode = str(arguments["mode"])
    else:
        process.note_rest(arguments)


def _record_end(process: ProcessTeammate, arguments: IpcBody) -> None:
    """Its last words: how it ended, or why it could not begin."""
    if "error" in arguments:
        process.start_error = error_from_json(arguments["error"])
    else:
        process.end = ProcessEnd(str(arguments["how"]), str(arguments["cause"]), str(arguments.get("agreed_to") or ""))
