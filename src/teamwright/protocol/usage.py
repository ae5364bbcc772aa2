"""Tokens and money that were used, and budgets: the caps on them, each as one value.

A usage belongs to a request, an agent, a task or a team, and can be added; a sum with an unknown price is unknown. A
budget is the same value in flags, settings, the Python API, task metadata and team files. `budgets` counts and
enforces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import did_you_mean


class Usage(Struct, frozen=True):
    """Tokens and money of one or many requests.

    `input_tokens` are those not read from the cache and not written to it; `cache_read` and `cache_write` are counted
    separately (as the Messages API counts). `usd` is None as soon as the price of one part is unknown.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0
    requests: int = 0
    usd: float | None = 0.0
    cache_write_hour: int = 0
    """The part of `cache_write` that is cached for an hour, at a higher price."""

    def __add__(self, other: Usage) -> Usage:
        """Return the sum; unknown money makes the sum unknown."""
        if other is NO_USAGE:
            return self  # most additions are of nothing: failed attempts, calls outside the work
        if self is NO_USAGE:
            return other
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.requests + other.requests,
            usd,
            self.cache_write_hour + other.cache_write_hour,
        )

    @property
    def prompt_tokens(self) -> int:
        """All tokens of the prompt, cached or not."""
        return self.input_tokens + self.cache_read + self.cache_write

    @property
    def tokens(self) -> int:
        """All tokens, in and out."""
        return self.input_tokens + self.cache_read + self.cache_write + self.output_tokens

    def as_json(self) -> dict[str, int]:
        """Return the four counts under the ecosystem's names."""
        return {
            "input_tokens": self.input_tokens,
            "cache_creation_input_tokens": self.cache_write,
            "cache_read_input_tokens": self.cache_read,
            "output_tokens": self.output_tokens,
        }

    @classmethod
    def from_json(cls, counts: Mapping[str, Any]) -> Usage:
        """Read the counts of one request that a transcript has: those of `as_json`, and `usd`.

        Raises TypeError, ValueError.
        """
        return cls(
            input_tokens=int(counts.get("input_tokens", 0)),
            cache_write=int(counts.get("cache_creation_input_tokens", 0)),
            cache_read=int(counts.get("cache_read_input_tokens", 0)),
            output_tokens=int(counts.get("output_tokens", 0)),
            requests=1,
            usd=counts.get("usd"),
        )

    def as_priced_json(self) -> dict[str, Any]:
        """Return the counts with the number of requests and the money, as the event log contains them."""
        return {**self.as_json(), "requests": self.requests, "usd": self.usd}

    def __str__(self) -> str:
        """Return one line for people, e.g. `12,300 tokens in (9,000 cached), 410 out, 0.0123 USD`."""
        cached = f" ({self.cache_read:,} cached)" if self.cache_read else ""
        money = "price unknown" if self.usd is None else f"{self.usd:.4f} USD"
        return f"{self.prompt_tokens:,} tokens in{cached}, {self.output_tokens:,} out, {money}"


NO_USAGE = Usage()
"""The usage of nothing."""

CAP_NAMES = ("usd", "tokens", "turns", "minutes", "calls")
"""The names of all caps."""

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
            if value is None or (isinstance(value, kinds) and not isinstance(value, bool) and 0 < value < math.inf):
                continue
            number = "whole number" if name in _INTEGER_CAPS else "number"
            what = f"a cap on {name} is a {number} above 0, not {value!r}"
            do = ["None: no such cap", "Budget.unlimited()"] if value == math.inf else []
            raise UsageError("usage", what, do=do, note="nothing was started")

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


NO_CAPS = Budget()
