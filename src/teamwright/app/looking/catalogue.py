"""What models there are to name: providers, aliases, prices with their date; and what a provider lists.

Knows the room `models`; asks a service only when it is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from teamwright.models.catalog import aliases, card, known_ids, seen, wire_is_known
from teamwright.models.endpoint import Endpoint
from teamwright.models.local import probe_local
from teamwright.models.model import ModelCard
from teamwright.models.providers import endpoint_of
from teamwright.models.resolve import providers
from teamwright.models.settings import ModelSettings
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class ProviderView:
    """A provider: where it is, the variables that may hold its key, how sure we are that it works."""

    id: str
    title: str
    where: str
    key: str
    proof: str
    lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model: windows and the longest answer in tokens, prices in USD per million tokens; None is unknown."""

    name: str
    alias: str
    context_tokens: int | None
    max_output_tokens: int | None
    usd_in: float | None
    usd_out: float | None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All of it; `seen` is the day on which prices were looked up, `YYYY-MM-DD`."""

    providers: tuple[ProviderView, ...]
    models: tuple[ModelView, ...]
    seen: str


def catalogue(settings: ModelSettings, env: Mapping[str, str]) -> Catalogue:
    """Presets, the user's own providers, and the models whose prices are known."""
    rows = providers(settings)
    names = {wire: alias for alias, wire in aliases().items()}
    cards = [(wire, card(rows["anthropic"], wire, settings)) for wire in known_ids()]
    others = [card(row, wire, settings) for row in rows.values() if row.id != "anthropic" for wire in known_ids(row.id)]
    cards += [(found.name, found) for found in others]
    return Catalogue(
        providers=tuple(
            ProviderView(
                row.id,
                row.title,
                endpoint_of(row, env).where,
                _key(endpoint_of(row, env), row.key_needed),
                row.proof,
                row.lacks,
            )
            for row in rows.values()
        ),
        models=tuple(
            ModelView(
                wire, names.get(wire, ""), found.context_tokens, found.max_output_tokens, found.usd_in, found.usd_out
            )
            for wire, found in cards
        ),
        seen=seen(),
    )


def _key(endpoint: Endpoint, needed: bool) -> str:
    if endpoint.has_key:
        return endpoint.shown_key
    return f"no {endpoint.key_name}" if needed else "none needed"


async def listed_models(provider: str, settings: ModelSettings, env: Mapping[str, str]) -> list[ModelView]:
    """What a provider lists, in its order, with what is known of each. Raises CannotStart, ModelFailed."""
    from teamwright.models.pool import list_models

    wires = await list_models(provider, env, settings)
    row = providers(settings)[provider]
    windows = await asyncio.to_thread(_told_windows, provider, env) if row.local else {}
    names = {wire: alias for alias, wire in aliases().items()} if provider == "anthropic" else {}
    return [_listed(card(row, wire, settings), names.get(wire, ""), windows.get(wire), settings) for wire in wires]


def _told_windows(provider: str, env: Mapping[str, str]) -> dict[str, int]:
    """Windows by the word of a local server."""
    return {
        model.id: model.window
        for server in probe_local(env)
        if server.provider == provider
        for model in server.models
        if model.window
    }


def _listed(found: ModelCard, alias: str, told: int | None, settings: ModelSettings) -> ModelView:
    """A window or a limit that is only assumed is not told."""
    known = wire_is_known(found.provider, found.wire)
    window = settings.context_tokens or told or (found.context_tokens if known else None)
    longest = found.max_output_tokens if known else None
    return ModelView(found.name, alias, window, longest, found.usd_in, found.usd_out)
