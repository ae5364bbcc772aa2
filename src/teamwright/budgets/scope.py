"""A scope: what one cap holds over, with what is spent there and what is set aside for calls that run.

An agent, a task, a run. Spent and held together never pass a cap, but for what a call really used beyond what was
held for it. Knows budgets and usage; does not know who waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from teamwright.models.model import BudgetRefusal
from teamwright.protocol.budget import Budget
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a call will need: its prompt, and what its answer may be; tokens and USD (0.0: free or not known)."""

    tokens_in: int
    tokens_out: int
    usd_in: float = 0.0
    usd_out: float = 0.0

    @property
    def usd(self) -> float:
        """All that it may cost."""
        return self.usd_in + self.usd_out


@dataclass(frozen=True, slots=True)
class ReservedAmount:
    """What is set aside of one scope."""

    tokens: int
    usd: float


@dataclass(slots=True)
class Scope:
    """One cap's reach. `whose` is `ada`, `task #3`, or empty for the whole run. `minutes` tells the time it has used.

    `hit` is the cap that refused a call; where it is `final`, it refuses every call after that one too.
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
        """So much was used; money that nobody knows counts nothing."""
        self.tokens += usage.tokens
        self.usd += usage.usd or 0.0
        self.calls += calls

    def closed(self) -> BudgetRefusal | None:
        """The cap that is spent already, if one is."""
        caps = self.budget
        if self.final and self.hit:
            return self._refusal(self.hit)
        if caps.calls is not None and self.calls >= caps.calls:
            return self.refuse("calls")
        if caps.minutes is not None and self.minutes is not None and self.minutes() >= caps.minutes:
            return self.refuse("time")
        if caps.usd is not None and self.usd >= caps.usd:
            return self.refuse("money")
        if caps.tokens is not None and self.tokens >= caps.tokens:
            return self.refuse("tokens")
        return None

    def short_of(self, call: Estimate) -> str:
        """The cap under which this call finds no room now, beside those that run; empty when it finds some.

        The prompt must fit, and a token of the answer: what is left then is held for the rest of it.
        """
        caps = self.budget
        if caps.tokens is not None and self.tokens + self.held_tokens + call.tokens_in >= caps.tokens:
            return "tokens"
        if caps.usd is not None and call.usd > 0 and self.usd + self.held_usd + call.usd_in >= caps.usd:
            return "money"
        return ""

    def hold(self, call: Estimate) -> ReservedAmount:
        """Set aside what the call may use, and no more than is left."""
        caps, tokens, usd = self.budget, call.tokens_in + call.tokens_out, call.usd
        if caps.tokens is not None:
            tokens = min(tokens, caps.tokens - self.tokens - self.held_tokens)
        if caps.usd is not None:
            usd = min(usd, caps.usd - self.usd - self.held_usd)
        self.held_tokens += tokens
        self.held_usd += usd
        self.holders += 1
        return ReservedAmount(tokens, usd)

    def release(self, held: ReservedAmount) -> None:
        """The call is over."""
        self.held_tokens -= held.tokens
        self.holders -= 1
        self.held_usd = self.held_usd - held.usd if self.holders else 0.0

    def refuse(self, limit: str) -> BudgetRefusal:
        """Note that this cap refused a call."""
        self.hit = limit
        return self._refusal(limit)

    def _refusal(self, limit: str) -> BudgetRefusal:
        caps, of = self.budget, f" of {self.whose}" if self.whose else ""
        used, left = {
            "money": (f"{self.usd:.4f} of {caps.usd or 0:.4f} USD are used", self.usd < (caps.usd or 0)),
            "tokens": (f"{self.tokens:,} of {caps.tokens or 0:,} tokens are used", self.tokens < (caps.tokens or 0)),
            "calls": (f"{self.calls} of {caps.calls or 0} tool calls are made", False),
            "time": (f"{caps.minutes or 0:g} min are over", False),
        }[limit]
        return BudgetRefusal(
            limit, f"the cap on {limit}{of} is spent: {used}" + (", the next call needs more" if left else "")
        )
