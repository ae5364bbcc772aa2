"""The live check of a model: small requests that test each feature that a team needs.

The plan has the requests, their address and approximate price, known before sending. The order of the checks is:
reached, key, model, answer, tool call, cache, window, prompt. Checks after a failure are skipped. Depends on the
contract of a model, and on the construction and prices of requests.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.models.endpoint import Endpoint
from teamwright.models.local_servers import RECOMMENDED_WINDOW, widen_command
from teamwright.models.model import (
    Failure,
    Model,
    ModelCard,
    Part,
    Prefix,
    Reply,
    Request,
    TextPart,
    ThinkingPart,
    price_usage,
)
from teamwright.models.model_pool import ModelPool
from teamwright.models.model_server_queries import ask_server
from teamwright.models.model_settings import ModelSettings
from teamwright.models.names import is_known_id, is_set, resolve_model
from teamwright.models.request_prefix import build_prefix
from teamwright.protocol.errors import UsageError
from teamwright.protocol.messages import encode, text_block, tool_calls
from teamwright.protocol.usage import Usage

TOOL = "report"
CACHED_BYTES = 26_000
"""Bytes of system prompt for services with a cache, which documents caching from 1,024 or 4,096 tokens on."""

LONG_BYTES = 33_000
"""Bytes of the second prompt, for servers that may truncate it: at least a member's prefix before its first task."""

LONGER_BYTES = 4_200
"""Bytes added for the third prompt: enough for the server's token count to change if it read all."""

LEAST_BYTES_PER_TOKEN = 3
"""The bytes that a token of the filler text has at least, in tokenizers of small models too."""

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


class LiveCheckPlan(Struct, frozen=True):
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
    return _plan(card, endpoint, settings)


def _plan(card: ModelCard, endpoint: Endpoint, settings: ModelSettings) -> LiveCheckPlan:
    """Return the requests for this model, each of which leaves room in its window for any tokenizer."""
    room = card.context_tokens // 2 * LEAST_BYTES_PER_TOKEN
    cached = min(CACHED_BYTES, room // 2) if card.caching else 0
    system = _SYSTEM + (f"\n\n{_filler(cached)}" if cached else "")
    short = _small(settings, card.context_tokens // 8)
    prefix = build_prefix(card, short, [text_block(system)], [_TOOL])
    may_cut = endpoint.provider in _MAY_CUT or endpoint.provider in settings.custom
    long = _long(prefix, min(LONG_BYTES, room - cached), min(LONGER_BYTES, room // 3)) if may_cut else []
    return LiveCheckPlan(card, endpoint, _request(prefix, [_user_message(_ASK)]), card.caching, tuple(long))


def live_check_settings(settings: ModelSettings) -> ModelSettings:
    """Return the settings for a live check, without retries, so that every failure is reported."""
    return replace(_small(settings), retries=0, cache_warmup_s=0.0)


def _small(settings: ModelSettings, most: int = 4_000) -> ModelSettings:
    return replace(settings, max_output_tokens=min(settings.max_output_tokens or 4_000, 4_000, most))


def _long(prefix: Prefix, size: int, added: int) -> list[Request]:
    long = _user_message(f"{_filler(size)}\n\nAnswer with the word: yes.")
    longer = _user_message(f"{_filler(added)}\n\nAnswer with the word: yes.")
    answer = encode({"role": "assistant", "content": [text_block("Yes.")]})
    return [_request(prefix, [long]), _request(prefix, [long, answer, longer])]


def _request(prefix: Prefix, items: Sequence[bytes]) -> Request:
    return Request(prefix, items, agent_name="doctor")


def _user_message(text: str) -> bytes:
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
    return (request.prefix.size + sum(map(len, request.items))) // 4


def arguments_of(arguments: object) -> str:
    """Return the fault in the arguments of a call; empty for valid ones. Numbers as text are accepted."""
    row = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
    if not isinstance(arguments, dict) or "unparsed_arguments" in row:
        return f"its arguments are not JSON: {json.dumps(arguments)[:120]}"
    if not isinstance(row.get("word"), str) or not str(row.get("count")).strip().isdigit():
        return f"its arguments do not fit the schema: {json.dumps(arguments)[:120]}"
    return ""


State: TypeAlias = Literal["ok", "failed", "not offered", "not seen", "not tried"]
"""The state of a check. `not seen`: an optional feature that did not show."""

LABELS = ("reached", "key", "model", "answer", "first token", "tool call", "cache", "window", "whole prompt")

_BROKEN_BY = {"no-network": "reached", "wrong-key": "key", "no-access": "key", "unknown-model": "model"}
"""The check to which a failure of the first request belongs; other failures belong to the answer."""

_PROMISED = frozenset({"messages", "bedrock"})
"""APIs in which Teamwright marks the part to cache; with others the service decides."""


class LiveCheckResult(Struct, frozen=True):
    """One check: its state, and what was seen or why it failed; `do` is the advice."""

    label: str
    state: State
    value: str = ""
    do: str = ""


class LiveCheck(Struct):
    """The results of the checks, in the order of LABELS, and the usage."""

    checks: list[LiveCheckResult] = field(default_factory=list[LiveCheckResult])
    usage: Usage = field(default_factory=Usage)
    cached_of: tuple[int, int] = (0, 0)
    """The most tokens of a prompt that came from a cache, and the tokens of that prompt."""

    @property
    def ok(self) -> bool:
        """True when no check failed."""
        return all(check.state != "failed" for check in self.checks)

    def add(self, label: str, state: State, value: str = "", do: str = "") -> None:
        self.checks.append(LiveCheckResult(label, state, value, do))

    def complete(self) -> LiveCheck:
        """Add the checks that were skipped."""
        known = {check.label for check in self.checks}
        self.checks += [LiveCheckResult(label, "not tried") for label in LABELS if label not in known]
        self.checks.sort(key=lambda check: LABELS.index(check.label))
        return self


class _TimedAnswer(Struct):
    """One answer: its end, and the seconds until its first part (None: no part arrived)."""

    last: Reply | Failure
    first_s: float | None
    whole_s: float
    pieces: int


async def perform_live_check(
    plan: LiveCheckPlan, name: str | None, env: Mapping[str, str], settings: ModelSettings
) -> LiveCheck:
    """Send the requests of the plan and return the results. A failure is a result and is never raised."""
    trial = LiveCheck()
    async with ModelPool() as pool:
        model = await pool.open_model(name, env, live_check_settings(settings))
        plan = _plan(model.card, plan.endpoint, settings)  # the server has said how large its window is
        heard = await _ask(model, plan.first, trial)
        if isinstance(heard.last, Failure):
            _broken(trial, plan, heard.last)
            return trial.complete()
        _answered(trial, plan, heard, heard.last)
        await _window(trial, plan, settings)
        await _whole_prompt(trial, model, plan)
        await _cache(trial, model, plan)
    return trial.complete()


async def _ask(model: Model, request: Request, trial: LiveCheck) -> _TimedAnswer:
    began = time.monotonic()
    first_s: float | None = None
    pieces = 0
    last: Reply | Failure = Failure("model-failed", "the answer had no end")
    stream: AsyncGenerator[Part, None] = model.stream(request)
    async with aclosing(stream) as parts:
        async for part in parts:
            if isinstance(part, TextPart | ThinkingPart):
                pieces += 1
                first_s = time.monotonic() - began if first_s is None else first_s
            elif isinstance(part, Reply | Failure):
                last = part
    trial.usage += last.failed_usage + (last.usage if isinstance(last, Reply) else Usage())
    if isinstance(last, Reply):
        trial.cached_of = max(trial.cached_of, (last.usage.cache_read, last.usage.prompt_tokens))
    return _TimedAnswer(last, first_s, time.monotonic() - began, pieces)


def _broken(trial: LiveCheck, plan: LiveCheckPlan, failure: Failure) -> None:
    """Add the check that the first request's failure belongs to, and the checks that it shows to be right."""
    label = _BROKEN_BY.get(failure.slug, "answer")
    if label in ("key", "model"):
        trial.add("reached", "ok")
    if label == "model":
        trial.add("key", "ok", "accepted")
    trial.add(label, "failed", _why(failure), _advice(plan, failure))


def _advice(plan: LiveCheckPlan, failure: Failure) -> str:
    """Return what to do. A prompt of the check that does not fit needs a larger window: nothing can be compacted."""
    if failure.slug == "context-full":
        return widen_command(plan.endpoint.provider, plan.card.wire, RECOMMENDED_WINDOW // 2)
    return failure.do[0] if failure.do else ""


def _why(failure: Failure) -> str:
    facts = [f"{name} {value}" for name, value in failure.looked_at if name not in ("model", "request")]
    return failure.what + (f" ({'; '.join(facts)})" if facts else "")


def _answered(trial: LiveCheck, plan: LiveCheckPlan, heard: _TimedAnswer, reply: Reply) -> None:
    trial.add("reached", "ok", plan.endpoint.display_address)
    trial.add("key", "ok", "accepted" if plan.endpoint.has_key else "none was asked for")
    trial.add("model", "ok", reply.model)
    pieces = f"streamed in {heard.pieces} pieces" if heard.pieces > 1 else "streamed"
    trial.add("answer", "ok", f"{pieces}, whole after {heard.whole_s:.2f} s; {_used(reply.usage)}")
    if heard.first_s is None:
        trial.add("first token", "not seen", "it answered with the call alone, which shows when it is whole")
    else:
        trial.add("first token", "ok", f"after {heard.first_s:.2f} s")
    _tool_call(trial, reply)


def _used(usage: Usage) -> str:
    cached = f", {usage.cache_read:,} of them cached" if usage.cache_read else ""
    return f"{usage.prompt_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"


def _tool_call(trial: LiveCheck, reply: Reply) -> None:
    calls = tool_calls(reply.content)
    if not calls:
        why = "it answered in words and called no tool: agents cannot work with it"
        trial.add("tool call", "failed", why, "choose a model that is made for tools")
        return
    call = calls[0]
    wrong = f'it called "{call.name[:60]}", which there is not' if call.name != TOOL else arguments_of(call.input)
    if wrong:
        trial.add("tool call", "failed", wrong, "choose a model that is made for tools")
    else:
        trial.add("tool call", "ok", "well formed" + (f", {len(calls)} times" if len(calls) > 1 else ""))


async def _window(trial: LiveCheck, plan: LiveCheckPlan, settings: ModelSettings) -> None:
    """Add the check of the window, with its source."""
    card = plan.card
    endpoint = plan.endpoint
    window = (await asyncio.to_thread(ask_server, endpoint, card.wire)).window
    if is_set(card, "context_tokens"):
        trial.add("window", "ok", f"{card.context_tokens:,} tokens, by your settings")
    elif window:
        small = window < RECOMMENDED_WINDOW // 2
        widen = widen_command(endpoint.provider, card.wire, window // 2) if small else ""
        trial.add("window", "ok", f"{window:,} tokens, reported by the server" + (": little" if small else ""), widen)
    elif is_known_id(card.provider, card.wire):
        trial.add("window", "ok", f"{card.context_tokens:,} tokens, by its documentation")
    else:
        assumed = f"it reports none; {card.context_tokens:,} tokens are assumed"
        trial.add("window", "not seen", assumed, 'set "context_tokens" in your settings')


async def _cache(trial: LiveCheck, model: Model, plan: LiveCheckPlan) -> None:
    read, whole = trial.cached_of
    if not plan.cached and read:
        trial.add("cache", "ok", f"the server reads from its own: up to {read:,} of {whole:,} tokens")
        return
    if not plan.cached:
        trial.add("cache", "not offered", f"{plan.endpoint.provider} has none that we use")
        return
    heard = await _ask(model, plan.first, trial)
    if isinstance(heard.last, Failure):
        trial.add("cache", "failed", _why(heard.last))
    elif heard.last.usage.cache_read:
        read = heard.last.usage.cache_read
        whole = heard.last.usage.prompt_tokens
        trial.add("cache", "ok", f"{read:,} of {whole:,} tokens were read from it the second time")
    else:
        promised = plan.endpoint.api in _PROMISED
        why = f"nothing of {heard.last.usage.prompt_tokens:,} tokens was read from it the second time"
        trial.add("cache", "failed" if promised else "not seen", why)


async def _whole_prompt(trial: LiveCheck, model: Model, plan: LiveCheckPlan) -> None:
    """Add the check with growing prompts: the adapter compares them with the tokens that the server read."""
    if not plan.long:
        trial.add("whole prompt", "not offered", "this service refuses what does not fit; it does not cut")
        return
    read = 0
    for request in plan.long:
        heard = await _ask(model, request, trial)
        if isinstance(heard.last, Failure):
            trial.add("whole prompt", "failed", _why(heard.last), _advice(plan, heard.last))
            return
        read = heard.last.usage.prompt_tokens
    if read:
        trial.add("whole prompt", "ok", f"it read {read:,} tokens of the longest one")
    else:
        trial.add("whole prompt", "not seen", "it does not say how many tokens it read")
