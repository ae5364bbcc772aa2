"""What is known of models by public documentation: one data file, `catalog.json`, with its date and its sources.

An id that is not in it works all the same, with an unknown price and a careful window. Prices of the user's own
win; local servers cost nothing.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, cast

from teamwright.models.model import LongPrompt, ModelCard
from teamwright.models.providers import Provider
from teamwright.models.settings import ModelSettings, Thinking

DEFAULT_MODEL = "sonnet"
DEFAULT_OUTPUT = 8_192
"""Output tokens of one answer where the limit is unknown."""

_CLAUDE = re.compile(r"anthropic\.(claude-[a-z0-9-]+?)(?:-v\d.*)?$")
"""A Claude model under its id at Bedrock, e.g. `eu.anthropic.claude-opus-4-5-20251101-v1:0`."""

_THINKING_OFF_MOST = ("none", "minimal", "low", "medium", "high")
"""The levels of effort that a model takes which does not think at all."""


@cache
def catalog() -> dict[str, Any]:
    """The data file, read once a process."""
    return cast("dict[str, Any]", json.loads(Path(__file__).with_name("catalog.json").read_text("utf-8")))


def aliases() -> dict[str, str]:
    """Short names and the ids that they stand for."""
    return dict(catalog()["aliases"])


def seen() -> str:
    """The day on which the prices were looked up, `YYYY-MM-DD`."""
    return str(catalog()["seen"])


def known_ids(provider: str = "anthropic") -> list[str]:
    """The ids of a provider in the catalogue, the current ones first."""
    return list(_models(provider))


def wire_is_known(provider: str, wire: str) -> bool:
    """Whether the catalogue has the id, under another name too."""
    return bool(_row(provider, wire))


def card(provider: Provider, wire: str, settings: ModelSettings) -> ModelCard:
    """The card of a model at a provider. Never fails: what is unknown is unknown."""
    wire = str(catalog()["aliases"].get(wire, wire)) if provider.id == "anthropic" else wire
    name = f"{provider.id}/{wire}"
    known = _row(provider.id, wire)
    own = settings.prices.get(name)
    free = 0.0 if provider.local else None
    rates = {
        key: getattr(own, key) if own is not None else known.get(key, free)
        for key in ("usd_in", "usd_out", "usd_cache_read", "usd_cache_write")
    }
    long = known.get("long_prompt") if own is None else None
    return ModelCard(
        name=name,
        wire=wire,
        provider=provider.id,
        context_tokens=settings.context_tokens or int(known.get("context_tokens", provider.window)),
        max_output_tokens=int(known.get("max_output_tokens", DEFAULT_OUTPUT)),
        long_prompt=LongPrompt(**long) if long else None,
        images=provider.images,
        thinking=bool(known.get("thinking_on")),
        caching=provider.caching,
        efforts=_efforts(provider.id, wire, settings),
        budget_from=known.get("budget_from"),
        **rates,
    )


def thinking_field(model: ModelCard, thinking: Thinking) -> dict[str, str] | None:
    """The `thinking` field of a request, or None where the model documents none."""
    row = _row(model.provider, model.wire)
    field = row.get("thinking_on" if thinking == "adaptive" else "thinking_off")
    return dict(field) if field else None


def _efforts(provider: str, wire: str, settings: ModelSettings) -> tuple[str, ...]:
    """The levels of effort: what the user said of a service of their own, else what the model documents."""
    if provider in settings.custom:
        return settings.custom[provider].efforts
    claude = _CLAUDE.search(wire) if provider == "bedrock" else None
    row = _row("anthropic", claude[1]) if claude else _row(provider, wire)
    off = settings.thinking == "off" and row.get("thinking_off") == {"type": "disabled"}
    return tuple(level for level in row.get("effort", ()) if not off or level in _THINKING_OFF_MOST)


def _row(provider: str, wire: str) -> dict[str, Any]:
    same: dict[str, str] = catalog()["same_as"] if provider == "anthropic" else {}
    found: dict[str, Any] = _models(provider).get(same.get(wire, wire), {})
    return found


def _models(provider: str) -> dict[str, dict[str, Any]]:
    if provider == "anthropic":
        return cast("dict[str, dict[str, Any]]", catalog()["models"])
    return cast("dict[str, dict[str, Any]]", catalog()["others"].get(provider, {}))
