"""The plan of a live check: its requests, and the most that each of them may cost.

The ceiling is known before anything is sent, and `Ceiling` keeps it: a request is sent if it was planned and what is
left pays for its longest prompt and its longest answer. Depends on the construction and prices of requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.models.effort import LEVELS
from teamwright.models.endpoint import Endpoint
from teamwright.models.model import ModelCard, Request, price_usage
from teamwright.models.model_settings import ModelSettings, Thinking
from teamwright.models.names import resolve_model
from teamwright.models.provider_table import PROVIDERS
from teamwright.models.request_prefix import build_prefix
from teamwright.models.token_estimate import answer_tokens
from teamwright.protocol.errors import UsageError
from teamwright.protocol.messages import Block, encode, text_block, tool_result_block
from teamwright.protocol.usage import Usage

Purpose: TypeAlias = Literal["calls", "results", "schema", "limit", "error", "long", "longer"]
"""What a request tests: an answer with calls, the answer to their results, an answer by a schema, the limit of an
answer, an unknown model, and prompts that the server must read completely.
"""

TOOL = "report"
UNKNOWN_MODEL = "teamwright-no-such-model"
RESULT_WORD = "zinnia"
"""The word that a tool's result has, and that the answer to it must repeat."""

SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {"word": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["word", "count"],
    "additionalProperties": False,
}

USD_AIM = 0.02
"""The money that the check may cost where the price allows it: the prompt for the cache is as long as it pays for."""

USD_UNASKED = 0.05
"""The highest ceiling that needs no question."""

CACHED_WORDS = (800, 4_300)
"""The words of a system prompt for services with a cache, at least and at most. Together with the service's own text
for tools the first is above 1,024 tokens and the second above 4,096: models cache nothing that is shorter.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching (seen 2026-11-30)
"""

TOKENS_PER_WORD = 1.2
"""The most tokens of a filler word: all are so common that tokenizers have them whole."""

BYTES_PER_TOKEN = 3
"""The fewest bytes of a token of the other texts, in tokenizers of small models too."""

RESULTS_TOKENS = 120
"""The tokens of the results of two calls, and of what comes with them."""

SCHEMA_TOKENS = 80
"""The tokens of the schema."""

TOOL_TOKENS = 350
"""Tokens that a service adds to a prompt with tools.
https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview (seen 2026-11-30)
"""

ANSWER_TOKENS: Mapping[Purpose, int] = {
    "calls": 170,
    "results": 32,
    "schema": 80,
    "limit": 32,
    "error": 16,
    "long": 32,
    "longer": 32,
}
"""The longest answers in tokens, thinking included. That with calls is longer where the price allows it."""

CALLS_USD = 0.0026
"""The money for the longest answer with calls."""

CALLS_MOST = 1_000

FREE_ANSWER = 2_000
"""The longest answer of a model that costs nothing."""

LONG_BYTES = 33_000
"""Bytes of the first long prompt, for servers that may truncate it: a member's prefix before its first task."""

LONGER_BYTES = 4_200
"""Bytes added for the second one: enough for the server's token count to change if it read all."""

_MAY_CUT = frozenset({"ollama", "lmstudio", "llamacpp", "vllm", "sglang"})
_WORDS = ("the", "of", "and", "to", "in", "is", "for", "on", "with", "that", "as", "by", "from", "at")
_SYSTEM = "This is a test. Do exactly what the user asks, in as few words as you can."
_ASK = (
    f'First write the word "Ready." Then call the tool {TOOL} twice in the same answer: with word "ready" and count 7, '
    'and with word "steady" and count 8.'
)
_TOOL = {"name": TOOL, "description": "Takes a word and a number, and returns a word.", "input_schema": SCHEMA}


class PlannedRequest(Struct, frozen=True):
    """A request, and the most tokens that it may read and write."""

    purpose: Purpose
    card: ModelCard
    request: Request
    prompt_tokens: int
    answer_tokens: int

    @property
    def most(self) -> Usage:
        """The highest usage, with money: nothing of the prompt is read from a cache, and all of it is written to one if
        that costs more.
        """
        fresh = Usage(self.prompt_tokens, self.answer_tokens, requests=1)
        written = Usage(0, self.answer_tokens, cache_write=self.prompt_tokens, requests=1)
        priced = [price_usage(self.card, one) for one in ((fresh, written) if self.card.caching else (fresh,))]
        return max(priced, key=lambda usage: usage.usd or 0.0)


class LiveCheckPlan(Struct, frozen=True):
    """The live check of one model."""

    card: ModelCard
    endpoint: Endpoint
    planned: tuple[PlannedRequest, ...]

    def request_for(self, purpose: Purpose) -> PlannedRequest:
        """Return the request of this purpose; every check has it but for `long` and `longer`."""
        return next(one for one in self.planned if one.purpose == purpose)

    @property
    def ceiling(self) -> Usage:
        """The most that the check uses. Its money is None where the price is unknown: then the tokens are the limit."""
        return sum((one.most for one in self.planned), Usage())

    @property
    def needs_consent(self) -> bool:
        """True when a person must say yes first: it may cost more than `USD_UNASKED`, or its price is not known."""
        usd = self.ceiling.usd
        return usd is None or usd > USD_UNASKED

    @property
    def has_public_address(self) -> bool:
        """True when the address is the provider's own, as everybody uses it."""
        provider = PROVIDERS.get(self.endpoint.provider)
        return provider is not None and provider.base_url == self.endpoint.base_url


class Ceiling:
    """The rest that the check may use, in money; in tokens where the price is unknown.

    A request takes its most, and gives back what the service did not count. A service that counts more than was asked
    for takes that from the later requests.
    """

    def __init__(self, plan: LiveCheckPlan) -> None:
        self._in_money = plan.ceiling.usd is not None
        self._left = self._cost(plan.ceiling)
        self._open = 0

    def _cost(self, usage: Usage) -> float:
        return usage.usd or 0.0 if self._in_money else usage.tokens

    def take(self, planned: PlannedRequest) -> bool:
        """Take the most of a request, and permit one request to be sent. Returns False when it is more than is left."""
        cost = self._cost(planned.most)
        if cost > self._left * (1 + 1e-9):
            return False
        self._left -= cost
        self._open = 1
        return True

    def may_send(self) -> bool:
        """Return True once for each request that was taken: a repeated one is not."""
        may, self._open = self._open > 0, 0
        return may

    def settle(self, planned: PlannedRequest, used: Usage) -> None:
        """Give back the difference to what the service counted; nothing where it did not count."""
        self._open = 0
        if used.tokens:
            self._left += self._cost(planned.most) - self._cost(price_usage(planned.card, used))


def plan_live_check(name: str | None, env: Mapping[str, str], settings: ModelSettings) -> LiveCheckPlan:
    """Return the live check of the model of that name (None: the run's model).

    Raises CannotStart (`no-model`, `unknown-model`) as a run does, UsageError for a script, which is not a service.
    """
    model = name or settings.model
    if model is not None and model.startswith("scripted:"):
        raise UsageError(
            "usage",
            "a script is played here: there is no service to try",
            looked_at=[("model", model[:80])],
            do=["teamwright doctor --live --model NAME"],
            note="nothing was sent",
        )
    card, endpoint = resolve_model(name, env, settings)
    return plan_requests(card, endpoint, settings)


def plan_requests(card: ModelCard, endpoint: Endpoint, settings: ModelSettings) -> LiveCheckPlan:
    """Return the requests for this model. Each leaves room in its window for any tokenizer."""
    planned = _without_filler(card, settings)
    if card.caching:
        words = _cached_words(LiveCheckPlan(card, endpoint, tuple(planned)))
        planned[:2] = _calls_and_results(card, settings, min(words, card.context_tokens // 8))
    may_cut = endpoint.provider in _MAY_CUT or endpoint.provider in settings.custom
    if may_cut and (card.usd_in == 0 or (card.usd_in is None and endpoint.own)):
        planned += _long(card, settings)
    return LiveCheckPlan(card, endpoint, tuple(planned))


def live_check_settings(settings: ModelSettings) -> ModelSettings:
    """Return the settings for a live check, without retries, so that every failure is reported."""
    return replace(settings, retries=0, cache_warmup_s=0.0)


def _without_filler(card: ModelCard, settings: ModelSettings) -> list[PlannedRequest]:
    alone, unknown = replace(card, caching=False), replace(card, caching=False, wire=UNKNOWN_MODEL)
    return [
        *_calls_and_results(card, settings, 0),
        _planned(
            "schema", alone, settings, 'Give the word "ready" and the count 7.', tool_tokens=TOOL_TOKENS + SCHEMA_TOKENS
        ),
        # A model that thinks does so here, where nothing else depends on the few tokens that an answer has.
        _planned("limit", alone, settings, "Write all numbers from 1 to 500, each as a word.", thinking="adaptive"),
        _planned("error", unknown, settings, "Hello"),
    ]


def _calls_and_results(card: ModelCard, settings: ModelSettings, words: int) -> list[PlannedRequest]:
    """Return the two requests of one conversation, whose system prompt has so many words of filler."""
    filler = f"Skip these words: {filler_words(words)}" if words else ""
    add = int(words * TOKENS_PER_WORD) + TOOL_TOKENS - len(filler) // BYTES_PER_TOKEN
    calls = _planned("calls", card, settings, _ASK, system=filler, tools=True, tool_tokens=add)
    results = _planned("results", card, settings, _ASK, system=filler, tools=True, tool_tokens=add)
    return [calls, replace(results, prompt_tokens=results.prompt_tokens + calls.answer_tokens + RESULTS_TOKENS)]


def _long(card: ModelCard, settings: ModelSettings) -> list[PlannedRequest]:
    room = card.context_tokens // 2 * BYTES_PER_TOKEN
    long = f"{_filler_lines(min(LONG_BYTES, room))}\n\nAnswer with the word: yes."
    longer = f"{_filler_lines(min(LONGER_BYTES, room // 3))}\n\nAnswer with the word: yes."
    first = _planned("long", card, settings, long, tools=True, tool_tokens=TOOL_TOKENS)
    items = [*first.request.items, encode({"role": "assistant", "content": [text_block("Yes.")]}), _user(longer)]
    second = replace(first, purpose="longer", request=replace(first.request, items=items))
    return [first, replace(second, prompt_tokens=_prompt_tokens(second.request) + TOOL_TOKENS)]


def _planned(
    purpose: Purpose,
    card: ModelCard,
    settings: ModelSettings,
    text: str,
    *,
    system: str = "",
    tools: bool = False,
    tool_tokens: int = 0,
    thinking: Thinking = "off",
) -> PlannedRequest:
    """Return a request of one message. `tool_tokens` are added to the estimate by bytes."""
    most = min(_answer_tokens(purpose, card), card.context_tokens // 8)
    known = [level for level in LEVELS if level in card.efforts]
    prefix = build_prefix(
        card,
        replace(settings, max_output_tokens=most, thinking=thinking),
        [text_block(f"{_SYSTEM} {system}".strip())],
        [_TOOL] if tools else [],
        effort=known[0] if known and thinking == "off" else None,
    )
    request = Request(prefix, [_user(text)], agent_name="doctor")
    return PlannedRequest(purpose, card, request, _prompt_tokens(request) + tool_tokens, answer_tokens(prefix, most))


def _answer_tokens(purpose: Purpose, card: ModelCard) -> int:
    if purpose not in ("calls", "results"):
        return ANSWER_TOKENS[purpose]
    if card.usd_out == 0:
        return FREE_ANSWER
    if purpose == "results" or not card.usd_out:
        return ANSWER_TOKENS[purpose]
    return max(ANSWER_TOKENS[purpose], min(CALLS_MOST, int(CALLS_USD / card.usd_out * 1_000_000)))


def _prompt_tokens(request: Request) -> int:
    return (request.prefix.size + sum(map(len, request.items))) // BYTES_PER_TOKEN


def _cached_words(plan: LiveCheckPlan) -> int:
    """Return the words of filler that `USD_AIM` pays for, twice."""
    least, most = CACHED_WORDS
    usd = plan.ceiling.usd
    two = sum((price_usage(plan.card, Usage(cache_write=1_000)) for _ in range(2)), Usage()).usd
    if usd is None or not two:
        return least if usd is None else most
    return max(least, min(most, int((USD_AIM - usd) / two * 1_000 / TOKENS_PER_WORD)))


def _user(text: str) -> bytes:
    return encode({"role": "user", "content": [text_block(text)]})


def filler_words(count: int) -> str:
    """Return filler of so many words, always the same."""
    return " ".join(_WORDS[at * at % 31 % len(_WORDS)] for at in range(count))


def _filler_lines(size: int) -> str:
    """Return filler text of about this many bytes, always the same."""
    lines: list[str] = []
    left = size
    while left > 0:
        lines.append(f"Line {len(lines) + 1} of a text that only takes room; nothing in it matters for the answer.")
        left -= len(lines[-1]) + 1
    return "\n".join(lines)


def results_request(results: PlannedRequest, content: Sequence[Block]) -> Request:
    """Return the request that continues the conversation with the results of the calls in an answer."""
    told = [
        *(
            tool_result_block(block["id"], f"The word is {RESULT_WORD}.")
            for block in content
            if block.get("type") == "tool_use"
        ),
        text_block("Answer with the word that the tool returned, and call no tool."),
    ]
    answer = encode({"role": "assistant", "content": list(content)})
    return replace(results.request, items=[*results.request.items, answer, encode({"role": "user", "content": told})])
