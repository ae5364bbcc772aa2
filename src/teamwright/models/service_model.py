"""The adapter for model services: sends requests as bytes, yields the answer in parts, and retries.

It uses the Messages API, or with an API format (`providers`) another API. Raises nothing but `CancelledError`.

Servers of the user are also asked for facts: the window, and their other models. Other services are never asked. A
server may know the window only once the model is loaded, after the first answer: until it reports the window, it is
asked again after each answer, a few times. Each query is bounded in time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, aclosing, asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from teamwright.models.endpoint import Endpoint
from teamwright.models.model import (
    UNPARSED_CALL,
    AlivePart,
    Failure,
    ModelCard,
    Part,
    Prefix,
    Reply,
    Request,
    Retrying,
    TextPart,
    ThinkingPart,
    UsagePart,
    find_cause,
    price_usage,
)
from teamwright.models.model_settings import STALL_QUIET_S, ModelSettings
from teamwright.models.names import is_set, with_server, with_window
from teamwright.models.providers.anthropic_messages import MessagesFormat
from teamwright.models.providers.api_format import ApiFormat
from teamwright.models.rate_limit import CacheWarmup, CallPermit, RateLimiter
from teamwright.models.service_error import (
    ServiceAnswer,
    ServiceError,
    is_context_full,
    is_throttled,
    is_unparsed_call,
    is_worth_retrying,
)
from teamwright.models.stream import AnswerAssembly, HttpExchange, ThinkTags, Timeouts, new_client
from teamwright.models.token_estimate import answer_tokens, fill_usage, written_tokens
from teamwright.models.truncated_prompt_check import PromptCheck
from teamwright.protocol.messages import Block, encode
from teamwright.protocol.program_log import log_fact
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.usage import Usage

if TYPE_CHECKING:
    from httpx2 import AsyncClient


ALIVE_EVERY_S = 1.0
"""Seconds between two AliveParts while an answer grows without text (the input of a tool call)."""

ALIVE_EVERY_BYTES = 2_048
"""Bytes of arguments after which an AlivePart is yielded earlier."""

ENDLESS_FACTOR = 4
"""An answer is cut at this multiple of the requested maximum, estimated by bytes: it does not end."""

ENDLESS_TOKENS = 8_192
"""The same in tokens for small maxima. As many events without content are allowed too."""

WARMUP_WAIT = "an equal prompt, which is read first"
"""The wait reason of a call that lets another one go first."""

CONTINUATIONS = 8
"""The number of requests for one answer that the service pauses (`pause_turn`); after them it is returned as it is."""

FIRST_CONNECTS = 2
"""The number of retries for a service that never answered and cannot be reached."""

UNPARSED_TRIES = 2
"""The number of requests, one after the other, for an answer whose tool call the service cannot parse; after them the
model itself must be told."""

FAILING_WAIT_S = 1.0
"""Seconds that a call waits at least for its turn, however long the service has failed."""

MAX_REASON = 120
"""Characters of a service's error text that are shown with the first retry."""

LOCAL_FAILURE_STATUSES = frozenset({500, 501, 502})
"""Statuses of a local server that cannot run the model, e.g. for lack of memory. A server that never answered is then
retried as rarely as one that cannot be reached. 503 is not among them: it means that the model is still loading."""

PROVIDERS_THAT_REFUSE = frozenset({"anthropic", "openai", "google", "bedrock"})
"""Providers that refuse a prompt that does not fit; others may cut it silently, and are checked."""


class ServiceModel:
    """A model that is reached through the Messages API, or another API with a format.

    Satisfies `models.model.Model`; safe to share between agents.
    """

    def __init__(
        self,
        card: ModelCard,
        endpoint: Endpoint,
        *,
        rate_limiter: RateLimiter,
        settings: ModelSettings,
        api_format: ApiFormat | None = None,
        served: ServerModelFacts | None = None,
    ) -> None:
        self._card = card
        self._endpoint = endpoint
        self._rate_limiter = rate_limiter
        self._settings = settings
        self._clocks = Timeouts.from_settings(settings, endpoint)
        self._client: AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._answered = False
        self._failing_since: float | None = None
        self._last_trouble: ServiceError | None = None
        self._cache_warmup = CacheWarmup(settings.cache_warmup_s if card.caching else 0.0)
        self._prompt_check = None if endpoint.provider in PROVIDERS_THAT_REFUSE else PromptCheck()
        self._served = served or ServerModelFacts(endpoint)
        self._format = api_format or MessagesFormat(endpoint, caching=card.caching)

    def __repr__(self) -> str:
        return f"ServiceModel({self._card.name} at {self._endpoint.display_address})"

    @property
    def card(self) -> ModelCard:
        """The facts about the model."""
        return self._card

    @property
    def endpoint(self) -> Endpoint:
        """The address of requests; its repr does not contain the key."""
        return self._endpoint

    async def aclose(self) -> None:
        """Close connections. May be called twice."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Yield the answer in parts; see `Model.stream`. A paused answer is continued and returned as one."""
        if (refused := await self._too_small(request)) is not None:
            yield refused
            return
        items: Sequence[bytes] = request.items
        whole: Reply | None = None
        outcome = _Outcome()
        lost = Usage()
        for _ in range(CONTINUATIONS):
            outcome = _Outcome()
            async with aclosing(self._answer(request, items, outcome)) as parts:
                async for part in parts:
                    yield UsagePart(whole.usage + part.usage) if whole and isinstance(part, UsagePart) else part
            lost += outcome.failed_usage
            if outcome.reply is None:
                break
            whole = _join_replies(whole, outcome.reply)
            if whole.stop_reason != "pause_turn" or not outcome.reply.content:
                break
            items = [*items, encode({"role": "assistant", "content": outcome.reply.content})]
        if outcome.failure is not None:
            failure = await self._served.explain_failure(outcome.failure, self._card)
            yield replace(failure, failed_usage=lost if whole is None else lost + whole.usage)
        elif whole is not None:
            self._card = await self._served.card_after_answer(self._card)
            yield self._check_reply(request, replace(whole, failed_usage=lost))

    async def _too_small(self, request: Request) -> Failure | None:
        """Return the failure of a request whose prefix alone exceeds the window; None otherwise."""
        if not self._served.oversized_prefix_tokens(request):
            return None
        self._card = await self._served.card_after_overflow(self._card)
        head = self._served.oversized_prefix_tokens(request)
        window = self._served.window
        if not head or window is None:
            return None
        from teamwright.models.failure_texts import no_room_failure

        return no_room_failure(head, window, self._card, self._endpoint)

    async def _answer(self, request: Request, items: Sequence[bytes], outcome: _Outcome) -> AsyncGenerator[Part, None]:
        """Yield one answer, with retries; the result is stored in `outcome`."""
        if (first := self._cache_warmup.leading_call(request.prefix)) is not None:
            yield AlivePart(WARMUP_WAIT)
            await self._cache_warmup.follow(first)
            yield AlivePart()
        silent_s, unparsed = 0.0, 0
        may_repeat = self._answered
        for tries in count(1):
            try:
                exchange = HttpExchange(self._open_client(), self._endpoint, self._clocks)
            except ServiceError as trouble:
                outcome.failure = self._failed(trouble, tries)
                return
            longest = answer_tokens(request.prefix, self._card.max_output_tokens)
            attempt = _Attempt(
                exchange,
                self._format,
                request.prefix,
                items,
                self._cache_warmup,
                longest=longest,
                tags=ThinkTags() if self._card.think_tags else None,
            )
            async with aclosing(self._run_attempt(attempt)) as parts:
                async for part in parts:
                    yield part
            if attempt.trouble is None:
                outcome.reply = self._reply(attempt)
                return
            if attempt.trouble.is_unanswered and may_repeat:
                may_repeat = False  # the server closed an idle connection just as it was used: another one is opened
                continue
            failed_usage = self._failed_usage(attempt, request)
            failure = self._failed(attempt.trouble, tries)
            self._card = with_refused_window(self._card, attempt.trouble)
            unparsed += is_unparsed_call(attempt.trouble)
            if is_unparsed_call(attempt.trouble) and unparsed >= UNPARSED_TRIES:
                outcome.reply = replace(
                    self._reply(attempt), stop_reason=UNPARSED_CALL, usage=failed_usage, is_estimated=True
                )
                return
            outcome.failed_usage += failed_usage
            if failed_usage.requests:
                yield UsagePart(failed_usage)
            if is_unparsed_call(attempt.trouble):
                yield Retrying(_failure_reason(failure), 0.0, tries)
                continue
            silent_s += exchange.patience_s if attempt.trouble.kind == "stalled" else 0.0
            wait_s = self._backoff_s(tries) if attempt.shared_pause_s is None else attempt.shared_pause_s
            gives_up = silent_s >= STALL_QUIET_S or self._fails_too_long(wait_s)
            if gives_up or not self._is_worth_retry(attempt.trouble, tries):
                # A pause that was too long a moment ago must not look short enough now.
                again_s = None if gives_up else self._limit_passes_s(attempt.trouble)
                outcome.failure = replace(failure, partial=attempt.text(), retry_after_s=again_s)
                return
            status = attempt.trouble.answer.status
            log_fact(
                "model",
                "%s: %s, status %s, try %d, again in %.1f s",
                self._card.name,
                failure.what,
                status,
                tries,
                wait_s,
            )
            reason = _failure_reason(failure) if tries == 1 else failure.what
            yield Retrying(reason, wait_s, tries, attempt.trouble.is_unavailable)
            if attempt.shared_pause_s is None:
                await asyncio.sleep(wait_s)  # the rate limiter waits for a shared pause
                yield AlivePart()

    def _failed(self, trouble: ServiceError, tries: int) -> Failure:
        from teamwright.models.failure_texts import to_failure

        return to_failure(trouble, self._card, self._endpoint, tries, answered=self._answered)

    async def _run_attempt(
        self, attempt: _Attempt
    ) -> AsyncGenerator[TextPart | ThinkingPart | UsagePart | AlivePart, None]:
        """Run one exchange when the rate limiter permits it, and report its result to the limiter."""
        permit = self._rate_limiter.try_permit()
        if waits := permit is None:
            yield AlivePart(self._rate_limiter.wait_reason or self._rate_limiter.place)
        with attempt.lead():
            async with AsyncExitStack() as held:
                try:
                    async with time_limit(self._longest_wait_s()):
                        turn = await held.enter_async_context(self._rate_limiter.permit(permit))
                except TimeoutError:
                    attempt.trouble = self._last_trouble or ServiceError("stalled", "could not be called in time")
                    return
                async with aclosing(attempt.parts()) as parts:
                    if self._endpoint.is_local:
                        yield AlivePart(prompt_read=0.0)
                    elif waits:
                        yield AlivePart()
                    async for part in parts:
                        yield part
                    self._account(turn, attempt)

    def _account(self, turn: CallPermit, attempt: _Attempt) -> None:
        trouble = attempt.trouble
        if trouble is None or is_unparsed_call(trouble):  # the service works
            self._answered = True
            self._failing_since = None
            self._last_trouble = None
            self._rate_limiter.note_success(turn)
            return
        if not is_worth_retrying(trouble):
            return  # the service answers: it refuses this request
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        self._last_trouble = trouble
        if is_throttled(trouble):
            wait_s = trouble.answer.retry_after_s
            too_long = wait_s is not None and wait_s > self._settings.retry_after_most_s
            attempt.shared_pause_s = self._rate_limiter.note_throttled(turn, None if too_long else wait_s)

    def _failed_for_s(self) -> float:
        """Return for how many seconds the service has answered no call of this process; 0 when it answered the last."""
        return 0.0 if self._failing_since is None else time.monotonic() - self._failing_since

    def _fails_too_long(self, wait_s: float) -> bool:
        """Return True when the service answers no call of any agent, and will have done so for too long after a wait.

        This bounds the retries of a whole run: those of its members, and those that a paused agent makes later.
        """
        return self._failed_for_s() + wait_s > self._settings.limit_most_s

    def _longest_wait_s(self) -> float | None:
        """Return how long a call waits for its turn; None: without a limit, as long as the service answers."""
        if self._failing_since is None:
            return None
        return max(FAILING_WAIT_S, self._settings.limit_most_s - self._failed_for_s())

    def _is_worth_retry(self, trouble: ServiceError, tries: int) -> bool:
        wait_s = trouble.answer.retry_after_s
        if not is_worth_retrying(trouble) or (wait_s is not None and wait_s > self._settings.retry_after_most_s):
            return False
        most = self._settings.retries
        if trouble.kind == "connect" and not self._answered:
            most = 0 if self._endpoint.is_on_this_machine else min(most, FIRST_CONNECTS)
        if trouble.answer.status in LOCAL_FAILURE_STATUSES and self._endpoint.is_on_this_machine and not self._answered:
            most = min(most, FIRST_CONNECTS)
        return tries <= most

    def _limit_passes_s(self, trouble: ServiceError) -> float | None:
        """Return the seconds until a limit of the service has passed; None for another error, or a wait that is too
        long."""
        if not is_throttled(trouble) or trouble.answer.should_retry is False:
            return None
        retry_s = trouble.answer.retry_after_s or 0.0
        wait_s = max(retry_s, self._rate_limiter.paused_s, self._settings.backoff_most_s)
        return None if self._fails_too_long(wait_s) else wait_s

    def _backoff_s(self, tries: int) -> float:
        longest = min(self._settings.backoff_most_s, self._settings.backoff_s * 2 ** min(tries - 1, 20))
        return longest * (0.75 + random.random() * 0.25)

    def _open_client(self) -> AsyncClient:
        """Return the client of the running loop; connections of another loop are not touched."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client = new_client(self._endpoint, self._clocks)
            self._loop = loop
        return self._client

    def _reply(self, attempt: _Attempt) -> Reply:
        assembly = attempt.assembly
        return Reply(
            assembly.content(),
            assembly.stop_reason,
            price_usage(self._card, assembly.usage()),
            assembly.model or self._card.wire,
            attempt.exchange.request_id,
            id=assembly.id,
            limits=attempt.exchange.limits,
        )

    def _failed_usage(self, attempt: _Attempt, request: Request) -> Usage:
        """Return the usage of a failed attempt whose answer had begun: it counts as a request then."""
        assembly = attempt.assembly
        if not assembly.has_begun and not (attempt.trouble and is_unparsed_call(attempt.trouble)):
            return Usage()
        request = replace(request, items=attempt.items)
        return price_usage(self._card, fill_usage(assembly.usage(), request, assembly.size))

    def _check_reply(self, request: Request, reply: Reply) -> Reply | Failure:
        """Return the reply, or the failure if it shows that the server did not read the whole prompt."""
        cut = self._prompt_check.check(request, reply.usage, self._served.window) if self._prompt_check else None
        if cut is None:
            return reply
        from teamwright.models.failure_texts import cut_prompt_failure

        return replace(
            cut_prompt_failure(cut, self._card, self._endpoint), failed_usage=reply.failed_usage + reply.usage
        )


class _Outcome:
    """The result of an answer: `reply` or `failure` is set. `failed_usage` is the usage of failed attempts."""

    __slots__ = ("failed_usage", "failure", "reply")

    def __init__(self) -> None:
        self.failed_usage = Usage()
        self.reply: Reply | None = None
        self.failure: Failure | None = None


class _Attempt:
    """One exchange and its result: a complete answer, or the error that ended it."""

    __slots__ = (
        "_cache_warmup",
        "_format",
        "_hidden_size",
        "_most_tokens",
        "_prefix",
        "_tags",
        "_translator",
        "assembly",
        "exchange",
        "items",
        "shared_pause_s",
        "trouble",
    )

    def __init__(
        self,
        exchange: HttpExchange,
        api_format: ApiFormat,
        prefix: Prefix,
        items: Sequence[bytes],
        cache_warmup: CacheWarmup,
        *,
        longest: int,
        tags: ThinkTags | None,
    ) -> None:
        """Create an attempt. `longest` is the longest answer that is asked for, in tokens."""
        self.exchange = exchange
        self.items = items
        self._format = api_format
        self._prefix = prefix
        self._cache_warmup = cache_warmup
        self._most_tokens = max(ENDLESS_TOKENS, ENDLESS_FACTOR * longest)
        self._tags = tags
        self._translator = api_format.translator()
        self.assembly = AnswerAssembly(longest)
        self.trouble: ServiceError | None = None
        self.shared_pause_s: float | None = None
        self._hidden_size = 0

    def lead(self) -> AbstractContextManager[None]:
        """Make later calls with the same new prefix wait during this attempt."""
        return self._cache_warmup.lead(self._prefix)

    async def parts(self) -> AsyncGenerator[TextPart | ThinkingPart | UsagePart | AlivePart, None]:
        """Yield the parts that may be shown, and signs of progress. Does not raise `ServiceError`: it is stored."""
        shown_at = time.monotonic()
        async with self._keeping_trouble(), aclosing(self._events()) as events:
            async for event in events:
                for part in self._take(event) or self._alive(shown_at):
                    shown_at = time.monotonic()
                    yield part
        if not self.assembly.is_whole and self.trouble is None:
            self.trouble = ServiceError(
                "broken",
                f"the stream ended too soon, without {self.exchange.end_mark}",
                ServiceAnswer(request_id=self.exchange.request_id),
            )

    async def _events(self) -> AsyncGenerator[dict[str, Any], None]:
        outgoing = await self._format.build_request(self._prefix, self.items)
        async with aclosing(self.exchange.events(outgoing, self._format.reader())) as events:
            async for event in events:
                yield event

    def _alive(self, shown_at: float) -> tuple[AlivePart, ...]:
        size = self.assembly.hidden_size - self._hidden_size
        if size < ALIVE_EVERY_BYTES and time.monotonic() - shown_at < ALIVE_EVERY_S:
            return ()
        self._hidden_size = self.assembly.hidden_size
        return (AlivePart(size=size),)

    @asynccontextmanager
    async def _keeping_trouble(self) -> AsyncGenerator[None, None]:
        try:
            yield
        except ServiceError as trouble:
            # An error after the end of a complete answer does not invalidate it.
            self.trouble = None if self.assembly.is_whole else trouble

    def _take(self, event: dict[str, Any]) -> list[TextPart | ThinkingPart | UsagePart | AlivePart]:
        size, began = self.assembly.size, self.assembly.has_begun
        try:
            events = self._translate(event)
            if (tags := self._tags) is not None:
                events = [one for each in events for one in tags.take(each)]
            parts = [self.assembly.add_event(one) for one in events]
        except KeyError as missing:
            name = event.get("type") or "an event"
            raise ServiceError("strange", f"{name} has no {missing.args[0]!r} that can be read") from None
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
            name = event.get("type") or ", ".join(list(event)[:4])
            raise ServiceError("strange", f"an event of an unknown shape: {str(name)[:80]}") from None
        self._check_length(size)
        if self.assembly.has_begun and not began:
            self._cache_warmup.note_answer_began(self._prefix)
        if self.assembly.has_content and not self.exchange.is_answering:
            self.exchange.note_content()
        if self.assembly.is_whole:
            self.exchange.end_soon(trailing=self._translator.has_trailing)
        return [part for part in parts if part is not None]

    def _check_length(self, before: int) -> None:
        """Raise ServiceError for an answer that grows on after it was longer than any answer to this request could be.

        `before` is its size before the newest event.
        """
        most = self._most_tokens
        grows = self.assembly.size > before and written_tokens(before) > most
        if grows or self.assembly.events > most + ENDLESS_TOKENS:
            raise ServiceError("endless", f"it did not end, and was cut after {most:,} tokens")

    def _translate(self, event: dict[str, Any]) -> Iterable[dict[str, Any]]:
        try:
            return self._translator.translate(event)
        except ServiceError as trouble:
            for one in trouble.events:
                self.assembly.add_event(dict(one))
            raise

    def text(self) -> list[Block]:
        """Return the text that was received."""
        return [block for block in self.assembly.content() if block.get("type") == "text"]


def with_refused_window(card: ModelCard, trouble: ServiceError) -> ModelCard:
    """Return the card with the window that a refusal names, if it is smaller than was known. Settings are kept."""
    window = trouble.answer.window
    if window is None or not is_context_full(trouble) or is_set(card, "context_tokens"):
        return card
    return with_window(card, window) if window < card.context_tokens else card


def _failure_reason(failure: Failure) -> str:
    """Return the reason of a failure, with the service's text, or with the command for a local server that does not
    run."""
    if failure.slug == "no-network":
        more = failure.do[0] if failure.do and failure.do[0].startswith("start ") else ""
    else:
        more = find_cause(failure.looked_at)
    return f"{failure.what}: {more[:MAX_REASON]}" if more else failure.what


def _join_replies(before: Reply | None, after: Reply) -> Reply:
    """Join two parts of one answer."""
    if before is None:
        return after
    return replace(after, content=[*before.content, *after.content], usage=before.usage + after.usage)


MAX_QUERIES = 3
"""The number of queries for a window that a server does not report."""

_REPORTS_LATER = frozenset({"ollama", "lmstudio"})
"""Servers that know the window only once the model is loaded."""


class ServerModelFacts:
    """One model of a user's server, as the server reports it. `window` is in tokens, None until it is reported.

    `slots` is how many requests the server computes at once, None where it does not say. `has_progress`: it can report
    how much of a prompt it has read.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._queries_left = 0
        self.window: int | None = None
        self.slots: int | None = None
        self.has_progress = False

    async def card_when_opened(self, card: ModelCard) -> ModelCard:
        """Return the card with the server's facts, before the first request. A window in the user's settings is
        kept.
        """
        if not self._endpoint.own:
            return card
        card = await self._query_server(card)
        reports_later = self._endpoint.provider in _REPORTS_LATER
        self._queries_left = (
            MAX_QUERIES if reports_later and self.window is None and not is_set(card, "context_tokens") else 0
        )
        return card

    async def card_after_answer(self, card: ModelCard) -> ModelCard:
        """Return the card with the window that the server reports after an answer."""
        if self.window is not None or self._queries_left <= 0:
            return card
        self._queries_left -= 1
        return await self._query_server(card)

    async def card_after_overflow(self, card: ModelCard) -> ModelCard:
        """Return the card after a prompt that did not fit: the server may have been restarted with a larger window."""
        if not self._endpoint.own or self.window is None:
            return card
        self._queries_left = MAX_QUERIES
        return await self._query_server(card)

    async def _query_server(self, card: ModelCard) -> ModelCard:
        from teamwright.models import model_server_queries

        reported = await asyncio.to_thread(model_server_queries.ask_server, self._endpoint, card.wire)
        self.window = None if is_set(card, "context_tokens") else reported.window
        self.slots, self.has_progress = reported.slots, bool(reported.progress)
        return with_server(card, reported)

    async def explain_failure(self, failure: Failure, card: ModelCard) -> Failure:
        """Return a failure, with the server's models where it does not have the requested one."""
        if failure.slug != "unknown-model" or not self._endpoint.own:
            return failure
        from teamwright.models.failure_texts import with_served_models
        from teamwright.models.model_server_queries import Unanswered, served_models

        try:
            names = await asyncio.to_thread(served_models, self._endpoint)
        except Unanswered:
            return failure
        return with_served_models(failure, names, card)

    def oversized_prefix_tokens(self, request: Request) -> int:
        """Return the tokens of the prefix when it alone exceeds the window; else 0."""
        head = request.prefix.size // 4
        return head if self.window is not None and head > self.window else 0
