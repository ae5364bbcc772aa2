"""The contract of a model: a request of ready bytes in, a stream of parts out, failure as the last part.

Adapters live beside this file (`messages_api`, `scripted`). Callers see no HTTP and no vendor. History is handed
over encoded, so that a request costs one join and nothing grows with the conversation but the bytes themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol, TypeAlias, TypeVar

from teamwright.models.answer_end import AnswerEnd, answer_end
from teamwright.protocol.messages import Block, encode
from teamwright.protocol.usage import NO_USAGE, Usage
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stands before a conversation, fixed at its birth and sent byte for byte.

    `head` is the inside of a JSON object without braces: `"model":…,"max_tokens":…,"system":[…],"tools":[…],…`,
    serialised once. `digest` is its SHA-256 (hex, betas included) and the name under which it is stored. Two
    conversations share a prefix when they hold the same object.
    """

    model: str
    head: bytes
    betas: tuple[str, ...] = ()
    digest: str = ""
    wants_hour_cache: bool = False
    """True when the service should cache this request for an hour; the stored bytes are the same."""

    @classmethod
    def build(cls, fields: Mapping[str, Any], betas: Sequence[str] = ()) -> Prefix:
        """A prefix from the request's fields in order (`model`, `max_tokens`, `system`, `tools`, `thinking`, …)."""
        return cls.from_bytes(str(fields["model"]), encode(dict(fields))[1:-1], betas)

    @classmethod
    def from_bytes(cls, model: str, head: bytes, betas: Sequence[str] = ()) -> Prefix:
        """A prefix from bytes that were serialised before; the digest is computed."""
        digest = hashlib.sha256(head + b"\0" + ",".join(betas).encode()).hexdigest()
        return cls(model, head, tuple(betas), digest)


@dataclass(frozen=True, slots=True)
class Request:
    """One model call. `items` are the messages, each encoded as one JSON object (`blocks.encode`), oldest first.

    `asker` is the name of the agent that asks, for scripts, logs and error texts; it is never sent. `aside`: it is no
    step of the conversation, and whoever follows that one passes over it.
    """

    prefix: Prefix
    items: Sequence[bytes]
    agent_name: str = ""
    aside: bool = False


@dataclass(frozen=True, slots=True)
class TextPart:
    """Some text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """Some of the model's thinking, for surfaces that show it."""

    text: str


@dataclass(frozen=True, slots=True)
class Retrying:
    """The adapter waits and tries again; nothing of the broken answer is kept. What it used is paid."""

    reason: str
    wait_s: float
    attempt: int


@dataclass(frozen=True, slots=True)
class AlivePart:
    """A sign of progress with nothing to show, at most one a second: the answer grows, or may go on.

    `waits_for` says on what the request waits instead, e.g. a rate limit; the next part ends the waiting.
    """

    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class UsagePart:
    """The usage of this answer so far, as the service counts it: an answer that is cut short costs this."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole answer: last part of a stream that went well.

    `content` holds the blocks as they came (unknown ones verbatim, empty text dropped, calls cut off by
    `max_tokens` dropped). `stop_reason` is the service's word in the vocabulary of the Messages API, `end` what it
    means. `request_id` names it in logs. A `usage` without money is priced by the model's card. `lost` is what broken
    tries before it had used when they broke: it is paid too. `estimated`: the service did not say all of `usage`.
    `id` is the service's own of the answer, `ms` the milliseconds from the request to the whole answer.
    """

    content: list[Block]
    stop_reason: str
    usage: Usage
    model: str
    request_id: str = ""
    failed_usage: Usage = NO_USAGE
    is_estimated: bool = False
    id: str = ""
    ms: int = 0

    @property
    def end(self) -> AnswerEnd:
        """How the answer ended."""
        return answer_end(self.stop_reason, self.content)


SERVICE_SAID = "it said"
"""The label of the service's own sentence among the facts of a failure."""

_MAX_SENTENCE = 300
"""Characters of a service's sentence that are shown within a line."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The call failed for good: last part of a stream that did not go well.

    `slug` is of `protocol.errors.SLUGS` (`wrong-key unknown-model no-network model-failed no-answer context-full
    window-too-small limit`). `retriable` says that the same request may work later (the agent is paused, not
    ended); `again_s` is set for a limit that passes by itself: after how many seconds. `before_first_reply` is for
    exit codes: nothing was ever answered by this service in this process. `lost` is what its tries had used when they
    broke.
    """

    slug: str
    what: str
    looked_at: tuple[tuple[str, str], ...] = ()
    do: tuple[str, ...] = ()
    retriable: bool = False
    before_first_reply: bool = False
    partial: list[Block] = field(default_factory=list[Block])
    retry_after_s: float | None = None
    failed_usage: Usage = NO_USAGE

    @property
    def sentence(self) -> str:
        """What happened, followed by the service's own sentence, without its full stop."""
        said = dict(self.looked_at).get(SERVICE_SAID, "").strip()
        if len(said) > _MAX_SENTENCE:
            said = said[: _MAX_SENTENCE - 1] + "…"
        return f"{self.what}: {said}".rstrip(".") if said else self.what


Part: TypeAlias = TextPart | ThinkingPart | Retrying | AlivePart | UsagePart | Reply | Failure


@dataclass(frozen=True, slots=True)
class LongPrompt:
    """Prices of a request whose prompt passes `over_tokens`: they hold for all tokens of that request."""

    over_tokens: int
    usd_in: float
    usd_out: float
    usd_cache_read: float | None = None
    usd_cache_write: float | None = None


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is known of a model. Prices are USD per million tokens; None is unknown, 0.0 is free.

    `wire` is the id that the service knows; `name` is `provider/model` as people write it. `efforts` are the levels of
    effort that it documents; `budget_from` is the smallest budget of thinking in tokens, None: it takes none.
    """

    name: str
    wire: str
    provider: str
    context_tokens: int = 200_000
    max_output_tokens: int = 8_192
    usd_in: float | None = None
    usd_out: float | None = None
    usd_cache_read: float | None = None
    usd_cache_write: float | None = None
    long_prompt: LongPrompt | None = None
    images: bool = True
    thinking: bool = False
    caching: bool = True
    hour_cache: bool = False
    """True when its service takes cache breakpoints for an hour."""
    efforts: tuple[str, ...] = ()
    budget_from: int | None = None
    tools: bool = True
    """True when the model calls tools."""
    parallel: bool = True
    """True when an answer of the model may have several tool calls."""
    sampling: tuple[tuple[str, bool | int | float | str], ...] = ()
    """Parameters that are sent with each request, such as `temperature`."""
    think_tags: bool = False
    """True when `<think>…</think>` at the beginning of an answer is thinking, not text."""
    sources: tuple[tuple[str, str], ...] = ()
    """The source of each fact that is not merely assumed (`models.facts`)."""


class Model(Protocol):
    """A model that one or many agents call. One object a (provider, model, credential); safe to share."""

    @property
    def card(self) -> ModelCard:
        """What is known of the model."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The answer in parts; the last part is a Reply or a Failure. Cancelling closes the connection.

        Contract: does not raise but `CancelledError`; every failure is the last part.
        """
        ...

    async def aclose(self) -> None:
        """Close connections. May be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class BudgetRefusal:
    """Why a call is not made: the cap (`money tokens turns calls time`), and a sentence that names whose it is."""

    limit: str
    reason: str


class Meter(Protocol):
    """The port through which usage leaves this room, and through which a budget refuses what it has no room for."""

    async def reserve(self, request: Request, card: ModelCard) -> BudgetRefusal | None:
        """Set aside what this call may use; waits while calls of others hold what it needs. Or why it is not made.

        What was set aside is held until `settle`.
        """
        ...

    def settle(self, answer: Reply | Failure | None) -> str:
        """The call was answered, or failed, at this usage; None: neither. Returns the task it was booked to, if any."""
        ...

    async def admit(self, calls: int) -> int:
        """How many of so many tool calls may run. They count from now on."""
        ...


HOUR_CACHE_FACTOR = 2.0
"""The price of writing to the cache for an hour, in prices of input.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching"""


def price_usage(card: ModelCard, usage: Usage) -> Usage:
    """The usage of one request with its money filled in from the card; unknown prices give `usd=None`.

    So does a request whose service reported no tokens, unless the model costs nothing.
    """
    long = card.long_prompt
    rates = long if long is not None and usage.prompt_tokens > long.over_tokens else card
    unreported = usage.requests and not usage.tokens and (rates.usd_in or rates.usd_out)
    if rates.usd_in is None or rates.usd_out is None or unreported:
        usd = None
    else:
        read = rates.usd_in if rates.usd_cache_read is None else rates.usd_cache_read
        write = rates.usd_in if rates.usd_cache_write is None else rates.usd_cache_write
        hour = max(write, HOUR_CACHE_FACTOR * rates.usd_in) if usage.cache_write_hour else write
        usd = (
            usage.input_tokens * rates.usd_in
            + usage.output_tokens * rates.usd_out
            + usage.cache_read * read
            + (usage.cache_write - usage.cache_write_hour) * write
            + usage.cache_write_hour * hour
        ) / 1_000_000
    return replace(usage, usd=usd)


Answer = TypeVar("Answer", Reply, Failure)


def with_price(card: ModelCard, answer: Answer) -> Answer:
    """The answer with its money filled in where the model left it out: a price that is not known is never 0."""
    if answer.failed_usage.tokens and not answer.failed_usage.usd:
        answer = replace(answer, failed_usage=price_usage(card, answer.failed_usage))
    if isinstance(answer, Failure) or answer.usage.usd:
        return answer
    return replace(answer, usage=price_usage(card, answer.usage))
