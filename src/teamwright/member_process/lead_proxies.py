"""Proxies of the lead's process in a member process: answers to requests and budget for calls (ports of lower
packages).

The lead's process has the request queue and the budget tracker of the run. Depends on the connection to the lead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import asdict

from teamwright.approvals.request_queue import Answerer, ask_hooks
from teamwright.budgets.budget_scope import Estimate, Scope
from teamwright.budgets.budget_tracker import BudgetTracker, Reservation
from teamwright.budgets.usage_totals import UsageTotals
from teamwright.member_process.lead_connection import LEAD_GONE, LeadConnection
from teamwright.models.model import BudgetRefusal
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import PermissionAnswer, Question
from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import LimitExceeded, TeamRefused
from teamwright.protocol.event_json import usage_to_json
from teamwright.protocol.events import Emit
from teamwright.protocol.usage import Usage
from teamwright.session.agents.policies import AgentPolicies
from teamwright.teams.team import SessionTeam


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
        """Implement `Approver.ask`."""
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

    async def grant(self, owner: str, _policy: Policy, answer: PermissionAnswer) -> None:
        """Send the grants of an approval to the lead's process, which applies them in all processes."""
        if self.own_policies is not None:
            from teamwright.session.grants import grant_directories  # only such a grant pays for this import

            answer = grant_directories(answer, self.own_policies, owner, self.emit)
        try:
            await self.line.call("grant", owner=owner, answer=to_builtins(answer))
        except ConnectionError:
            return


class ShutdownRefusal(Struct):
    """The refusal of shutdown requests by members (see `tools.team.structured_message.StopRequests`)."""

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
