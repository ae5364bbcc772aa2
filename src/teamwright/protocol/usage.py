"""Usage: numbers of tokens and amounts of money, which can be added.

One value for a request, an agent, a task, a team. A sum with an unknown price is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

_NAMES = {
    "input_tokens": "input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "cache_read": "cache_read_input_tokens",
    "output_tokens": "output_tokens",
}
"""The ecosystem's names of the counts of one request."""


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
        return self.prompt_tokens + self.output_tokens

    def as_json(self) -> dict[str, int]:
        """Return the four counts under the ecosystem's names."""
        return {key: getattr(self, name) for name, key in _NAMES.items()}

    @classmethod
    def from_json(cls, counts: Mapping[str, Any]) -> Usage:
        """Read the counts of one request that a transcript has: those of `as_json`, and `usd`.

        Raises TypeError, ValueError.
        """
        read = {name: int(counts.get(key, 0)) for name, key in _NAMES.items()}
        return cls(**read, requests=1, usd=counts.get("usd"))

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
