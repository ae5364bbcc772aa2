"""The catalog of models: providers, aliases, prices with their date, and the models that a provider lists.

Depends on `models`; asks a service only when it is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.models.endpoint import Endpoint
from teamwright.models.local_servers import find_local_servers
from teamwright.models.model import ModelCard
from teamwright.models.model_server_queries import ServerFacts, ask_server
from teamwright.models.model_settings import ModelSettings
from teamwright.models.names import (
    ASSUMED,
    CATALOGUE,
    OWN_SERVER,
    SERVER,
    SETTINGS,
    aliases,
    known_ids,
    known_providers,
    model_card,
    prices_date,
    source,
    split_name,
    with_server,
)
from teamwright.models.provider_table import make_endpoint

__all__ = [
    "CATALOGUE",
    "OWN_SERVER",
    "SERVER",
    "SETTINGS",
    "ModelCatalog",
    "ModelView",
    "ProviderView",
    "listed_models",
    "model_catalog",
]

ASKED_MOST = 20
"""Maximum number of models for which the user's own server is queried, one after the other."""


class ProviderView(Struct, frozen=True):
    """A provider: its address, the variables that may have its key, and how well it is tested."""

    id: str
    title: str
    where: str
    key: str
    proof: str
    lacks: tuple[str, ...]


class ModelView(Struct, frozen=True):
    """A model: window and longest answer in tokens, prices in USD per million tokens; None is unknown.

    `sources` has the source of each fact.
    """

    name: str
    alias: str
    context_tokens: int | None
    max_output_tokens: int | None
    usd_in: float | None
    usd_out: float | None
    tools: bool = True
    images: bool = True
    sources: Mapping[str, str] = field(default_factory=dict[str, str])


class ModelCatalog(Struct, frozen=True):
    """The whole catalog; `seen` is the date of the prices, `YYYY-MM-DD`."""

    providers: tuple[ProviderView, ...]
    models: tuple[ModelView, ...]
    seen: str


def model_catalog(settings: ModelSettings, env: Mapping[str, str]) -> ModelCatalog:
    """Return the presets, the user's own providers, and the models with known prices."""
    rows = known_providers(settings)
    names = {wire: alias for alias, wire in aliases().items()}
    cards = [(wire, model_card(rows["anthropic"], wire, settings)) for wire in known_ids()]
    others = [
        model_card(row, wire, settings) for row in rows.values() if row.id != "anthropic" for wire in known_ids(row.id)
    ]
    cards += [(found.name, found) for found in others]
    known = {found.name for _, found in cards}
    configured_names = [name for name in (*settings.models, *settings.prices) if name.partition("/")[0] in rows]
    named = [split_name(name, settings) for name in dict.fromkeys(configured_names) if "/" in name]
    own = [model_card(row, wire, settings) for row, wire in named]
    cards += [(found.name, found) for found in own if found.name not in known]
    return ModelCatalog(
        providers=tuple(
            ProviderView(
                row.id,
                row.title,
                make_endpoint(row, env).display_address,
                _key(make_endpoint(row, env), row.key_needed),
                row.evidence,
                row.missing_features,
            )
            for row in rows.values()
        ),
        models=tuple(_view(found, wire, names.get(wire, "")) for wire, found in cards),
        seen=prices_date(),
    )


def _key(endpoint: Endpoint, needed: bool) -> str:
    if endpoint.has_key:
        return endpoint.display_key
    return f"no {endpoint.key_name}" if needed else "none needed"


async def listed_models(provider: str, settings: ModelSettings, env: Mapping[str, str]) -> list[ModelView]:
    """Return the models that a provider lists, in its order, with known facts. Raises CannotStart, ModelFailed."""
    from teamwright.models.model_pool import list_models

    wires = await list_models(provider, env, settings)
    row = known_providers(settings)[provider]
    windows = await asyncio.to_thread(_told_windows, provider, env) if row.is_local else {}
    facts = {wire: ServerFacts(windows.get(wire)) for wire in wires}
    if row.own and not row.is_local:
        endpoint = make_endpoint(row, env)
        facts = {wire: await asyncio.to_thread(ask_server, endpoint, wire) for wire in wires[:ASKED_MOST]}
    names = {wire: alias for alias, wire in aliases().items()} if provider == "anthropic" else {}
    found = [with_server(model_card(row, wire, settings), facts.get(wire, ServerFacts())) for wire in wires]
    return [_listed(one, names.get(one.wire, "")) for one in found]


def _told_windows(provider: str, env: Mapping[str, str]) -> dict[str, int]:
    """Return the windows that a local server reports."""
    return {
        model.id: model.window
        for server in find_local_servers(env)
        if server.provider == provider
        for model in server.models
        if model.window
    }


def _listed(found: ModelCard, alias: str) -> ModelView:
    """Return the view of a listed model, without window or limit that are only assumed."""
    view = _view(found, found.name, alias)
    window = None if source(found, "context_tokens") == ASSUMED else view.context_tokens
    longest = None if source(found, "max_output_tokens") == ASSUMED else view.max_output_tokens
    return replace(view, context_tokens=window, max_output_tokens=longest)


def _view(found: ModelCard, name: str, alias: str) -> ModelView:
    return ModelView(
        name,
        alias,
        found.context_tokens,
        found.max_output_tokens,
        found.usd_in,
        found.usd_out,
        found.tools,
        found.images,
        dict(found.sources),
    )
