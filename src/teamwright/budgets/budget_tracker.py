"""The purse of a session: what was spent and by whom, and room that is set aside before a call is made.

A call holds what it may use in every scope that it falls under, all at once; one that finds no room waits while
others hold some, and is refused when nobody does. So calls that run side by side cannot pass a cap together, and
none waits for itself. Knows scopes and the books; knows no model and no team.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic

from teamwright.budgets.scope import Estimate, ReservedAmount, Scope
from teamwright.budgets.usage_totals import UsageTotals
from teamwright.models.model import BudgetRefusal
from teamwright.protocol.budget import NO_CAPS, Budget
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import (
    FAILED_ATTEMPTS,
    Compacted,
    ModelCallEnded,
    TaskChanged,
    TaskInfo,
    TeamChanged,
    TeamEvent,
)
from teamwright.protocol.usage import NO_USAGE, Usage
from teamwright.protocol.values import dataclass


@dataclass(slots=True)
class Reservation:
    """What one call holds. Settled once, with its usage, or with None when there was none."""

    purse: BudgetTracker
    parts: tuple[tuple[Scope, ReservedAmount], ...] = ()

    def settle(self, usage: Usage | None) -> None:
        """Give back what was held, book what was used, and let others look for room again."""
        parts, self.parts = self.parts, ()
        for scope, held in parts:
            scope.release(held)
            if usage is not None:
                scope.add(usage)
        if parts:
            self.purse.released()


class BudgetTracker:
    """What a session has spent, and what it may. `context` is the context of each agent after its last call, in tokens.

    `each` caps every agent but the lead; `earlier` are the books of the session before this process, asked once.
    """

    estimates = False
    """Whether each call is estimated, though no cap is known here."""

    def __init__(
        self, budget: Budget = NO_CAPS, *, each: Budget = NO_CAPS, earlier: Callable[[], UsageTotals] = UsageTotals
    ) -> None:
        started = monotonic()
        self.run = Scope("", budget, final=True, minutes=lambda: (monotonic() - started) / 60)
        self.each = each
        self.assumed: tuple[str, ...] = ()
        """Default caps of the run."""
        self.books = UsageTotals()
        self.context: dict[str, int] = {}
        self.on_raised: Callable[[str], None] = _no_waiter
        self._agents: dict[str, Scope] = {}
        self._tasks: dict[str, Scope] = {}
        self._at_work: dict[str, list[str]] = {}
        self._earlier: Callable[[], UsageTotals] | UsageTotals = earlier
        self._moved = asyncio.Event()

    # ── what is there ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def budget(self) -> Budget:
        """The caps of the whole run."""
        return self.run.budget

    @property
    def stated_budget(self) -> Budget:
        """The caps of the whole run that were set: for a cap on money all prices must be known."""
        return replace(self.budget, **dict.fromkeys(self.assumed))

    @property
    def spent_cap(self) -> str:
        """Which cap of the run refused a call; empty while none did."""
        return self.run.hit

    def out_of_time(self) -> None:
        """The run's time is over: no call is made any more."""
        self.run.hit = "time"
        self.released()

    @property
    def total(self) -> Usage:
        """What all agents used in this process."""
        return self.books.total

    @property
    def by_member(self) -> dict[str, Usage]:
        """What each agent used in this process, sub-agents under their ids."""
        return {name: account.usage for name, account in self.books.agents.items()}

    @property
    def with_subagents(self) -> dict[str, Usage]:
        """The usage of the lead and of each member, sub-agents included: it adds up to `total`."""
        accounts, used = self.books.agents, dict[str, Usage]()
        for name, account in accounts.items():
            owner, seen = name, {name}
            while (above := accounts[owner].caller if owner in accounts else "") and above not in seen:
                owner = above
                seen.add(owner)
            used[owner] = used.get(owner, NO_USAGE) + account.usage
        return used

    def task_of(self, agent: str) -> str:
        """The task that the agent works on: of those it has in progress the one it took last; empty: none."""
        return next(reversed(self._at_work.get(agent.lower(), ())), "")

    # ── scopes ────────────────────────────────────────────────────────────────────────────────────────────────

    def agent_scope(self, agent: str, budget: Budget, minutes: Callable[[], float], *, goes_on: bool) -> Scope:
        """The scope of an agent's life; one that goes on after a resume has used what its life used before."""
        scope = self._agents[agent.lower()] = Scope(agent, budget, minutes=minutes)
        if goes_on and budget and (account := self._before().agents.get(agent)) is not None:
            scope.add(account.life_usage, account.life_calls)
        return scope

    def subagent_scope(self, id: str, budget: Budget, minutes: Callable[[], float]) -> Scope:
        """The scope of a sub-agent: what its life used before counts, in this process and in earlier ones."""
        scope = Scope(f"sub-agent {id}", budget, minutes=minutes)
        for books in (self._before(), self.books) if budget else ():
            if (account := books.agents.get(id)) is not None:
                scope.add(account.life_usage, account.life_calls)
        return scope

    def task_scope(self, task: str) -> Scope | None:
        """The scope of a task that has caps."""
        return self._tasks.get(task)

    def cap_of(self, agent: str) -> Budget:
        """The caps of an agent of this process."""
        scope = self._agents.get(agent.lower())
        return NO_CAPS if scope is None else scope.budget

    def set_budget(self, agent: str, budget: Budget) -> Budget:
        """Give an agent other caps, where it names any; it may go on. Returns what holds now.

        Raises UsageError for an agent that there is not.
        """
        scope = self._agents.get(agent.lower())
        if scope is None:
            raise UsageError("usage", f"there is no member {agent[:60]!r} to give a budget to", note="nothing changed")
        scope.budget, scope.hit = budget.with_defaults(scope.budget), ""
        self.released()
        self.on_raised(agent)
        return scope.budget

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def reserve(self, scopes: Sequence[Scope], call: Estimate) -> Reservation | BudgetRefusal:
        """Room for a call in all of these scopes, once there is some; or why there will be none."""
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

    async def admit(self, scopes: Sequence[Scope], calls: int) -> int:
        """How many of so many tool calls all of these scopes let through; they count from now on."""
        caps = [scope.budget.calls - scope.calls for scope in scopes if scope.budget.calls is not None]
        admitted = max(0, min([calls, *caps]))
        for scope in scopes:
            scope.calls += admitted
        return admitted

    def _refused(self, scope: Scope, limit: str) -> BudgetRefusal:
        """Nobody holds anything there that could be given back. Once the run refused a call it refuses all."""
        if scope.final:
            self.released()
        return scope.refuse(limit)

    def released(self) -> None:
        """Something is free again, or closed for good: whoever waits looks again."""
        self._moved.set()
        self._moved.clear()

    def add_usage(
        self, agent: str, usage: Usage, model: str, *, caller: str = "", task: str = "", failed: bool = False
    ) -> None:
        """An agent's call used this much; `failed`: its tries that broke did."""
        made = ModelCallEnded(member=agent, usage=usage, model=model, tools=0, caller=caller, task=task)
        self.books.add_call(replace(made, aside=FAILED_ATTEMPTS) if failed else made)
        if failed:
            return
        self.context[agent] = max(usage.prompt_tokens + usage.output_tokens, 0)

    # ── tasks ─────────────────────────────────────────────────────────────────────────────────────────────────

    def add_event(self, event: TeamEvent) -> None:
        """Who works on what, and what a task may cost, as events tell it."""
        if isinstance(event, TaskChanged):
            self.take_task(event.task)
        elif isinstance(event, Compacted) and event.state == "done":
            self.context[event.member] = event.after
        elif isinstance(event, TeamChanged):
            self.books.add_event(event)
            self._at_work.clear()
            self._tasks.clear()

    def take_tasks(self, tasks: Iterable[TaskInfo]) -> None:
        """The list as a resume finds it."""
        for task in tasks:
            self.take_task(task)

    def take_task(self, task: TaskInfo) -> None:
        """A task as it is now: who has it in progress, and its caps."""
        owner = (task.owner or "").partition("@")[0].lower() if task.status == "in_progress" else ""
        for name, held in self._at_work.items():
            if task.id in held and name != owner:
                held.remove(task.id)
        if owner and task.id not in (mine := self._at_work.setdefault(owner, [])):
            mine.append(task.id)
        self._cap(task, owner)

    def _cap(self, task: TaskInfo, owner: str) -> None:
        scope, caps = self._tasks.get(task.id), _caps_of(task)
        if scope is None:
            if caps:
                scope = self._tasks[task.id] = Scope(f"task #{task.id}", caps)
                key = (self.books.list, task.id)
                for books in (self._before(), self.books):
                    scope.add(books.tasks.get(key, Usage()))
        elif scope.budget != caps:
            scope.budget, scope.hit = caps, ""
            self.released()
            if owner:
                self.on_raised(owner)

    def _before(self) -> UsageTotals:
        if not isinstance(self._earlier, UsageTotals):
            self._earlier = self._earlier()
        return self._earlier


def _caps_of(task: TaskInfo) -> Budget:
    """Its caps; none where another program wrote what is no budget."""
    with suppress(UsageError):
        return Budget.from_json(task.budget) if task.budget else NO_CAPS
    return NO_CAPS


def _no_waiter(_agent: str) -> None:
    """Nobody waits for a larger budget."""
