"""Settings of this room: which model, how patient we are with its service, what the user knows better than we do.

Received and never fetched: the assembly reads the files. A repository may not set what names an address, a key
variable or a price; whoever builds these values sees to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Literal, TypeAlias

from teamwright.models.endpoint import Api
from teamwright.protocol.values import dataclass

Thinking: TypeAlias = Literal["adaptive", "off"]
CacheHour: TypeAlias = Literal["auto", "on", "off"]


def _nothing() -> Mapping[str, CustomProvider]:
    return MappingProxyType({})


def _no_prices() -> Mapping[str, Price]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs by the user's own word, in USD per million tokens."""

    usd_in: float
    usd_out: float
    usd_cache_read: float | None = None
    usd_cache_write: float | None = None


@dataclass(frozen=True, slots=True)
class CustomProvider:
    """A service of the user's own: a gateway, a server in the house."""

    base_url: str
    """Where it is. With or without `/v1`; for OpenAI's APIs a path is kept as it is, version and all."""
    api: Api = "messages"
    """What it speaks: `messages`, `openai-chat` (most servers), `openai-responses`, `gemini`, `bedrock`."""
    key_env: str = ""
    """The variable that holds its key; empty for a server that wants none."""
    bearer: bool = True
    """The key goes as `Authorization: Bearer`, else as `x-api-key` (Gemini's API: always as `x-goog-api-key`)."""
    caching: bool = False
    """It understands `cache_control`, or reads equal beginnings of prompts from a cache by itself."""
    images: bool = True
    """Its models take images."""
    efforts: tuple[str, ...] = ()
    """The levels of effort that its models take."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How models are chosen and called."""

    model: str | None = None
    """The name that is used when none is given: an alias, a vendor's id, or `provider/model`."""
    effort: str | int | None = None
    """How hard the lead thinks, and whoever it starts: a level, or a budget in tokens. None: the model decides."""
    thinking: Thinking = "adaptive"
    """`adaptive` where the model documents it; `off` asks for as little as the model allows."""
    max_output_tokens: int | None = None
    """Output of one answer at most; None is the model's own limit, but 32,000 at most."""
    context_tokens: int | None = None
    """The window, where the user knows it better than the server tells."""
    retries: int = 10
    """How often a failed request is tried again."""
    backoff_s: float = 0.5
    """The first pause between tries; it doubles."""
    backoff_most_s: float = 60.0
    """The longest pause that we choose ourselves."""
    retry_after_most_s: float = 300.0
    """The longest pause that a service may ask for; beyond it the agent is paused instead."""
    limit_most_s: float = 3600.0
    """How long a limit may last, by what the service says, for an agent to try again by itself after it."""
    stagger_s: float = 4.0
    """How long a call waits at most for an equal prompt that was sent just before it, to read it from the service's
    cache; 0 is never."""
    cache_hour: CacheHour = "auto"
    """Whether a lead whose teammates work is cached for an hour; `auto`: at Anthropic's own address."""
    connect_s: float = 10.0
    """How long a connection may take."""
    read_timeout_s: float = 60.0
    """How long an answer that has begun may be without a single byte."""
    stall_s: float = 90.0
    """How long nothing may come but signs of life: no progress."""
    stall_local_s: float = 600.0
    """The same for a local server, which reads a long prompt without a sign of life, and for what does not speak the
    Messages API, where models think without one."""
    betas: tuple[str, ...] = ()
    """Names for the `anthropic-beta` header, joined."""
    custom: Mapping[str, CustomProvider] = field(default_factory=_nothing)
    """The user's own providers by name."""
    prices: Mapping[str, Price] = field(default_factory=_no_prices)
    """Prices by `provider/model`; they win over the catalogue."""
    files: int = 0
    """How many settings files were read, for the error that no model was named in them."""
