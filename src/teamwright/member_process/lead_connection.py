"""The connection of a member process to its lead's process, and what the lead's process answers through it.

It is opened again after a lead restarts, and forwards each event of this process once, also events from times without a
lead. Without a lead for longer than the grace period, the member leaves and keeps its place. The lead's process has the
request queue, the budget of the run and the limit of sub-agents; proxies here ask it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import asdict

from teamwright.approvals.request_queue import Answerer, ask_hooks
from teamwright.backends.connections import VERSION
from teamwright.budgets.budget_scope import Estimate, Scope
from teamwright.budgets.budget_tracker import BudgetTracker, Reservation
from teamwright.budgets.usage_totals import UsageTotals
from teamwright.models.model import BudgetRefusal
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import PermissionAnswer, Question
from teamwright.processes.ipc import IpcBody, IpcConnection, IpcHandler
from teamwright.protocol.errors import CannotStart, LimitExceeded, TeamRefused, error_to_json
from teamwright.protocol.event_json import to_json, usage_to_json
from teamwright.protocol.events import Emit, TeamEvent, ToolCalled
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.usage import Budget, Usage
from teamwright.session.agents.policies import AgentPolicies
from teamwright.session.spawn_file import SpawnFile
from teamwright.storage.event_log import EventLog, read_events
from teamwright.storage.file_watcher import Watcher
from teamwright.teams.team import SessionTeam

LEAD_GONE = "its lead was gone"

REMOTE_HELLO_S = 120.0
"""Seconds that a lead on another machine may take to answer a new process. A lead that was killed never answers."""

SEND_PAUSE_S = 0.2
"""Seconds for which events and notes for a lead on another machine are collected. Calls take them along at once."""


class LeadListener(IpcHandler, Protocol):
    """The member, as the connection notifies it: of welcomes, notes and calls of the lead."""

    def receive_welcome(self, welcome: IpcBody) -> None:
        """Receive the lead's welcome, at the first connection and after each reconnection."""

    def present_state(self) -> IpcBody:
        """Return the member's state, for a lead that missed its events; empty before the member runs."""
        ...


class LeadConnection:
    """The connection to the lead."""

    def __init__(self, spawn: SpawnFile) -> None:
        self.spawn = spawn
        self.log: EventLog | None = None
        self.gone = asyncio.Event()
        """Set when the lead was gone for longer than the grace period."""
        self.hello: IpcBody = {}
        self._wire: IpcConnection | None = None
        self._up = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._leaving = False
        self._listener: LeadListener | None = None
        self._early: list[tuple[str, IpcBody]] = []
        """Notes that arrived before there was a listener."""
        self._followers: tuple[Callable[[bool], None], ...] = ()
        self._pause_s = SEND_PAUSE_S if spawn.database else 0.0

    @property
    def _hello_s(self) -> float | None:
        return REMOTE_HELLO_S if self.spawn.database else None  # a local socket ends with its lead

    @property
    def is_connected(self) -> bool:
        """True while the lead's process is connected."""
        return self._up.is_set()

    @property
    def is_closed(self) -> bool:
        """True after the connection was closed."""
        return self._leaving

    # ── connection ───────────────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        """Connect to the lead for the first time. Raises CannotStart when no lead answers or expects this member."""
        try:
            await self._connect()
        except (OSError, ConnectionError) as problem:
            raise CannotStart(
                "backend", f"the lead's process does not answer at {self.spawn.wire}: {problem}"
            ) from None

    async def keep_connected(self, watcher: Watcher) -> None:
        """Reconnect whenever the lead is gone, until the grace period ends."""
        while not self._leaving:
            if self._listening is not None:
                await asyncio.wait({self._listening})
            self._up.clear()
            if not self._leaving:
                self._report_presence(False)
            if self._leaving or not await self._reconnect(watcher):
                break
        if not self._leaving:
            self.gone.set()

    async def close(self, how: str, cause: str, agreed_to: str | None = None) -> None:
        """Report the member's end, and wait until the lead has received it."""
        self._leaving = True
        if self.log is not None:
            self.log.flush()
        self.notify("bye", how=how, cause=cause, agreed_to=agreed_to or "")
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close_when_sent()
        if self._listening is not None:
            self._listening.cancel()

    async def report_failure(self, problem: Exception) -> None:
        """Report why this member could not start."""
        self.notify("failed", error=error_to_json(problem))
        await self.close("failed", str(problem))

    async def _reconnect(self, watcher: Watcher) -> bool:
        path = Path(self.spawn.wire)
        called = asyncio.Event()
        unfollow = watcher.follow(path, called.set)
        try:
            async with time_limit(self.spawn.grace_s):
                while not await self._is_lead_back():
                    called.clear()
                    await called.wait()
        except (TimeoutError, CannotStart):
            return False
        finally:
            unfollow()
        return True

    async def _is_lead_back(self) -> bool:
        """Return True when the lead is back. Raises CannotStart when it does not know this member."""
        with contextlib.suppress(OSError):
            await self._connect()
            return True
        return False

    async def _connect(self) -> None:
        wire = await IpcConnection.connect(Path(self.spawn.wire))
        wire.set_pause(self._pause_s)
        self._listening = asyncio.create_task(wire.read_until_closed(self), name="line to the lead")
        token = self.spawn.token
        name = self.spawn.member
        state: IpcBody = self._listener.present_state() if self._listener is not None else {}
        try:
            hello = {"token": token, "name": name, "version": VERSION, "pid": os.getpid(), "stands": state}
            async with time_limit(self._hello_s):
                welcome = await wire.call("hello", **hello)
        except ConnectionError:
            raise
        except TimeoutError:
            wire.close()
            raise ConnectionResetError("the lead did not answer") from None
        except Exception as problem:
            wire.close()
            raise CannotStart("backend", f"the lead does not know this process: {problem}") from None
        self.hello = welcome
        self._wire = wire
        self._tell_since(wire, int(welcome.get("heard", 0)))
        if self._listener is not None:
            self._listener.receive_welcome(welcome)
        self._up.set()
        self._report_presence(True)

    def follow(self, follower: Callable[[bool], None]) -> None:
        """Call `follower` with False when the lead is gone, and with True when it is back."""
        self._followers = (*self._followers, follower)

    def _report_presence(self, is_there: bool) -> None:
        for follower in self._followers:
            follower(is_there)

    def set_pause(self, pause_s: float) -> None:
        """Collect events and notes for a lead on another machine for so many seconds, at least SEND_PAUSE_S."""
        self._pause_s = max(SEND_PAUSE_S, pause_s)
        if self._wire is not None:
            self._wire.set_pause(self._pause_s)

    # ── sending ──────────────────────────────────────────────────────────────────────────────────────────

    def notify(self, what: str, /, **fields: Any) -> None:
        """Send a note to the lead; it is dropped without a lead."""
        if self._wire is not None:
            self._wire.add_note(what, **fields)

    async def call(self, what: str, /, **fields: Any) -> IpcBody:
        """Call the lead and return its answer. The call is repeated when the lead is replaced.

        Raises the lead's errors, ConnectionError when the lead is gone for good.
        """
        while True:
            wire = self._wire
            if wire is not None:
                with contextlib.suppress(ConnectionError):
                    return await wire.call(what, **fields)
            await self._wait_until_connected()

    async def _wait_until_connected(self) -> None:
        up = asyncio.ensure_future(self._up.wait())
        gone = asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait({up, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            up.cancel()
            gone.cancel()
        if self.gone.is_set():
            raise ConnectionResetError("the lead is gone")
        await asyncio.sleep(0)  # the end of the former connection is handled first

    def forward_event(self, number: int, event: TeamEvent) -> None:
        """Forward an event once its line is in the log, whose numbers continue after a kill.

        Data that is in no log (the diff of a change) is included, unless the lead reads slowly.
        """
        if self._wire is not None:
            if self.log is not None:
                self.log.flush()
            facts = event.facts if isinstance(event, ToolCalled) and not self._wire.is_congested else None
            fields: dict[str, Any] = {"facts": facts} if facts else {}
            self._wire.add_note("event", n=number, event=to_json(event), **fields)

    def forward_live_event(self, event: TeamEvent) -> None:
        """Forward a live event, such as partial output, unless the lead reads slowly."""
        if self._wire is not None and not self._wire.is_congested:
            self._wire.add_note("live", event=to_json(event))

    def forward_earlier_events(self) -> None:
        """Forward events of earlier processes that no lead received; they do not change the member's state."""
        if self._wire is not None:
            self._tell_since(self._wire, int(self.hello.get("heard", 0)), past=True)

    def _tell_since(self, wire: IpcConnection, heard: int, **fields: Any) -> None:
        """Forward the logged events that were not received yet."""
        if self.log is None:
            return
        self.log.flush()
        for number, event in read_events(self.log.path, heard):
            wire.send_note("event", n=number, event=to_json(event), **fields)

    # ── receiving ────────────────────────────────────────────────────────────────────────────────

    def handle_note(self, name: str, fields: IpcBody, /) -> None:
        """Implement `IpcHandler.handle_note`. A note is kept until there is a listener."""
        if self._listener is None:
            self._early.append((name, fields))
        else:
            self._listener.handle_note(name, fields)

    def attach(self, listener: LeadListener) -> None:
        """Notify the listener from now on. It first receives the lead's welcome and the notes since then."""
        listener.receive_welcome(self.hello)
        self._listener = listener
        early, self._early = self._early, []
        for name, fields in early:
            listener.handle_note(name, fields)

    async def handle_call(self, name: str, fields: IpcBody, /) -> IpcBody:
        if self._listener is None:
            raise CannotStart("backend", "this member is not ready yet")
        return await self._listener.handle_call(name, fields)


class RemoteApprover(Struct):
    """The approver of this process, which asks the lead's process (see `permissions.verdict.Approver`).

    `answerers`, the hooks of agents in this process, are tried in order first. `own_policies` are those of this process
    when the lead is on another machine: a granted directory is one of this machine.
    """

    line: LeadConnection
    emit: Emit
    answerers: list[Answerer] = field(default_factory=list[Answerer])
    own_policies: AgentPolicies | None = None
    _waiting: int = 0
    """The number of questions that wait for an answer of the lead's process."""

    async def ask(self, question: Question) -> PermissionAnswer:
        if (found := await ask_hooks(self.answerers, question, self.emit)) is not None:
            return found
        self._waiting += 1
        try:
            return convert(await self.line.call("ask", question=to_builtins(question)), PermissionAnswer)
        except ConnectionError:
            await asyncio.Event().wait()  # this process ends now, and the resume asks again
            raise
        finally:
            self._waiting -= 1

    def is_waiting(self) -> bool:
        """Return True while a call in this process waits for an answer."""
        return self._waiting > 0

    def was_left_open(self, member: str, tool_use_id: str) -> bool:
        """Return True when this agent's call waited for an answer when its process ended. It never ran."""
        return [member, tool_use_id] in self.line.hello.get("left_open", ())

    def calls_left_open(self) -> set[str]:
        """Return the ids of all calls of the team of which `was_left_open` is true."""
        return {str(id) for _, id in self.line.hello.get("left_open", ())}

    async def grant(self, owner: str, _policy: Policy, answer: PermissionAnswer) -> None:
        """Send the grants of an approval to the lead's process, which applies them in all processes."""
        if self.own_policies is not None:
            from teamwright.session.modes_and_grants import grant_directories  # only such a grant pays for this import

            answer = grant_directories(answer, self.own_policies, owner, self.emit)
        try:
            await self.line.call("grant", owner=owner, answer=to_builtins(answer))
        except ConnectionError:
            return


class ShutdownRefusal(Struct):
    """The refusal of shutdown requests by members (see `tools.team.send_message.StopRequests`)."""

    timers: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    async def request_stop(self, team: SessionTeam, to: str, reason: str, call: str = "") -> str:
        """Raise TeamRefused, because a member may not stop others."""
        raise TeamRefused(
            "team-refused",
            "only the lead asks a member to stop",
            do=["Write to lead, and say why the member should stop."],
            note="nothing was sent",
        )


class RemoteReservation(Reservation):
    """The reservation of one call, here and in the lead's process."""

    line: LeadConnection | None = None
    number: int = 0

    async def charge(self, usage: Usage) -> BudgetRefusal | None:
        """Count the usage so far in both processes."""
        if (refusal := await Reservation.charge(self, usage)) is not None or self.line is None:
            return refusal
        try:
            answer = await self.line.call("charge", hold=self.number, usage=usage_to_json(usage))
        except ConnectionError:
            return BudgetRefusal("time", LEAD_GONE)
        return BudgetRefusal(*answer["refused"]) if "refused" in answer else None

    def settle(self, usage: Usage | None) -> None:
        """Settle the reservation in both processes."""
        Reservation.settle(self, usage)
        line, self.line = self.line, None
        if line is not None:
            line.notify("settle", hold=self.number, usage=None if usage is None else usage_to_json(usage))


class MemberBudget(BudgetTracker):
    """The budget tracker of a member process. The lead's process tracks the caps of the run and of tasks."""

    estimates = True

    def __init__(self, line: LeadConnection, each: Budget, earlier: Callable[[], UsageTotals] = UsageTotals) -> None:
        super().__init__(each=each, earlier=earlier)
        self._line = line

    def task_scope(self, task: str) -> Scope | None:
        """Return None, because the lead's process has the scopes of tasks."""
        return None

    async def reserve(
        self, scopes: Sequence[Scope], call: Estimate, agent: str = "", owner: str = ""
    ) -> Reservation | BudgetRefusal:
        """Reserve in this process and in the lead's, like `BudgetTracker.reserve`."""
        got = await super().reserve([scope for scope in scopes if scope is not self.run], call)
        if isinstance(got, BudgetRefusal):
            return got
        try:
            answer = await self._line.call("reserve", call=asdict(call), agent=agent)
        except BaseException as problem:
            got.settle(None)
            if isinstance(problem, ConnectionError):
                return BudgetRefusal("time", LEAD_GONE)
            raise
        if "refused" in answer:
            got.settle(None)
            return BudgetRefusal(*answer["refused"])
        return RemoteReservation(self, got.parts, line=self._line, number=int(answer["hold"]))

    async def admit(self, scopes: Sequence[Scope], calls: int) -> int:
        """Admit tool calls by both processes, like `BudgetTracker.admit`."""
        own = [scope for scope in scopes if scope is not self.run]
        admitted = await super().admit(own, calls)
        try:
            answer = await self._line.call("admit", calls=admitted) if admitted else {"admitted": 0}
        except ConnectionError:
            answer = {"admitted": 0}
        for scope in own:
            scope.take_back(admitted - int(answer["admitted"]))
        return int(answer["admitted"])


class RemoteSpawnLimit(Struct):
    """The limit of sub-agents in this run; the lead's process counts those of all processes."""

    line: LeadConnection

    async def __call__(self) -> None:
        """Count one start. Raises LimitExceeded naming the cap."""
        try:
            await self.line.call("start")
        except ConnectionError:
            raise LimitExceeded("limit", LEAD_GONE, note="nothing was started") from None
