"""Settings of models: the default model, timeouts and retries, and facts that the user knows better.

Passed in by the assembly, which reads the files. A repository may not set an address, a key variable or a price; the
code that creates these values enforces that.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

from msgspec import Struct, field

from teamwright.models.effort import EffortValue
from teamwright.models.endpoint import Api
from teamwright.protocol.setting_types import Count, Seconds, Setting, Table, Text

STALL_S = 90.0
"""Default seconds that an answer may make no progress."""
STALL_QUIET_S = 600.0
"""The same for a local server, which reads a long prompt without a keep-alive, and for APIs other than the Messages
API, where models think without one."""

FIRST_CONTENT_S = 3600.0
"""Default seconds that a server on the user's machine or network may take until its answer begins: it computes the
prompt, which takes minutes on a slow machine, and a repeated request would compute it again."""

LIMIT_HEADLESS_S = 300.0
"""Seconds that an agent of a headless run waits for a limit of the service to pass."""

Thinking: TypeAlias = Literal["adaptive", "off"]
CacheHour: TypeAlias = Literal["auto", "on", "off"]
PromptSize: TypeAlias = Literal["full", "compact"]


def _no_providers() -> Mapping[str, CustomProvider]:
    return MappingProxyType({})


def _no_texts() -> Mapping[str, str]:
    return MappingProxyType({})


def _no_models() -> Mapping[str, ModelFacts]:
    return MappingProxyType({})


def _no_prices() -> Mapping[str, Price]:
    return MappingProxyType({})


class Price(Struct, frozen=True):
    """The user's price of a model, in USD per million tokens."""

    usd_in: float
    usd_out: float
    usd_cache_read: float | None = None
    usd_cache_write: float | None = None


class ModelFacts(Struct, frozen=True):
    """The user's facts about one model, or about all models of a provider. None: not set."""

    context_tokens: int | None = None
    """The window, in tokens."""
    max_output_tokens: int | None = None
    """The longest answer, in tokens."""
    usd_in: float | None = None
    """USD per million tokens of prompts; 0 is a price."""
    usd_out: float | None = None
    """USD per million tokens of answers."""
    usd_cache_read: float | None = None
    """USD per million tokens that are read from the cache."""
    usd_cache_write: float | None = None
    """USD per million tokens that are written to the cache."""
    tools: bool | None = None
    """False: the model calls no tools, and receives no tools."""
    images: bool | None = None
    """False: the model accepts no images."""
    thinking: bool | None = None
    """False: the model is never asked to think."""
    parallel: bool | None = None
    """False: the model is asked for one tool call at a time."""
    efforts: tuple[str, ...] = ()
    """The levels of effort that the model accepts."""
    sampling: tuple[tuple[str, bool | int | float | str], ...] = ()
    """Parameters such as `temperature`, sent with each request."""


NO_FACTS = ModelFacts()


class CustomProvider(Struct, frozen=True):
    """A service of the user: a gateway, a server in the local network; or other values for a preset."""

    base_url: str = ""
    """The address. OpenAI's APIs need the version; an address without a path gets `/v1`."""
    api: Api = "messages"
    """The API: `messages`, `openai-chat` (most servers), `openai-responses`, `gemini`, `bedrock`."""
    key_env: str = ""
    """The variable with the key, if the server needs one."""
    bearer: bool | None = None
    """The key goes as `Authorization: Bearer` (the default), else as `x-api-key` (Gemini's API: always as
    `x-goog-api-key`; at Azure OpenAI: as `api-key`, unless this is true)."""
    caching: bool | None = None
    """True: the server accepts cache breakpoints or caches prompts."""
    headers: Mapping[str, str] = field(default_factory=_no_texts)
    """Further headers; `${NAME}` is a variable of the environment, which agents' commands do not get."""
    query: Mapping[str, str] = field(default_factory=_no_texts)
    """Further query parameters."""
    requests: int | None = None
    """The most simultaneous requests of all agents and processes."""
    think_tags: bool = True
    """False: the text keeps `<think>`."""
    facts: ModelFacts = NO_FACTS
    """Not a key: the entry may also have the facts of the next table, for all its models."""


class ModelSettings(Struct, frozen=True):
    """Settings for the choice of models and for calls."""

    model: Annotated[Text, Setting("model", "The model that is used when none is named.")] | None = None
    """An alias, a vendor's id, or `provider/model`."""
    effort: (
        Annotated[
            EffortValue,
            Setting(
                "effort",
                "Thinking effort of the lead and of the agents that it starts: a level, or a budget in tokens.",
            ),
        ]
        | None
    ) = None
    """None: the model decides."""
    thinking: Annotated[
        Thinking, Setting("thinking", "adaptive: models that can do so decide how much they think.")
    ] = "adaptive"
    """`off` uses the least that the model allows."""
    prompt: (
        Annotated[
            PromptSize,
            Setting(
                "prompt",
                "The system prompt and the tools of agents: full, or compact for small models. Without it: compact for "
                "windows of at most 16,384 tokens.",
            ),
        ]
        | None
    ) = None
    max_output_tokens: Annotated[Count, Setting("max_output_tokens", "The longest answer in tokens.")] | None = None
    """None is the model's own limit, but 32,000 at most."""
    context_tokens: (
        Annotated[Count, Setting("context_tokens", "The window in tokens of models that are not in the catalogue.")]
        | None
    ) = None
    retries: Annotated[Count, Setting("retries", "How often a failed model request is tried again.")] = 10
    backoff_s: float = 0.5
    """Seconds before the first retry; the pause doubles."""
    backoff_most_s: float = 60.0
    """The longest pause in seconds that the adapter chooses."""
    retry_after_most_s: float = 300.0
    """The longest pause in seconds that a service may ask for; beyond it the agent is paused instead."""
    limit_most_s: float = 3600.0
    """The longest limit in seconds, as the service reports it, after which an agent retries automatically, and the
    longest time for which calls are retried while the service answers none of any agent. A headless run waits
    `LIMIT_HEADLESS_S` at most."""
    cache_warmup_s: Annotated[
        float,
        Setting(
            "cache_warmup_s",
            "How long a call waits for an equal prompt sent just before, to use its cache; null: never.",
            value_type=Seconds | None,
        ),
    ] = 4.0
    """0: never."""
    cache_hour: Annotated[
        CacheHour,
        Setting(
            "cache_hour",
            "Whether the service caches the lead's prompt for an hour, not five minutes, while teammates work. "
            "auto: at Anthropic's own address.",
        ),
    ] = "auto"
    connect_s: float = 10.0
    """Seconds until a connection attempt fails."""
    read_timeout_s: float = 60.0
    """Seconds that an answer may stay without a byte."""
    stall_s: (
        Annotated[
            Seconds,
            Setting(
                "stall_s",
                "How long an answer may make no progress. Not set: 90, and 600 for services whose models think "
                "silently; a local server has 3,600 until its answer begins.",
            ),
        ]
        | None
    ) = None
    """None: `STALL_S`, or `STALL_QUIET_S`, and until a local server begins its answer `FIRST_CONTENT_S`."""
    betas: tuple[str, ...] = ()
    """Names for the `anthropic-beta` header, joined."""
    custom: Annotated[
        Mapping[str, CustomProvider],
        Setting(
            "providers",
            "Your own model services by name, and changed values of presets.",
            value_type=Table,
            user_only=True,
        ),
    ] = field(default_factory=_no_providers)
    models: Annotated[
        Mapping[str, ModelFacts],
        Setting(
            "models",
            "Facts about single models, by provider/model: window, prices, abilities.",
            value_type=Table,
            user_only=True,
        ),
    ] = field(default_factory=_no_models)
    prices: Annotated[
        Mapping[str, Price],
        Setting("prices", "Prices by provider/model, in USD per million tokens.", value_type=Table, user_only=True),
    ] = field(default_factory=_no_prices)
    """They take precedence over the catalogue."""
    slips: tuple[str, ...] = ()
    """Lines about unknown keys of settings files that resemble a setting, for the same error."""
    files: int = 0
    """The number of settings files that were read, for the error that none of them names a model."""
