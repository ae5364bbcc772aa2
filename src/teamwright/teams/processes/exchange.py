"""The lead's end of the wires: members' processes call in, are known by a token, and what they tell is heard here.

What they log becomes events of the session, each line once: its origin stands in the session's own log. Knows members
in processes and the team; what they ask that is none of a team's business goes to `Help`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from teamwright.protocol.error_json import error_from_json
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.event_json import from_json, live_from_json, to_json
from teamwright.protocol.events import (
    AgentChanged,
    MemberChanged,
    MessageSent,
    ModeChanged,
    ModelChanged,
    RoundEnded,
    RunEnded,
    SessionOpened,
    TaskChanged,
    TeamEvent,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import ShutdownRejected
from teamwright.storage.log_reader import read_events
from teamwright.storage.sockets.wire import Said, Switchboard, Wire
from teamwright.teams.mailing.ping_pong_guard import notify_lead, talked
from teamwright.teams.member.room import room_of
from teamwright.teams.processes.ports import Help
from teamwright.teams.processes.process import Bye, Process
from teamwright.teams.team import Team

VERSION = 1
"""Of what is said over a wire: both ends are of one installation, and refuse another."""

_OWN = (SessionOpened, RunEnded)
"""Events of a member's own log that say nothing about the session."""

_TOLD = (MemberChanged, TaskChanged, TurnEnded, ModeChanged, ModelChanged, AgentChanged)
"""What members' processes are told of the others: how they stand."""


class Exchange:
    """Where members' processes call in. `translate` makes of their events those of the session."""

    def __init__(self, team: Team, path: Path, help: Help) -> None:
        self.team = team
        self.path = path
        self.help = help
        self.attended: Callable[[], bool] = lambda: False
        """Whether anybody here would be shown what members say while they say it."""
        self.translate: Callable[[str, TeamEvent], TeamEvent] = lambda _member, event: event
        self._expected: dict[str, Process] = {}
        self._board: Switchboard | None = None
        self._opening = asyncio.Lock()
        self._wires: dict[Process, Wire] = {}
        self._telling: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen, if nobody does yet. Raises StorageError."""
        async with self._opening:
            if self._board is None:
                self._board = await Switchboard.open(self.path, self._on_call)

    async def close(self) -> None:
        """Stop listening; connected processes stay reachable. Remove the socket of a killed lead too."""
        if self._board is not None:
            board, self._board = self._board, None
            await board.close()
            return
        with suppress(OSError):
            self.path.unlink()

    def expect(self, process: Process) -> None:
        """This process will call with its token, and be this member."""
        self._expected[process.token] = process
        self.team.changed.set()

    def forget(self, process: Process) -> None:
        """It is over: whoever calls with its token is nobody."""
        self._expected.pop(process.token, None)
        self._wires.pop(process, None)

    def tell(self, event: TeamEvent) -> None:
        """Tell every member's process how another one stands now."""
        if not self._wires or not isinstance(event, _TOLD):
            return
        told = to_json(event)
        for process, wire in self._wires.items():
            if process.name != event.member:
                wire.note("elsewhere", event=told)

    def tell_all(self, what: str, **said: object) -> None:
        """Tell every member's process."""
        for wire in self._wires.values():
            wire.note(what, **said)

    def watched(self, on: bool) -> None:
        """Somebody here wants to be shown what members say while they say it; or nobody does any more."""
        self.tell_all("watched", on=on)

    def live(self, body: Said) -> None:
        """What a member says, or begins to do, while it does."""
        if self.attended() and (event := live_from_json(body)) is not None:
            self.team.emit(event)

    async def _on_call(self, wire: Wire) -> None:
        line = _Line(self, wire)
        try:
            await wire.listen(line)
        finally:
            if (process := line.process) is not None and process.wire is wire:
                self._wires.pop(process, None)
                if process.bye is None and process.trouble is None:
                    self._catch_up(process)
                process.detached()

    def _catch_up(self, process: Process) -> None:
        """What a process that ended without a word had logged, and not got across."""
        with suppress(OSError):
            for number, event in read_events(room_of(process.transcript) / "events.jsonl", process.heard):
                self.heard(process, number, to_json(event), past=True)

    async def hello(self, wire: Wire, said: Said) -> Process:
        """Whoever calls with a token that is expected is that member. Raises TeamRefused for anybody else.

        While members come back one after another, the next one in the row waits until it is its turn.
        """
        token, changed = str(said.get("token")), self.team.changed
        while token not in self._expected and str(said.get("name")).lower() in self.team.coming_back:
            changed.clear()
            await changed.wait()
        process = self._expected.get(token)
        if process is None or said.get("version") != VERSION:
            raise TeamRefused("team-refused", "no teammate here waits for this process", note="it ends")
        process.attach(wire, int(said.get("pid", 0)), said.get("stands") or {})
        self._wires[process] = wire
        return process

    # ── what they tell ────────────────────────────────────────────────────────────────────────────────────────

    def heard(
        self, process: Process, number: int, body: Said, *, facts: Said | None = None, past: bool = False
    ) -> None:
        """A line of the process's log: an event of the session, once. `past`: of a process before this one.

        `facts` are those of a call, which no log has.
        """
        if number and number <= process.heard:
            return
        process.heard = max(number, process.heard)
        event = from_json(body)
        if event is None or isinstance(event, _OWN):
            return
        mine = event.member == process.name
        if isinstance(event, MemberChanged) and mine and (past or not process.became(event)):
            return
        if number:
            event = replace(event, origin=f"{process.name}#{process.incarnation}:{number}")
        if facts and isinstance(event, ToolCalled):
            event = replace(event, facts=facts)
        event = self.translate(process.name, event)
        self._note(process, event, mine)
        self.team.emit(event)
        self._follow(process, event)

    def _note(self, process: Process, event: TeamEvent, mine: bool) -> None:
        match event:
            case TaskChanged():
                self.team.outside.note_told(event.task)
            case ModelChanged() if mine:
                process.model = event.model
            case RoundEnded() if mine:
                process.usage += event.usage
            case TurnEnded() if mine:
                process.capped(event.detail if event.stop == "limit" else "")
            case _:
                pass

    def _follow(self, process: Process, event: TeamEvent) -> None:
        """What follows for the others, as if it had happened here."""
        team = self.team
        match event:
            case TaskChanged():
                team.talk.clear()
                if event.change != "claimed":
                    team.ring_idle()
            case MessageSent(member=sender, to=to) if not event.wire:
                if talked(team, sender, to):
                    self._soon(notify_lead(team, sender, to))
                team.ring(to)
            case MessageSent(to=to, wire=wire):
                if wire == ShutdownRejected.TYPE:
                    process.asked = ""  # it objected, and may be asked again
                team.ring(to)
            case _:
                pass
        team.changed.set()

    def _soon(self, telling: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)


class _Line:
    """One process that has called (an Ear)."""

    def __init__(self, exchange: Exchange, wire: Wire) -> None:
        self._exchange = exchange
        self._wire = wire
        self.process: Process | None = None

    def noted(self, name: str, said: Said, /) -> None:
        """See Ear."""
        process, exchange = self.process, self._exchange
        if process is None:
            return
        match name:
            case "event":
                past, facts = bool(said.get("past")), said.get("facts")
                exchange.heard(process, int(said["n"]), said["event"], facts=facts, past=past)
            case "live":
                exchange.live(said["event"])
            case "rests" | "mode":
                _says(process, name, said)
            case "bye" | "failed":
                _ends(process, said)
            case "plan":
                process.handed_in(said)
                if said["request"] and exchange.team.on_plan is not None:
                    request = exchange.team.requests.get(str(said["request"]))
                    if request is not None:
                        exchange.team.on_plan(request)
            case "late" if said.get("owner") == LEAD:
                exchange.team.late(LEAD, str(said["text"]))
            case _:
                exchange.help.noted(process.name, name, said)

    async def called(self, name: str, said: Said, /) -> Said:
        """See Ear."""
        if name == "hello":
            self.process = await self._exchange.hello(self._wire, said)
            known = {"heard": self.process.heard, "watched": self._exchange.attended()}
            return {**known, **self._exchange.help.welcome(self.process.name)}
        if self.process is None:
            raise TeamRefused("team-refused", "a process must identify itself first", note="nothing was done")
        return await self._exchange.help.called(self.process.name, name, said)


def _says(process: Process, what: str, said: Said) -> None:
    """Return its present state: idle, or with its own permission mode."""
    if what == "mode":
        process.said_mode = str(said["mode"])
    else:
        process.rests(said)


def _ends(process: Process, said: Said) -> None:
    """Its last words: how it ended, or why it could not begin."""
    if "error" in said:
        process.trouble = error_from_json(said["error"])
    else:
        process.bye = Bye(str(said["how"]), str(said["cause"]), str(said.get("agreed_to") or ""))
