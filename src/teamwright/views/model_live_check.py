"""The live check of a model: small requests that test each feature that a team needs.

The plan (`live_check_plan`) has the requests and their ceiling, which `LimitedFormat` keeps for each HTTP request.
Every result is a check with one of the LABELS. After a failure of the first request the others are not sent. Depends
on the contract of a model.
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

from teamwright.models.local_servers import RECOMMENDED_WINDOW, widen_command
from teamwright.models.model import (
    AlivePart,
    Failure,
    Model,
    Part,
    Prefix,
    Reply,
    Request,
    Retrying,
    TextPart,
    ThinkingPart,
    UsagePart,
    price_usage,
)
from teamwright.models.model_pool import ModelPool, format_for
from teamwright.models.model_server_queries import ask_server
from teamwright.models.model_settings import ModelSettings
from teamwright.models.names import is_known_id, is_set, thinking_field
from teamwright.models.providers.anthropic_messages import MessagesFormat
from teamwright.models.providers.api_format import AnswerTranslator, ApiFormat, EventReader, OutgoingRequest
from teamwright.models.rate_limit import RateLimiter
from teamwright.models.service_error import ServiceError
from teamwright.models.service_model import ServiceModel
from teamwright.models.structured_answer import structured_prefix, structured_text
from teamwright.models.token_estimate import text_size, written_tokens
from teamwright.protocol.messages import message_text, tool_calls
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.usage import Usage
from teamwright.views.live_check_plan import (
    RESULT_WORD,
    SCHEMA,
    TOOL,
    Ceiling,
    LiveCheckPlan,
    PlannedRequest,
    live_check_settings,
    plan_requests,
    results_request,
)

ANSWER_S = 120.0
"""Seconds that one answer of a service may take."""

LOCAL_ANSWER_S = 600.0
"""The same for a local server, which may have to load the model."""

RUNAWAY_FACTOR = 2
"""An answer is cut at this multiple of the longest one that was asked for, estimated by bytes."""

RUNAWAY_TOKENS = 200
"""The same in tokens, for short ones."""

CACHED_ALWAYS = 4_096
"""Tokens of a prompt that every service with a cache caches. Many cache shorter ones."""

State: TypeAlias = Literal["ok", "failed", "not offered", "not seen", "not tried"]
"""The state of a check. `not seen`: an optional feature that did not show."""

LABELS = (
    "reached",
    "key",
    "model",
    "answer",
    "first token",
    "tool call",
    "two calls",
    "tool result",
    "cache",
    "thinking",
    "schema",
    "answer limit",
    "error",
    "rate limits",
    "window",
    "whole prompt",
)

_BROKEN_BY = {"no-network": "reached", "wrong-key": "key", "no-access": "key", "unknown-model": "model"}
"""The check to which a failure of the first request belongs; other failures belong to the answer."""

_PROMISED = frozenset({"messages", "bedrock"})
"""APIs in which Teamwright marks the part to cache; with others the service decides."""


def arguments_of(arguments: object) -> str:
    """Return the fault in the arguments of a call; empty for valid ones. Numbers as text are accepted."""
    row = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
    if not isinstance(arguments, dict) or "unparsed_arguments" in row:
        return f"its arguments are not JSON: {json.dumps(arguments)[:120]}"
    if not isinstance(row.get("word"), str) or not str(row.get("count")).strip().isdigit():
        return f"its arguments do not fit the schema: {json.dumps(arguments)[:120]}"
    return ""


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
    written: int = 0
    """The most tokens of a prompt that were written to a cache."""
    thought: bool = False
    """True when an answer showed thinking."""
    limits: tuple[tuple[str, str], ...] = ()
    """The headers about rate limits that the service sent."""

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


class TimedAnswer(Struct):
    """One answer: its end, and the seconds until its first part (None: no part arrived)."""

    last: Reply | Failure
    first_s: float | None = None
    whole_s: float = 0.0
    pieces: int = 0
    is_refused: bool = False
    """True when the request was not sent: the ceiling does not pay for it."""


class LimitedFormat:
    """An API format that sends one request for each that the ceiling has taken, and none besides. See `ApiFormat`."""

    def __init__(self, inner: ApiFormat, ceiling: Ceiling) -> None:
        self._inner = inner
        self._ceiling = ceiling

    async def build_request(self, prefix: Prefix, items: Sequence[bytes]) -> OutgoingRequest:
        """Return the request. Raises `ServiceError` for a second one."""
        if not self._ceiling.may_send():
            raise ServiceError("setup", "another request would cost more than the ceiling of this check")
        return await self._inner.build_request(prefix, items)

    def reader(self) -> EventReader:
        """Return a reader for one answer."""
        return self._inner.reader()

    def translator(self) -> AnswerTranslator:
        """Return a translator for one answer."""
        return self._inner.translator()


class LiveCheckRun:
    """A run of the check. Each request opens a new connection: on a reused one that was closed it would be repeated."""

    def __init__(self, plan: LiveCheckPlan, settings: ModelSettings, trial: LiveCheck) -> None:
        self.plan = plan
        self.trial = trial
        self._settings = settings
        self._ceiling = Ceiling(plan)

    def open_model(self, planned: PlannedRequest) -> ServiceModel:
        """Return the model for a request, which sends nothing that the ceiling has not taken."""
        endpoint = self.plan.endpoint
        inner = format_for(planned.card, endpoint) or MessagesFormat(endpoint, caching=planned.card.caching)
        return ServiceModel(
            planned.card,
            endpoint,
            rate_limiter=RateLimiter(),
            settings=self._settings,
            api_format=LimitedFormat(inner, self._ceiling),
        )

    async def ask(self, planned: PlannedRequest, request: Request | None = None) -> TimedAnswer:
        """Send a planned request, or what takes its place, and return its answer."""
        async with aclosing(self.open_model(planned)) as model:
            return await self.ask_model(model, planned, request or planned.request)

    async def ask_model(self, model: Model, planned: PlannedRequest, request: Request) -> TimedAnswer:
        """Send a planned request to this model."""
        if not self._ceiling.take(planned):
            return TimedAnswer(
                Failure("model-failed", "it would cost more than what is left of the ceiling"), is_refused=True
            )
        longest_s = LOCAL_ANSWER_S if self.plan.endpoint.is_local else ANSWER_S
        heard = _Heard(planned)
        try:
            async with time_limit(longest_s):
                await heard.listen(model.stream(request))
        except TimeoutError:
            heard.last = Failure("model-failed", f"the answer did not end within {longest_s:.0f} s")
        used = price_usage(planned.card, heard.usage)
        self._ceiling.settle(planned, used)
        self.trial.usage += used
        self.trial.thought |= heard.thought
        self.trial.written = max(self.trial.written, used.cache_write)
        if used.cache_read > self.trial.cached_of[0]:
            self.trial.cached_of = (used.cache_read, used.prompt_tokens)
        return heard.answer()


class _Heard:
    """The part of one answer that has come so far."""

    def __init__(self, planned: PlannedRequest) -> None:
        self._most = planned.answer_tokens
        self._began = time.monotonic()
        self._first_s: float | None = None
        self._pieces = 0
        self._size = 0
        self.usage = Usage()
        self.thought = False
        self.last: Reply | Failure = Failure("model-failed", "the answer had no end")

    async def listen(self, stream: AsyncGenerator[Part, None]) -> None:
        """Read the answer to its end, or until it is longer than what was asked for."""
        async with aclosing(stream) as parts:
            async for part in parts:
                self._take(part)
                if isinstance(part, Retrying):
                    self.last = Failure("model-failed", part.reason)
                    return
                if self._is_runaway:
                    self.last = Failure(
                        "model-failed", f"it wrote on after the {self._most:,} tokens that it was asked for"
                    )
                    return

    def _take(self, part: Part) -> None:
        if isinstance(part, TextPart | ThinkingPart):
            self._pieces += 1
            self._size += text_size(part.text)
            self.thought |= isinstance(part, ThinkingPart)
            self._first_s = time.monotonic() - self._began if self._first_s is None else self._first_s
        elif isinstance(part, AlivePart):
            self._size += part.size
        elif isinstance(part, UsagePart):
            self.usage = part.usage
        elif isinstance(part, Reply):
            self.last, self.usage = part, part.failed_usage + part.usage
        elif isinstance(part, Failure):
            self.last, self.usage = part, part.failed_usage

    @property
    def _is_runaway(self) -> bool:
        most = RUNAWAY_FACTOR * self._most + RUNAWAY_TOKENS
        return max(written_tokens(self._size), self.usage.output_tokens) > most and not isinstance(self.last, Reply)

    def answer(self) -> TimedAnswer:
        """Return the answer."""
        return TimedAnswer(self.last, self._first_s, time.monotonic() - self._began, self._pieces)


async def perform_live_check(
    stated: LiveCheckPlan, name: str | None, env: Mapping[str, str], settings: ModelSettings
) -> LiveCheck:
    """Send the requests of a plan, within its ceiling, and return the results. A failure is a result and is never
    raised.
    """
    trial = LiveCheck()
    settings = live_check_settings(settings)
    async with ModelPool() as pool:
        card = (await pool.open_model(name, env, settings)).card  # the server has said how large its window is
    run = LiveCheckRun(stated, settings, trial)
    run.plan = plan = plan_requests(card, stated.endpoint, settings)
    calls = plan.request_for("calls")
    heard = await run.ask(calls)
    if isinstance(heard.last, Failure):
        _broken(trial, plan, heard.last)
        return trial.complete()
    _answered(trial, plan, heard, heard.last)
    trial.limits = heard.last.limits
    _rate_limits(trial)
    await _window(trial, plan)
    await _results(run, heard.last)
    await _whole_prompt(run)
    await _schema(run)
    await _answer_limit(run)
    await _unknown_model(run)
    _thinking(trial, plan, settings)
    return trial.complete()


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


def _is_missing(run: LiveCheckRun, label: str, heard: TimedAnswer) -> bool:
    """Add the check of a request without an answer. Returns False when there is one."""
    if isinstance(heard.last, Reply):
        return False
    state: State = "not tried" if heard.is_refused else "failed"
    run.trial.add(label, state, _why(heard.last), _advice(run.plan, heard.last))
    return True


def _answered(trial: LiveCheck, plan: LiveCheckPlan, heard: TimedAnswer, reply: Reply) -> None:
    trial.add("reached", "ok", plan.endpoint.display_address)
    trial.add("key", "ok", "accepted" if plan.endpoint.has_key else "none was asked for")
    trial.add("model", "ok", reply.model)
    pieces = f"streamed in {heard.pieces} pieces" if heard.pieces > 1 else "streamed"
    trial.add("answer", "ok", f"{pieces}, whole after {heard.whole_s:.2f} s; {_used(reply.usage)}")
    if heard.first_s is None:
        trial.add("first token", "not seen", "it answered with the call alone, which shows when it is whole")
    else:
        trial.add("first token", "ok", f"after {heard.first_s:.2f} s")
    _tool_call(trial, plan, reply)


def _used(usage: Usage) -> str:
    cached = f", {usage.cache_read:,} of them cached" if usage.cache_read else ""
    return f"{usage.prompt_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"


def _tool_call(trial: LiveCheck, plan: LiveCheckPlan, reply: Reply) -> None:
    calls = tool_calls(reply.content)
    if not calls and reply.stop_reason == "max_tokens":
        trial.add("tool call", "not seen", f"its {reply.usage.output_tokens:,} tokens were used up before the call")
        return
    wrong = "it answered in words and called no tool: agents cannot work with it" if not calls else ""
    for call in calls:
        wrong = wrong or (
            f'it called "{call.name[:60]}", which there is not' if call.name != TOOL else arguments_of(call.input)
        )
    if wrong:
        trial.add("tool call", "failed", wrong, "choose a model that is made for tools")
        return
    trial.add("tool call", "ok", "well formed")
    if not plan.card.parallel:
        trial.add("two calls", "not offered", "your settings or the catalogue say one call at a time")
    elif len(calls) > 1:
        trial.add("two calls", "ok", f"{len(calls)} in one answer")
    else:
        trial.add("two calls", "not seen", "one call in the answer, where two were asked for")


async def _results(run: LiveCheckRun, reply: Reply) -> None:
    """Continue the conversation with the results of the calls, and look whether the prompt came from the cache."""
    if not tool_calls(reply.content):
        _cache(run, "no call came, so the prompt was not sent again")
        return
    planned = run.plan.request_for("results")
    heard = await run.ask(planned, results_request(planned, reply.content))
    if _is_missing(run, "tool result", heard):
        _cache(run, "the prompt was not read again")
        return
    text = message_text(cast("Reply", heard.last).content)
    if RESULT_WORD in text.lower():
        run.trial.add("tool result", "ok", "it answered with the word of the result")
    else:
        run.trial.add("tool result", "not seen", "it answered without the word of the result")
    _cache(run)


def _cache(run: LiveCheckRun, not_tried: str = "") -> None:
    trial, plan = run.trial, run.plan
    read, whole = trial.cached_of
    if not plan.card.caching:
        if read:
            trial.add("cache", "ok", f"the server reads from its own: up to {read:,} of {whole:,} tokens")
        else:
            trial.add("cache", "not offered", f"{plan.endpoint.provider} has none that we use")
    elif read:
        trial.add("cache", "ok", f"{read:,} of {whole:,} tokens were read from it the second time")
    elif not_tried:
        trial.add("cache", "not tried", not_tried)
    else:
        sent = trial.usage.prompt_tokens // 2
        wrote = f"{trial.written:,} tokens were written to it, and none was read" if trial.written else ""
        why = (
            wrote
            or f"nothing of {sent:,} tokens was read from it the second time; some models cache longer prompts only"
        )
        promised = plan.endpoint.api in _PROMISED and (trial.written or sent >= CACHED_ALWAYS)
        trial.add("cache", "failed" if promised else "not seen", why)


async def _schema(run: LiveCheckRun) -> None:
    """Ask for an answer that must fit a schema, in the way that the API has for it."""
    planned = run.plan.request_for("schema")
    async with aclosing(run.open_model(planned)) as model:
        prefix = structured_prefix(model, planned.request.prefix, SCHEMA)
        request = planned.request if prefix is None else replace(planned.request, prefix=prefix)
        heard = await run.ask_model(model, planned, request)
    if _is_missing(run, "schema", heard):
        return
    text = structured_text(cast("Reply", heard.last).content, SCHEMA)
    if _fits(text):
        run.trial.add("schema", "ok", "the answer fits the schema")
    else:
        run.trial.add("schema", "not seen", "the answer does not fit the schema that came with the request")


def _fits(text: str) -> bool:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    row = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return isinstance(row.get("word"), str) and isinstance(row.get("count"), int)


async def _answer_limit(run: LiveCheckRun) -> None:
    """Ask for more than the answer may have: it must end at the limit, and say so."""
    planned = run.plan.request_for("limit")
    heard = await run.ask(planned)
    if _is_missing(run, "answer limit", heard):
        return
    reply = cast("Reply", heard.last)
    out = reply.usage.output_tokens
    if out > planned.answer_tokens:
        why = f"it counted {out:,} tokens where at most {planned.answer_tokens:,} were asked for"
        run.trial.add("answer limit", "failed", why)
    elif reply.stop_reason == "max_tokens":
        run.trial.add("answer limit", "ok", f"it stopped after {out:,} tokens, and said why")
    else:
        run.trial.add(
            "answer limit",
            "not seen",
            f"it ended after {out:,} tokens without reaching the limit ({reply.stop_reason[:40]})",
        )


async def _unknown_model(run: LiveCheckRun) -> None:
    """Ask a model that does not exist, to see how the service says so."""
    planned = run.plan.request_for("error")
    heard = await run.ask(planned)
    if isinstance(heard.last, Reply):
        run.trial.add("error", "not seen", "a model that does not exist answered: the server does not look at its name")
    elif heard.is_refused:
        run.trial.add("error", "not tried", heard.last.what)
    elif heard.last.slug == "unknown-model":
        run.trial.add("error", "ok", f"an unknown model is refused as one (HTTP {heard.last.http_status})")
    else:
        run.trial.add("error", "not seen", f"an unknown model is refused in another way: {_why(heard.last)}")


def _thinking(trial: LiveCheck, plan: LiveCheckPlan, settings: ModelSettings) -> None:
    if trial.thought:
        trial.add("thinking", "ok", "it came as thinking, apart from the text")
    elif thinking_field(plan.card, "adaptive") is not None or plan.card.efforts:
        trial.add("thinking", "not seen", "it may think without showing it, or saw no need")
    elif plan.card.budget_from is not None:
        trial.add(
            "thinking", "not tried", f"its smallest budget, {plan.card.budget_from:,} tokens, costs too much here"
        )
    else:
        trial.add("thinking", "not offered", "nothing says that this model thinks")


def _rate_limits(trial: LiveCheck) -> None:
    if trial.limits:
        trial.add("rate limits", "ok", "; ".join(f"{name} {value}" for name, value in trial.limits))
    else:
        trial.add("rate limits", "not seen", "no header about them came with the answer")


async def _window(trial: LiveCheck, plan: LiveCheckPlan) -> None:
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


async def _whole_prompt(run: LiveCheckRun) -> None:
    """Add the check with growing prompts: the adapter compares them with the tokens that the server read."""
    long = [one for one in run.plan.planned if one.purpose in ("long", "longer")]
    if not long:
        why = "only servers that may cut a prompt are tried, where it costs nothing"
        run.trial.add("whole prompt", "not offered", why)
        return
    read = 0
    async with aclosing(run.open_model(long[0])) as model:
        for planned in long:
            heard = await run.ask_model(model, planned, planned.request)
            if _is_missing(run, "whole prompt", heard):
                return
            read = cast("Reply", heard.last).usage.prompt_tokens
    if read:
        run.trial.add("whole prompt", "ok", f"it read {read:,} tokens of the longest one")
    else:
        run.trial.add("whole prompt", "not seen", "it does not say how many tokens it read")
