"""Budgets: caps on the use of an agent, a task or a whole run, as one value.

Flags, settings, the Python API, task metadata and team files all use this value. Checks that caps are valid; leaves
counting and enforcement to `budgets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from teamwright.protocol.errors import UsageError
from teamwright.protocol.unknown_names import did_you_mean

_INTEGER_CAPS = frozenset({"tokens", "turns", "calls"})


class Budget(Struct, frozen=True):
    """Caps; None is no cap. `usd` in US dollars, `tokens` in and out together, `minutes` of time.

    `turns` counts model calls (of a run: the lead's), `calls` tool calls. A run has a default for each cap that it is
    not given: 200 model calls of the lead and of each agent, 5 million tokens, 120 minutes, and 20 USD where the price
    is known. `Budget.unlimited` has none. Raises UsageError for a cap that is no number above 0.
    """

    usd: float | None = None
    tokens: int | None = None
    turns: int | None = None
    minutes: float | None = None
    calls: int | None = None
    is_unlimited: bool = False
    """True when the default caps of a run do not apply."""

    @classmethod
    def unlimited(
        cls, usd: float | None = None, tokens: int | None = None, turns: int | None = None, minutes: float | None = None
    ) -> Budget:
        """Return a budget for a run without default caps; only the given caps apply. Raises UsageError as `Budget`."""
        return cls(usd=usd, tokens=tokens, turns=turns, minutes=minutes, is_unlimited=True)

    def __post_init__(self) -> None:
        for name in CAP_NAMES:
            value: object = getattr(self, name)
            kinds = int if name in _INTEGER_CAPS else int | float
            if value is None or (isinstance(value, kinds) and not isinstance(value, bool) and value > 0):
                continue
            number = "whole number" if name in _INTEGER_CAPS else "number"
            what = f"a cap on {name} is a {number} above 0, not {value!r}"
            raise UsageError("usage", what, note="nothing was started")

    def __bool__(self) -> bool:
        """Return True when at least one cap is set."""
        # Every agent and call asks this several times: written out, it takes a tenth of the time of a loop over
        # CAP_NAMES.
        none = self.usd is None and self.tokens is None and self.turns is None
        return not (none and self.minutes is None and self.calls is None)

    def has(self, name: str) -> bool:
        """Return True when a cap of this name exists."""
        return getattr(self, name) is not None

    def smaller_caps(self, other: Budget) -> Budget:
        """Return a budget with the smaller value of each cap, so that it keeps within both budgets."""
        if not other:
            return self
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in CAP_NAMES}
        smallest = {name: min((cap for cap in pair if cap is not None), default=None) for name, pair in pairs.items()}
        return Budget(**smallest, is_unlimited=self.is_unlimited)

    def with_defaults(self, other: Budget) -> Budget:
        """Return this budget, with the other's caps where this one has none."""
        return Budget(**(other.as_json() | self.as_json()), is_unlimited=self.is_unlimited)

    def as_json(self) -> dict[str, Any]:
        """Return the caps that are set, by name."""
        return {name: cap for name in CAP_NAMES if (cap := getattr(self, name)) is not None}

    @classmethod
    def from_json(cls, data: object) -> Budget:
        """Return the budget of an object with these names. Raises UsageError for another name, and for a value that is
        no cap."""
        if not isinstance(data, Mapping):
            raise UsageError("usage", f"a budget is an object of caps, such as {{'tokens': 50000}}, not {data!r:.60}")
        caps = cast("Mapping[str, Any]", data)
        for name, cap in caps.items():
            if name not in CAP_NAMES:
                do = did_you_mean(str(name), CAP_NAMES, [f"there are {', '.join(CAP_NAMES)}"])
                raise UsageError("usage", f"there is no cap {str(name)[:60]!r}", do=do)
            if name in _INTEGER_CAPS and cap is not None and (not isinstance(cap, int) or isinstance(cap, bool)):
                raise UsageError("usage", f"a cap on {name} is a whole number above 0, not {cap!r:.60}")
        return cls(**{name: cap for name, cap in caps.items() if cap is not None})


CAP_NAMES = ("usd", "tokens", "turns", "minutes", "calls")
"""The names of all caps."""

NO_CAPS = Budget()
