"""The catalogue of models from public documentation, and the facts about one model, each with its source.

The data file is `catalog.json`, with its date and its sources. An unknown id works too, with an unknown price and a
small assumed window. Sources of a fact: the user's settings, the model's server, the catalogue, an assumption. The
user's prices take precedence; local servers cost nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from teamwright.models.model import LongPrompt, ModelCard
from teamwright.models.model_settings import ModelFacts, ModelSettings, Thinking
from teamwright.models.provider_table import Provider

if TYPE_CHECKING:
    from teamwright.models.model_server_queries import ServerFacts


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


def with_server(card: ModelCard, facts: ServerFacts) -> ModelCard:
    """Return the card with the facts from the server, except for those in the user's settings."""
    words = {"context_tokens": facts.window, "images": facts.images, "tools": facts.tools}
    news = {fact: value for fact, value in words.items() if value is not None and not is_set(card, fact)}
    if not news:
        return card
    changes: dict[str, Any] = dict(news)
    sources = tuple((dict(card.sources) | dict.fromkeys(news, SERVER)).items())
    return replace(card, **changes, sources=sources)


DEFAULT_MODEL = "sonnet"
DEFAULT_OUTPUT = 8_192
"""Output tokens of one answer where the limit is unknown."""

_CLAUDE = re.compile(r"anthropic\.(claude-[a-z0-9-]+?)(?:-v\d.*)?$")
"""A Claude model under its id at Bedrock, e.g. `eu.anthropic.claude-opus-4-5-20251101-v1:0`."""

_EFFORTS_WITHOUT_THINKING = ("none", "minimal", "low", "medium", "high")
"""The levels of effort of a model that does not think."""


@cache
def catalog() -> dict[str, Any]:
    """Return the data file, read once a process."""
    return cast("dict[str, Any]", json.loads(Path(__file__).with_name("catalog.json").read_text("utf-8")))


def aliases() -> dict[str, str]:
    """Return short names and their ids."""
    return dict(catalog()["aliases"])


def prices_date() -> str:
    """Return the date of the prices, `YYYY-MM-DD`."""
    return str(catalog()["seen"])


def known_ids(provider: str = "anthropic") -> list[str]:
    """Return the ids of a provider in the catalogue, the current ones first."""
    return list(_models(provider))


def is_known_id(provider: str, wire: str) -> bool:
    """Return True when the catalogue has the id, also under another name."""
    return bool(_row(provider, wire))


def model_card(provider: Provider, wire: str, settings: ModelSettings) -> ModelCard:
    """Return the card of a model at a provider. Never fails: facts may be unknown."""
    wire = str(catalog()["aliases"].get(wire, wire)) if provider.id == "anthropic" else wire
    name = f"{provider.id}/{wire}"
    row = _row(provider.id, wire)
    facts, sources = known_facts(provider, name, wire, settings, row)
    long = row.get("long_prompt") if sources.get("price") == CATALOGUE else None
    return ModelCard(
        name=name,
        wire=wire,
        provider=provider.id,
        context_tokens=int(facts.get("context_tokens", provider.window)),
        max_output_tokens=int(facts.get("max_output_tokens", DEFAULT_OUTPUT)),
        long_prompt=LongPrompt(**long) if long else None,
        images=facts.get("images", provider.images),
        thinking=facts.get("thinking", bool(row.get("thinking_on"))),
        caching=provider.caching,
        efforts=facts.get("efforts") or _efforts(provider.id, wire, settings),
        budget_from=row.get("budget_from"),
        tools=facts.get("tools", True),
        parallel=facts.get("parallel", True),
        sampling=facts.get("sampling", ()),
        think_tags=provider.think_tags,
        sources=tuple(sources.items()),
        usd_in=facts.get("usd_in"),
        usd_out=facts.get("usd_out"),
        usd_cache_read=facts.get("usd_cache_read"),
        usd_cache_write=facts.get("usd_cache_write"),
    )


def thinking_field(model: ModelCard, thinking: Thinking) -> dict[str, str] | None:
    """Return the `thinking` field of a request, or None where the model documents none."""
    if not model.thinking and is_set(model, "thinking"):
        return None
    row = _row(model.provider, model.wire)
    field = row.get("thinking_on" if thinking == "adaptive" else "thinking_off")
    return dict(field) if field else None


def _efforts(provider: str, wire: str, settings: ModelSettings) -> tuple[str, ...]:
    """Return the levels of effort that the model documents."""
    claude = _CLAUDE.search(wire) if provider == "bedrock" else None
    row = _row("anthropic", claude[1]) if claude else _row(provider, wire)
    off = settings.thinking == "off" and row.get("thinking_off") == {"type": "disabled"}
    return tuple(level for level in row.get("effort", ()) if not off or level in _EFFORTS_WITHOUT_THINKING)


def _row(provider: str, wire: str) -> dict[str, Any]:
    same: dict[str, str] = catalog()["same_as"] if provider == "anthropic" else {}
    found: dict[str, Any] = _models(provider).get(same.get(wire, wire), {})
    return found


def _models(provider: str) -> dict[str, dict[str, Any]]:
    if provider == "anthropic":
        return cast("dict[str, dict[str, Any]]", catalog()["models"])
    return cast("dict[str, dict[str, Any]]", catalog()["others"].get(provider, {}))
