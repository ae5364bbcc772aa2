"""What a trial would send, where, and roughly at which price: known before anything is sent.

Knows how requests are built and priced; opens no connection but to ask a local server for its window.
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
"""Bytes of system prompt where the service has a cache: each is said to keep prompts from 1,024 or 4,096 tokens on."""

LONG_BYTES = 33_000
"""Bytes of the second prompt where the server may cut it: what a member has before its first task, or more."""

LONGER_BYTES = 4_200
"""What is added for the third: more than must be added before a report that stands still means anything."""

ANSWER_TOKENS = 300
"""Output of one answer at most, as far as the estimate goes; a model that thinks may need more."""

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
    """The trial of one model: its requests by what they show. `about_usd` is None where the price is unknown.

    `cached`: the first request is sent again, to see it read from a cache; `long` are prompts of which the server
    must read all.
    """

    card: ModelCard
    endpoint: Endpoint
    first: Request
    cached: bool
    long: tuple[Request, ...] = field(default=())

    @property
    def requests(self) -> int:
        """How many requests are sent if all goes well."""
        return 1 + self.cached + len(self.long)

    @property
    def about_tokens(self) -> int:
        """Tokens of all prompts, by bytes / 4."""
        return sum(_tokens(one) for one in self._all)

    @property
    def about_usd(self) -> float | None:
        """Roughly what it costs, at most, by the price list: nothing is taken as read from a cache."""
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
    """The trial of the model of that name (None: the one that a run would use).

    Raises CannotStart (`no-model`, `unknown-model`) as a run does, UsageError for a script, which is no service.
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
    """The settings for a trial: nothing is tried again, so that what happens is what is told."""
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
    """Plain words of about so many bytes, the same each time."""
    lines: list[str] = []
    left = size
    while left > 0:
        lines.append(f"Line {len(lines) + 1} of a text that only takes room; nothing in it matters for the answer.")
        left -= len(lines[-1]) + 1
    return "\n".join(lines)


def _tokens(request: Request) -> int:
    return (len(request.prefix.head) + sum(map(len, request.items))) // 4


def arguments_of(given: object) -> str:
    """What is wrong with the arguments of a call; empty when they fit. A number that came as text is read too."""
    row = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if not isinstance(given, dict) or "unparsed_arguments" in row:
        return f"its arguments are not JSON: {json.dumps(given)[:120]}"
    if not isinstance(row.get("word"), str) or not str(row.get("count")).strip().isdigit():
        return f"its arguments do not fit the schema: {json.dumps(given)[:120]}"
    return ""
