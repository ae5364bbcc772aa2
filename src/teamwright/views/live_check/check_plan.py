"""The plan of a live check: its requests, their address and approximate price, known before sending.

Depends on the construction and prices of requests. Sends nothing but a query for a local server's window.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, cast

from teamwright.models.endpoint import Endpoint
from teamwright.models.model import ModelCard, Prefix, Request, price_usage
from teamwright.models.model_names import resolve_model
from teamwright.models.model_settings import ModelSettings
from teamwright.models.prefix_builder import build_prefix
from teamwright.protocol.errors import UsageError
from teamwright.protocol.messages import encode, text_block
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass

TOOL = "report"
CACHED_BYTES = 26_000
"""Bytes of system prompt for services with a cache, which documents caching from 1,024 or 4,096 tokens on."""

LONG_BYTES = 33_000
"""Bytes of the second prompt, for servers that may truncate it: at least a member's prefix before its first task."""

LONGER_BYTES = 4_200
"""Bytes added for the third prompt: enough for the server's token count to change if it read all."""

ANSWER_TOKENS = 300
"""Maximum output tokens of one answer in the estimate; a thinking model may need more."""

_TOOL = {
    "name": TOOL,
    "description": "Takes a word and a number.",
    "input_schema": {
        "type": "object",
        "properties": {"word": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["word", "count"],
    },
}
_ASK = f'First write the word "Ready." Then call the tool {TOOL} once, with word "ready" and count 7.'
_SYSTEM = "You are being tried: do exactly what the user asks, in as few words as you can."
_MAY_CUT = frozenset({"ollama", "lmstudio", "llamacpp", "vllm", "sglang"})


@dataclass(frozen=True, slots=True)
class LiveCheckPlan:
    """The live check of one model: its requests by purpose. `about_usd` is None for an unknown price.

    `cached`: the first request is repeated to test the cache. `long` are prompts that the server must read completely.
    """

    card: ModelCard
    endpoint: Endpoint
    first: Request
    cached: bool
    long: tuple[Request, ...] = field(default=())

    @property
    def requests(self) -> int:
        """The number of requests when no check fails."""
        return 1 + self.cached + len(self.long)

    @property
    def about_tokens(self) -> int:
        """The tokens of all prompts, estimated as bytes / 4."""
        return sum(_tokens(one) for one in self._all)

    @property
    def about_usd(self) -> float | None:
        """The highest cost by the price list, without cache reads."""
        total = Usage()
        for one in self._all:
            read = _tokens(one)
            used = Usage(0, ANSWER_TOKENS, 0, read, 1) if self.cached else Usage(read, ANSWER_TOKENS, 0, 0, 1)
            total += price_usage(self.card, used)
        return total.usd

    @property
    def _all(self) -> tuple[Request, ...]:
        return (self.first, *([self.first] if self.cached else ()), *self.long)


def plan_live_check(name: str | None, env: Mapping[str, str], settings: ModelSettings) -> LiveCheckPlan:
    """Return the live check of the model of that name (None: the run's model).

    Raises CannotStart (`no-model`, `unknown-model`) as a run does, UsageError for a script, which is not a service.
    """
    wanted = name or settings.model
    if wanted is not None and wanted.startswith("scripted:"):
        raise UsageError(
            "usage",
            "a script is played here: there is no service to try",
            looked_at=[("model", wanted[:80])],
            do=["teamwright doctor --live --model NAME"],
            note="nothing was sent",
        )
    card, endpoint = resolve_model(name, env, settings)
    system = _SYSTEM + (f"\n\n{_filler(CACHED_BYTES)}" if card.caching else "")
    prefix = build_prefix(card, _small(settings), [text_block(system)], [_TOOL])
    may_cut = endpoint.provider in _MAY_CUT or endpoint.provider in settings.custom
    asks = [_said(_ASK)]
    return LiveCheckPlan(card, endpoint, _request(prefix, asks), card.caching, tuple(_long(prefix)) if may_cut else ())


def live_check_settings(settings: ModelSettings) -> ModelSettings:
    """Return the settings for a live check, without retries, so that every failure is reported."""
    return replace(_small(settings), retries=0, cache_warmup_s=0.0)


def _small(settings: ModelSettings) -> ModelSettings:
    most = settings.max_output_tokens
    return replace(settings, max_output_tokens=min(most or 4_000, 4_000))


def _long(prefix: Prefix) -> list[Request]:
    long = _said(f"{_filler(LONG_BYTES)}\n\nAnswer with the word: yes.")
    longer = _said(f"{_filler(LONGER_BYTES)}\n\nAnswer with the word: yes.")
    answer = encode({"role": "assistant", "content": [text_block("Yes.")]})
    return [_request(prefix, [long]), _request(prefix, [long, answer, longer])]


def _request(prefix: Prefix, items: Sequence[bytes]) -> Request:
    return Request(prefix, items, agent_name="doctor")


def _said(text: str) -> bytes:
    return encode({"role": "user", "content": [text_block(text)]})


def _filler(size: int) -> str:
    """Return filler text of about this many bytes, always the same."""
    lines: list[str] = []
    left = size
    while left > 0:
        lines.append(f"Line {len(lines) + 1} of a text that only takes room; nothing in it matters for the answer.")
        left -= len(lines[-1]) + 1
    return "\n".join(lines)


def _tokens(request: Request) -> int:
    return (len(request.prefix.head) + sum(map(len, request.items))) // 4


def arguments_of(given: object) -> str:
    """Return the fault in the arguments of a call; empty for valid ones. Numbers as text are accepted."""
    row = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if not isinstance(given, dict) or "unparsed_arguments" in row:
        return f"its arguments are not JSON: {json.dumps(given)[:120]}"
    if not isinstance(row.get("word"), str) or not str(row.get("count")).strip().isdigit():
        return f"its arguments do not fit the schema: {json.dumps(given)[:120]}"
    return ""
