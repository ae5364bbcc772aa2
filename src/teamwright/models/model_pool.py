"""The open models of a process: one adapter for each (provider, model, credential), one rate limiter for each
credential.

Also lists the models of a provider, for people.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from teamwright.models.model import SLOT_WAIT, Model, ModelCard
from teamwright.models.model_settings import ModelSettings
from teamwright.models.names import aliases, is_known_id, known_ids, known_providers, require_key, resolve_model
from teamwright.models.provider_table import make_endpoint
from teamwright.protocol.errors import CannotStart, ModelFailed
from teamwright.protocol.ids import did_you_mean
from teamwright.protocol.time_limit import time_limit

if TYPE_CHECKING:
    from teamwright.models.endpoint import Endpoint
    from teamwright.models.providers.api_format import ApiFormat
    from teamwright.models.rate_limit import RateLimiter
    from teamwright.models.service_model import ServiceModel
    from teamwright.storage.paths import Home

ShareRateLimit: TypeAlias = "Callable[[Endpoint, RateLimiter], Awaitable[None]]"
"""Connects the rate limiter of an endpoint's credential with those of other machines."""


def format_for(card: ModelCard, endpoint: Endpoint, *, has_progress: bool = False) -> ApiFormat | None:
    """Return the format of an endpoint's API; None is the Messages API. `has_progress`: its server is llama.cpp, which
    can report how much of a prompt it has read.
    """
    match endpoint.api:
        case "messages":
            return None
        case "openai-chat":
            from teamwright.models.providers.openai_chat import OpenAiChat

            return OpenAiChat(endpoint, reports_progress=has_progress)
        case "openai-responses":
            from teamwright.models.providers.openai_responses import OpenAiResponses

            return OpenAiResponses(endpoint, reports_progress=has_progress)
        case "gemini":
            from teamwright.models.providers.gemini import Gemini

            return Gemini(endpoint, card.wire)
        case "bedrock":
            from teamwright.models.providers.bedrock import Bedrock

            return Bedrock(endpoint, card.wire, caching=card.caching)


LIST_TIMEOUT_S = 10.0
"""Seconds that a service may take to list its models; after them a model is assumed to exist."""


class ModelPool:
    """A pool that opens models and closes them. An async context manager; `aclose` may be called twice."""

    def __init__(self, home: Home | None = None, share: ShareRateLimit | None = None) -> None:
        """Create the pool. Processes with the same `home` share the rate limits of a credential.

        `share` connects the rate limiter of an endpoint with those of other machines.
        """
        self._home = home
        self._share = share
        self._open: dict[tuple[str, str, str], ServiceModel] = {}

    async def __aenter__(self) -> ModelPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def open_model(self, name: str | None, env: Mapping[str, str], settings: ModelSettings) -> Model:
        """Return the model of a name, the same object for equal ones. Raises `CannotStart` as `resolve_model` does.

        A server of the user is asked once for the facts that the settings do not give.
        """
        from teamwright.models.rate_limit import rate_limiter_for
        from teamwright.models.rate_limit_store import rate_limit_file
        from teamwright.models.service_model import ServerModelFacts, ServiceModel

        card, endpoint = resolve_model(name, env, settings)
        key = (card.provider, card.wire, endpoint.fingerprint)
        if key not in self._open:
            served = ServerModelFacts(endpoint)
            card = await served.card_when_opened(card)
            most = known_providers(settings)[card.provider].requests or served.slots
            limiter = rate_limiter_for(endpoint.fingerprint, rate_limit_file(self._home, endpoint), most)
            limiter.place = SLOT_WAIT if served.slots else limiter.place
            api_format = format_for(card, endpoint, has_progress=served.has_progress)
            model = ServiceModel(
                card, endpoint, rate_limiter=limiter, settings=settings, api_format=api_format, served=served
            )
            if self._share is not None:
                await self._share(endpoint, limiter)
            self._open.setdefault(key, model)  # another agent may have opened it during the await
        return self._open[key]

    async def aclose(self) -> None:
        """Close all connections."""
        models = list(self._open.values())
        self._open = {}
        for model in models:
            await model.aclose()


async def require_served(name: str, env: Mapping[str, str], settings: ModelSettings) -> None:
    """Raise `CannotStart` (`unknown-model`) for an id that neither the catalogue nor its service lists.

    A service that lists nothing, or does not answer in time, reports an unknown model at the first call.
    """
    card, endpoint = resolve_model(name, env, settings)
    known = [*known_ids(card.provider), *(one.partition("/")[2] for one in settings.prices)]
    if card.wire in known or is_known_id(card.provider, card.wire):
        return
    try:
        async with time_limit(LIST_TIMEOUT_S):
            listed_ids = await list_models(card.provider, env, settings)
    except (TimeoutError, CannotStart, ModelFailed):
        return
    if not listed_ids or any(one == card.wire or one.startswith(card.wire) for one in listed_ids):
        return
    raise CannotStart(
        "unknown-model",
        f'{card.provider} has no model "{card.wire}"',
        looked_at=[("asked", endpoint.base_url), ("it lists", ", ".join(listed_ids[:8]))],
        do=did_you_mean(card.wire, [*aliases(), *listed_ids], [f"teamwright models {card.provider} lists them"]),
        note="nothing was changed",
    )


async def list_models(provider: str, env: Mapping[str, str], settings: ModelSettings | None = None) -> list[str]:
    """Return the ids that a provider lists, in its order. Raises `CannotStart` or `ModelFailed`."""
    from teamwright.models.providers.model_listing import list_model_ids
    from teamwright.models.service_error import ServiceError
    from teamwright.models.stream import Timeouts

    settings = settings or ModelSettings()
    row = known_providers(settings).get(provider)
    if row is None:
        known = list(known_providers(settings))
        raise CannotStart(
            "unknown-model",
            f'"{provider[:80]}" is not a provider',
            looked_at=[("providers", ", ".join(known))],
            do=did_you_mean(provider, known, ["teamwright models"]),
            note="no model was called",
        )
    endpoint = make_endpoint(row, env)
    require_key(row, endpoint, provider, env)
    try:
        return await list_model_ids(row, endpoint, Timeouts.from_settings(settings, endpoint))
    except ServiceError as trouble:
        card = ModelCard(f"{provider}{row.models_path}", row.models_path, provider)
        from teamwright.models.failure_texts import to_failure

        failure = to_failure(trouble, card, endpoint, 1, answered=False)
        kind = ModelFailed if failure.slug == "model-failed" else CannotStart
        raise kind(failure.slug, failure.what, looked_at=failure.looked_at, do=failure.do) from None
