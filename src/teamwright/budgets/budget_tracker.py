"""The budget tracker of a session: usage by agent, and reservations that are made before each model call.

A call reserves what it may use in all of its scopes at once. A call that finds no room waits while other calls hold
reservations, and is refused otherwise. So parallel calls cannot pass a cap together, and no call waits for its own
reservation. Depends on scopes and usage totals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from teamwright.budgets.budget_scope import Estimate, ReservedAmount, Scope
from teamwright.budgets.usage_confirmation import CallingAgent, UsageMarks
from teamwright.budgets.usage_totals import UsageTotals
from teamwright.models.model import BudgetRefusal
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import Compacted, TaskChanged, TaskInfo, TeamChanged, TeamEvent
from teamwright.protocol.usage import NO_CAPS, NO_USAGE, Budget, Usage


class Reservation(Struct):
    """The reservation of one call, which is settled once: with its usage, or with None when it used nothing."""

    budget_tracker: BudgetTracker
    parts: tuple[tuple[Scope, ReservedAmount], ...] = ()
    charged: Usage = NO_USAGE

    async def charge(self, usage: Usage) -> BudgetRefusal | None:
        """Count what the call has used so far. Return the refusal when a cap is used up."""
        before = self.charged
        self.charged = usage
        refusals = [scope.charge(usage, before) for scope, _ in self.parts]
        return next((refusal for refusal in refusals if refusal is not None), None)

    def settle(self, usage: Usage | None) -> None:
        """Release the reservation, record the usage, and wake calls that wait for room."""
        parts = self.parts
        self.parts = ()
        for scope, amount in parts:
            scope.release(amount)
            if usage is not None:
                scope.charge(usage, self.charged)
        if parts:
            self.budget_tracker.released()


class BudgetTracker:
    """The usage of a session and its caps. `context` is the context of each agent after its last call, in tokens.

    `each` caps every agent but the lead; `earlier` returns the totals of the session before this process, and is called
    once. `spent` is what earlier sessions of the run have used of its caps.
    """

    estimates = False
    """True when each call is estimated although this process has no cap."""

    def __init__(
        self,
        budget: Budget = NO_CAPS,
        *,
        each: Budget = NO_CAPS,
        earlier: Callable[[], UsageTotals] = UsageTotals,
        assumed: tuple[str, ...] = (),
        marks: UsageMarks | None = None,
        spent: Budget = NO_CAPS,
    ) -> None:
        started = monotonic()
        minutes = spent.minutes or 0.0
        self.run = Scope("", budget, final=True, minutes=lambda: minutes + (monotonic() - started) / 60)
        self.run.tokens, self.run.usd, self.run.calls = spent.tokens or 0, spent.usd or 0.0, spent.calls or 0
        self.each = each
        self.assumed = assumed
        """Names of caps of the run that are defaults."""
        self.marks = marks
        """The marks at which the user is asked; None where no user is at a terminal."""
        self.books = UsageTotals()
        self.context: dict[str, int] = {}
        self._agents: dict[str, Scope] = {}
        self._tasks: dict[str, Scope] = {}
        self._at_work: dict[str, list[str]] = {}
        self._earlier: Callable[[], UsageTotals] | UsageTotals = earlier
        self._moved = asyncio.Event()
        self._suspended: Callable[[], None] | None = None
        self.held: dict[str, str] = {}
        """The agents whose next model call a suspension holds back, with the agents that they work for."""

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def budget(self) -> Budget:
        """The caps of the whole run."""
        return self.run.budget

    @property
    def stated_budget(self) -> Budget:
        """The caps of the run that a user set. A cap on money that a user set needs known prices."""
        return replace(self.budget, **dict.fromkeys(self.assumed))

    @property
    def spent(self) -> Budget:
        """The part of its caps that the run has used."""
        run = self.run
        minutes = run.minutes() if run.minutes is not None else None
        return Budget(usd=run.usd or None, tokens=run.tokens or None, calls=run.calls or None, minutes=minutes or None)

    @property
    def spent_cap(self) -> str:
        """The cap of the run that refused a call; empty while none did."""
        return self.run.hit

    def out_of_time(self) -> None:
        """Refuse all further calls, because the run's time is used up."""
        self.run.hit = "time"
        self.released()

    @property
    def total(self) -> Usage:
        """The usage of all agents in this process."""
        return self.books.total

    @property
    def total_with_earlier(self) -> Usage:
        """The usage of all agents, in this process and in earlier ones of the session."""
        return self._before().total + self.books.total

    def usage_beside(self, purposes: Iterable[str]) -> Usage:
        """Return the usage of calls for these purposes, in this process and in earlier ones of the session."""
        known = [books.purposes.get(name, NO_USAGE) for name in purposes for books in (self._before(), self.books)]
        return sum(known, NO_USAGE)

    @property
    def by_member(self) -> dict[str, Usage]:
        """The usage of each agent in this process, with sub-agents under their ids."""
        return {name: account.usage for name, account in self.books.agents.items()}

    @property
    def with_subagents(self) -> dict[str, Usage]:
        """The usage of the lead and of each member, sub-agents included: it adds up to `total`."""
        accounts = self.books.agents
        used = dict[str, Usage]()
        for name, account in accounts.items():
            owner = name
            seen = {name}
            while (above := accounts[owner].caller if owner in accounts else "") and above not in seen:
                owner = above
                seen.add(owner)
            used[owner] = used.get(owner, NO_USAGE) + account.usage
        return used

    def task_of(self, agent: str) -> str:
        """Return the agent's latest task among those it has in progress; empty without one."""
        return next(reversed(self._at_work.get(agent.lower(), ())), "")

    # ── scopes ────────────────────────────────────────────────────────────────────────────────────────────────

    def agent_scope(self, agent: str, budget: Budget, minutes: Callable[[], float], *, is_resumed: bool) -> Scope:
        """Return the scope of an agent's incarnation. With `is_resumed` the incarnation's earlier usage counts."""
        scope = self._agents[agent.lower()] = Scope(agent, budget, minutes=minutes)
        if is_resumed and budget and (account := self._before().agents.get(agent)) is not None:
            scope.add(account.incarnation_usage, account.incarnation_calls)
        return scope

    def subagent_scope(self, id: str, budget: Budget, minutes: Callable[[], float]) -> Scope:
        """Return the scope of a sub-agent. Its earlier usage counts, from this process and from earlier ones."""
        scope = Scope(f"sub-agent {id}", budget, minutes=minutes)
        for books in (self._before(), self.books) if budget else ():
            if (account := books.agents.get(id)) is not None:
                scope.add(account.incarnation_usage, account.incarnation_calls)
        return scope

    def task_scope(self, task: str) -> Scope | None:
        """Return the scope of a task that has caps, else None."""
        return self._tasks.get(task)

    def cap_of(self, agent: str) -> Budget:
        """Return the caps of an agent of this process."""
        scope = self._agents.get(agent.lower())
        return NO_CAPS if scope is None else scope.budget

    def set_budget(self, agent: str, budget: Budget) -> Budget:
        """Change the caps of an agent that `budget` contains, so that the agent may continue. Return the resulting
        caps.

        Raises UsageError for an unknown agent.
        """
        scope = self._agents.get(agent.lower())
        if scope is None:
            raise UsageError("usage", f"there is no member {agent[:60]!r} to give a budget to", note="nothing changed")
        scope.budget = budget.with_defaults(scope.budget)
        scope.hit = ""
        self.released()
        return scope.budget

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────────────────

    def suspend(self, on_held: Callable[[], None]) -> None:
        """Hold back every model call from now on, until its agent is cancelled. `on_held` is called for each."""
        self._suspended = on_held

    async def _hold_back(self, agent: str, owner: str) -> None:
        if self._suspended is not None:
            self.held[agent] = owner or agent
            self._suspended()
            await asyncio.Event().wait()

    async def reserve(
        self, scopes: Sequence[Scope], call: Estimate, agent: str = "", owner: str = ""
    ) -> Reservation | BudgetRefusal:
        """Wait for room in all of these scopes and reserve it, or return the refusal.

        `agent` makes the call, and works for `owner`. At a mark the user is asked first.
        """
        await self._hold_back(agent, owner)
        if self.marks is not None:
            known = self.books.agents.get(agent)
            caller = CallingAgent(agent, owner, 0 if known is None else known.model_calls)
            if (refused := await self.marks.check(caller, self.run)) is not None:
                return refused
        while True:
            closed = next((refusal for scope in scopes if (refusal := scope.closed()) is not None), None)
            short = [(scope, limit) for scope in scopes if (limit := scope.short_of(call))]
            if closed is not None:
                return closed
            if not short:
                return Reservation(self, tuple((scope, scope.hold(call)) for scope in scopes))
            if (never := next((one for one in short if not one[0].holders), None)) is not None:
                return self._refused(*never)
            await self._moved.wait()
            await self._hold_back(agent, owner)

    async def admit(self, scopes: Sequence[Scope], calls: int) -> int:
        """Return how many of `calls` tool calls all of these scopes allow, and count those."""
        caps = [scope.budget.calls - scope.calls for scope in scopes if scope.budget.calls is not None]
        admitted = max(0, min([calls, *caps]))
        for scope in scopes:
            scope.calls += admitted
        return admitted

    def _refused(self, scope: Scope, limit: str) -> BudgetRefusal:
        """Refuse a call for which no other call can release room. A refusal by the run's scope is final for all
        calls.
        """
        if scope.final:
            self.released()
        return scope.refuse(limit)

    def released(self) -> None:
        """Wake waiting calls, because room was released or a scope was closed."""
        self._moved.set()
        self._moved.clear()

    def add_usage(
        self,
        agent: str,
        usage: Usage,
        model: str,
        *,
        caller: str = "",
        task: str = "",
        failed: bool = False,
        purpose: str = "",
    ) -> None:
        """Add an agent's usage. With `failed` it is the usage of failed attempts of the call.

        A call with a `purpose` is beside the agent's conversation, whose size stays as it is.
        """
        self.books.add_call(agent, usage, model, caller=caller, task=task, failed=failed, purpose=purpose)
        if failed or purpose:
            return
        self.context[agent] = max(usage.tokens, 0)

    def count_tool_calls(self, agent: str, count: int) -> None:
        """Count tool calls that another process has admitted."""
        self.books.account(agent).tool_calls += count

    # ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────────

    def add_event(self, event: TeamEvent) -> str:
        """Update tasks, context sizes and the current team from an event.

        Return the member that works on a task whose caps changed; empty without one.
        """
        if isinstance(event, TaskChanged):
            return self.take_task(event.task)
        elif isinstance(event, Compacted) and event.state == "done":
            self.context[event.member] = event.after
        elif isinstance(event, TeamChanged):
            self.books.add_event(event)
            self._at_work.clear()
            self._tasks.clear()
        return ""

    def take_tasks(self, tasks: Iterable[TaskInfo]) -> None:
        """Take over the task list at a resume."""
        for task in tasks:
            self.take_task(task)

    def take_task(self, task: TaskInfo) -> str:
        """Take over a task's present owner and caps. Return the owner when the caps changed, else an empty text."""
        owner = (task.owner or "").partition("@")[0].lower() if task.status == "in_progress" else ""
        for name, task_ids in self._at_work.items():
            if task.id in task_ids and name != owner:
                task_ids.remove(task.id)
        if owner and task.id not in (mine := self._at_work.setdefault(owner, [])):
            mine.append(task.id)
        return owner if self._cap(task) else ""

    def _cap(self, task: TaskInfo) -> bool:
        """Take over a task's caps. Return True when they differ from its former ones."""
        scope = self._tasks.get(task.id)
        caps = _caps_of(task)
        if scope is None:
            if caps:
                scope = self._tasks[task.id] = Scope(f"task #{task.id}", caps)
                key = (self.books.list, task.id)
                for books in (self._before(), self.books):
                    scope.add(books.tasks.get(key, Usage()))
        elif scope.budget != caps:
            scope.budget = caps
            scope.hit = ""
            self.released()
            return True
        return False

    def _before(self) -> UsageTotals:
        if not isinstance(self._earlier, UsageTotals):
            self._earlier = self._earlier()
        return self._earlier


def _caps_of(task: TaskInfo) -> Budget:
    """Return the caps of a task; no caps when another program wrote an invalid budget."""
    with suppress(UsageError):
        return Budget.from_json(task.budget) if task.budget else NO_CAPS
    return NO_CAPS
