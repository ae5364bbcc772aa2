"""Facts about a model, each with its source: the user's settings, the model's server, the catalogue, an assumption.

Depends on the catalogue's data and on settings that were read before; asks no server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from teamwright.models.model import ModelCard
from teamwright.models.model_settings import ModelFacts, ModelSettings
from teamwright.models.provider_table import Provider

if TYPE_CHECKING:
    from teamwright.models.server_facts import ServerFacts

SETTINGS = "settings"
"""The first word of every source in the user's settings."""
SERVER, CATALOGUE, ASSUMED = "the server", "the catalogue", "assumed"
OWN_SERVER = "a server of your own"
"""The source of the price 0."""
RATES = ("usd_in", "usd_out", "usd_cache_read", "usd_cache_write")
_FACTS = tuple(name for name in ModelFacts.__struct_fields__ if name not in RATES)


def source(card: ModelCard, fact: str) -> str:
    """Return the source of a fact, e.g. `the catalogue`; `assumed` for a fact without a source."""
    return dict(card.sources).get(fact, ASSUMED)


def is_set(card: ModelCard, fact: str) -> bool:
    """Return True when the user's settings contain this fact."""
    return source(card, fact).startswith(SETTINGS)


def known_facts(
    provider: Provider, name: str, wire: str, settings: ModelSettings, row: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the facts of a model and their sources, the most specific source first.

    `row` is the catalogue's. Prices come together from one source: a price of the user's own has no others added.
    """
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer, origin in _layers(provider, name, wire, settings, row):
        for fact in _FACTS:
            if fact not in found and layer.get(fact) is not None:
                found[fact], sources[fact] = layer[fact], origin
        if "price" not in sources and layer.get("usd_in") is not None and layer.get("usd_out") is not None:
            found |= {rate: layer.get(rate) for rate in RATES}
            sources["price"] = origin
    return found, sources


def _layers(
    provider: Provider, name: str, wire: str, settings: ModelSettings, row: Mapping[str, Any]
) -> Iterator[tuple[Mapping[str, Any], str]]:
    for key in (name, *((wire,) if provider.id == "anthropic" else ())):
        if key in settings.models:
            yield _values(settings.models[key]), f"{SETTINGS}: models"
    if name in settings.prices:
        yield {rate: getattr(settings.prices[name], rate) for rate in RATES}, f"{SETTINGS}: prices"
    if provider.id in settings.custom:
        yield _values(settings.custom[provider.id].facts), f"{SETTINGS}: providers"
    if settings.context_tokens and not row:
        yield {"context_tokens": settings.context_tokens}, f"{SETTINGS}: context_tokens"
    yield row, CATALOGUE
    if provider.is_local:
        yield {"usd_in": 0.0, "usd_out": 0.0, "usd_cache_read": 0.0, "usd_cache_write": 0.0}, OWN_SERVER


def _values(facts: ModelFacts) -> dict[str, Any]:
    return {name: getattr(facts, name) or None for name in ModelFacts.__struct_fields__} | {
        name: value
        for name in ("tools", "images", "thinking", "parallel", *RATES)
        if (value := getattr(facts, name)) is not None
    }


def with_server(card: ModelCard, told: ServerFacts) -> ModelCard:
    """Return the card with the facts from the server, except for those in the user's settings."""
    words = {"context_tokens": told.window, "images": told.images, "tools": told.tools}
    news = {fact: value for fact, value in words.items() if value is not None and not is_set(card, fact)}
    if not news:
        return card
    changes: dict[str, Any] = dict(news)
    sources = tuple((dict(card.sources) | dict.fromkeys(news, SERVER)).items())
    return replace(card, **changes, sources=sources)
