"""Scopes of budgets: an agent, a task or a run, with its caps, its usage and the reservations of running calls.

Usage and reservations together never pass a cap, except for usage beyond a call's reservation. Depends on budgets and
usage.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from teamwright.models.model import BudgetRefusal
from teamwright.protocol.usage import Budget, Usage


class Estimate(Struct, frozen=True):
    """The expected need of a call: prompt and answer, in tokens and USD (0.0: free or unknown)."""

    tokens_in: int
    tokens_out: int
    usd_in: float = 0.0
    usd_out: float = 0.0

    @property
    def usd(self) -> float:
        """The highest cost of the call, in USD."""
        return self.usd_in + self.usd_out


class ReservedAmount(Struct, frozen=True):
    """The amount that a call reserved in one scope."""

    tokens: int
    usd: float


class Scope(Struct):
    """The caps and usage of an agent (`ada`), a task (`task #3`) or the run (empty `whose`). `minutes` returns its
    time.

    `hit` is the cap that refused a call. When the scope is `final`, that cap refuses each later call too.
    """

    whose: str
    budget: Budget = field(default_factory=Budget)
    final: bool = False
    minutes: Callable[[], float] | None = None
    tokens: int = 0
    usd: float = 0.0
    calls: int = 0
    held_tokens: int = 0
    held_usd: float = 0.0
    holders: int = 0
    hit: str = ""

    def add(self, usage: Usage, calls: int = 0) -> None:
        """Add usage; an unknown price counts as 0."""
        self.tokens += usage.tokens
        self.usd += usage.usd or 0.0
        self.calls += calls

    def charge(self, usage: Usage, before: Usage) -> BudgetRefusal | None:
        """Count the usage of a call in progress in place of what was charged `before`. Return the refusal of a cap that
        is used up.
        """
        self.tokens += usage.tokens - before.tokens
        self.usd += (usage.usd or 0.0) - (before.usd or 0.0)
        return self._used_up()

    def take_back(self, calls: int) -> None:
        """Take back tool calls that were counted and do not run."""
        self.calls -= calls

    def closed(self) -> BudgetRefusal | None:
        """Return the refusal by a cap that is used up already, else None."""
        caps = self.budget
        if self.final and self.hit:
            return self._refusal(self.hit)
        if caps.calls is not None and self.calls >= caps.calls:
            return self.refuse("calls")
        if caps.minutes is not None and self.minutes is not None and self.minutes() >= caps.minutes:
            return self.refuse("time")
        return self._used_up()

    def _used_up(self) -> BudgetRefusal | None:
        caps = self.budget
        if caps.usd is not None and self.usd >= caps.usd:
            return self.refuse("money")
        if caps.tokens is not None and self.tokens >= caps.tokens:
            return self.refuse("tokens")
        return None

    def short_of(self, call: Estimate) -> str:
        """Return the cap that has no room for this call beside the running ones; empty when there is room.

        The prompt and one token of the answer must fit. What is left is then reserved for the rest of the answer.
        """
        caps = self.budget
        if caps.tokens is not None and self.tokens + self.held_tokens + call.tokens_in >= caps.tokens:
            return "tokens"
        if caps.usd is not None and call.usd > 0 and self.usd + self.held_usd + call.usd_in >= caps.usd:
            return "money"
        return ""

    def hold(self, call: Estimate) -> ReservedAmount:
        """Reserve what the call may use, and no more than is left."""
        caps = self.budget
        tokens = call.tokens_in + call.tokens_out
        usd = call.usd
        if caps.tokens is not None:
            tokens = min(tokens, caps.tokens - self.tokens - self.held_tokens)
        if caps.usd is not None:
            usd = min(usd, caps.usd - self.usd - self.held_usd)
        self.held_tokens += tokens
        self.held_usd += usd
        self.holders += 1
        return ReservedAmount(tokens, usd)

    def release(self, amount: ReservedAmount) -> None:
        """Release a call's reservation."""
        self.held_tokens -= amount.tokens
        self.holders -= 1
        self.held_usd = self.held_usd - amount.usd if self.holders else 0.0

    def refuse(self, limit: str) -> BudgetRefusal:
        """Note that this cap refused a call, and return the refusal."""
        self.hit = limit
        return self._refusal(limit)

    def _refusal(self, limit: str) -> BudgetRefusal:
        caps = self.budget
        of = f" of {self.whose}" if self.whose else ""
        used, left = {
            "money": (f"{self.usd:.4f} of {caps.usd or 0:.4f} USD are used", self.usd < (caps.usd or 0)),
            "tokens": (f"{self.tokens:,} of {caps.tokens or 0:,} tokens are used", self.tokens < (caps.tokens or 0)),
            "calls": (f"{self.calls} of {caps.calls or 0} tool calls are made", False),
            "time": (f"{caps.minutes or 0:g} min are over", False),
        }[limit]
        return BudgetRefusal(
            limit, f"the cap on {limit}{of} is spent: {used}" + (", the next call needs more" if left else "")
        )
