"""Money and limits of a run: what may be spent, what was spent and by whom, adding up to the token.

One purse a run; each agent's meter is a window on it. Knows usage; knows no price list and no model.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from teamwright.protocol.errors import UsageError
from teamwright.protocol.usage import Usage


@dataclass(frozen=True, slots=True)
class Budget:
    """Caps of a run; None is no cap. `turns` counts the lead's rounds, all else the whole run's.

    Raises UsageError for a cap that is no number above 0.
    """

    usd: float | None = None
    tokens: int | None = None
    turns: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        for name in ("usd", "tokens", "turns", "minutes"):
            value: object = getattr(self, name)
            if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0):
                continue
            what = f"a cap on {name} is a number above 0, not {value!r}"
            raise UsageError("usage", what, note="nothing was started")


@dataclass(slots=True)
class Purse:
    """What a run has spent, by member. `context` is the context of each member after its last call, in tokens."""

    budget: Budget = field(default_factory=Budget)
    total: Usage = field(default_factory=Usage)
    by_member: dict[str, Usage] = field(default_factory=dict[str, Usage])
    context: dict[str, int] = field(default_factory=dict[str, int])
    started: float = field(default_factory=time.monotonic)
    hit: str = ""

    def meter(self, member: str) -> MemberMeter:
        """The window of one member."""
        return MemberMeter(self, member)

    def refuse(self) -> str | None:
        """Which cap is spent (`money`, `tokens`, `time`), or None. The call after the cap is the one refused."""
        caps = self.budget
        if caps.usd is not None and self.total.usd is not None and self.total.usd >= caps.usd:
            self.hit = "money"
        elif caps.tokens is not None and self.total.tokens >= caps.tokens:
            self.hit = "tokens"
        elif caps.minutes is not None and time.monotonic() - self.started >= caps.minutes * 60:
            self.hit = "time"
        else:
            return None
        return self.hit

    def spent(self, member: str, usage: Usage) -> None:
        """A call of this member used this much."""
        self.total += usage
        known = self.by_member.get(member)
        self.by_member[member] = usage if known is None else known + usage
        self.context[member] = max(usage.prompt_tokens + usage.output_tokens, 0)


@dataclass(frozen=True, slots=True)
class MemberMeter:
    """One member's meter (the port of `models`)."""

    purse: Purse
    member: str

    def refuse(self) -> str | None:
        """See Purse.refuse."""
        return self.purse.refuse()

    def spent(self, usage: Usage) -> None:
        """See Purse.spent."""
        self.purse.spent(self.member, usage)
