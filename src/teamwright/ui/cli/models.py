"""`teamwright models`: model names for `--model`, their prices, and the models that a provider lists."""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import Sequence

import click

from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.output import WIDTH, json_flag, say, say_json, say_table
from teamwright.ui.cli.run_location import run_location
from teamwright.views.doctor import DoctorSubject, models_settings
from teamwright.views.model_catalog import (
    CATALOGUE,
    OWN_SERVER,
    SERVER,
    SETTINGS,
    ModelCatalog,
    ModelView,
    listed_models,
    model_catalog,
)


@click.command()
@click.argument("provider", required=False)
@json_flag
@click.pass_context
def models(ctx: click.Context, /, provider: str | None, as_json: bool) -> int:
    """List providers, aliases and prices. With PROVIDER, ask that service for its models."""
    place = run_location(ctx)
    settings = models_settings(DoctorSubject(resolve_home(place.home), place.cwd, os.environ, None, place.settings))
    if provider is not None:
        return _show_provider(provider, asyncio.run(listed_models(provider, settings, os.environ)), as_json=as_json)
    found = model_catalog(settings, os.environ)
    if as_json:
        say_json(found)
    else:
        _show(found)
    return 0


def _show_provider(provider: str, rows: list[ModelView], *, as_json: bool) -> int:
    if as_json:
        say_json(rows)
    elif not rows:
        say(f"{provider} lists no models.")
    else:
        _table(rows)
    return 0


def _show(found: ModelCatalog) -> None:
    say_table(("provider", "where", "key"), [(row.id, _short(row.where), row.key) for row in found.providers])
    say()
    for lacks in dict.fromkeys(row.lacks for row in found.providers if row.lacks):
        without = ", ".join(row.id for row in found.providers if row.lacks == lacks)
        for line in textwrap.wrap(f"Without {', '.join(lacks)}: {without}.", WIDTH):
            say(line)
    say()
    _table(found.models)
    say()
    say(f"USD for a million tokens, as published on {found.seen}; a local model costs 0.")
    say("Other names work as provider/model, at an unknown price.")
    say("What a provider lists: teamwright models PROVIDER")
    tried = [row.id for row in found.providers if row.proof == "tried"]
    if tried:
        say(f"Tried by hand: {', '.join(tried)}; the others are built by their documentation.")
    else:
        say("None was tried by hand yet: all are built by their documentation.")


WHERE = 36
"""The width of the address column; the JSON has the full address."""


def _short(where: str) -> str:
    return where if len(where) <= WHERE else f"{where[: WHERE - 1]}…"


_SOURCES = {SETTINGS: "settings", SERVER: "server", CATALOGUE: "catalogue", OWN_SERVER: ""}


def _table(models: Sequence[ModelView]) -> None:
    say_table(("model", "alias", "window", "USD in", "out", "source"), [_row(model) for model in models])


def _row(model: ModelView) -> tuple[str, ...]:
    window = f"{model.context_tokens // 1000:,}k" if model.context_tokens else "unknown"
    prices = [f"{price:g}" if price is not None else "unknown" for price in (model.usd_in, model.usd_out)]
    window_by, price_by = model.sources.get("context_tokens", ""), model.sources.get("price", "")
    by = dict.fromkeys(_SOURCES[source.partition(":")[0]] for source in (window_by, price_by) if source)
    return model.name, model.alias, window, *prices, ", ".join(filter(None, by))
