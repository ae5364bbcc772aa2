"""Commands about configuration: `config` for settings, `check` for every file, `agents` for agent types, and `models`.

Only `config set` and `config unset` change a file. `check` ends with exit code 1 when a file is broken.
"""

from __future__ import annotations

import asyncio
import json
import os
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from teamwright.config.plugins import PluginSource
from teamwright.config.settings.edit import SettingChange, SettingTarget, Target, set_value, unset_value
from teamwright.config.settings.show import DEFAULT, SettingsQuery, SettingValue, files, json_schema, values, values_of
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.flags import agent_flags
from teamwright.ui.cli.output import WIDTH, json_flag, say, say_facts, say_json, say_table, table_lines
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import cell_width, clean, cut, one_line, pad
from teamwright.ui.invocation import parse_agents, parse_plugin_dirs
from teamwright.views.configuration import (
    AgentTypeQuery,
    AgentTypesView,
    AgentTypeView,
    agent_types_view,
    find_agent_types,
)
from teamwright.views.configuration_sources import GROUPS, Asset, AssetQuery, display_path
from teamwright.views.directory_configuration import Assets, list_assets
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

# ── config ─────────────────────────────────────────────────────────────────────────────────────────────────────


@click.group(invoke_without_command=True)
@click.pass_context
def config(ctx: click.Context, /) -> int:
    """Show and change settings. Changes your own file or the repository's, never a file of another product."""
    if ctx.invoked_subcommand is None:
        return int(ctx.invoke(list_settings))
    return 0


@config.command("list")
@click.option("--all", "every", is_flag=True, help="Also keys that are not set, with their defaults.")
@json_flag
@click.pass_context
def list_settings(ctx: click.Context, /, every: bool, as_json: bool) -> int:
    """List every value in effect here, and its file. Secrets are masked."""
    found = values(_settings_query(ctx), defaults=every)
    if as_json:
        say_json(found)
        return 0
    used_values = [value for value in found if value.state == "used" and value.key]
    for file in dict.fromkeys(value.file for value in sorted(used_values, key=lambda value: value.file == DEFAULT)):
        say(one_line(file) if file != DEFAULT else "defaults")
        for value in used_values:
            if value.file == file:
                say(_setting_line(value))
    if not used_values:
        say("No file sets anything here. Every key with its default: teamwright config list --all")
    left = sum(value.state != "used" for value in found)
    if left:
        say()
        verb = "value has" if left == 1 else "values have"
        say(f"{left} more {verb} no effect; which, and why: teamwright check")
    return 0


@config.command("get")
@click.argument("key")
@json_flag
@click.pass_context
def get_command(ctx: click.Context, /, key: str, as_json: bool) -> int:
    """Print the value of KEY in effect here, one line per value. A key that is not set prints its default."""
    found = values_of(_settings_query(ctx), key)
    if as_json:
        say_json(found)
        return 0
    for value in found:
        if value.file == DEFAULT and value.value is None:
            continue
        name = f"{value.name}=" if value.name and value.name != value.value else ""
        say(one_line(f"{name}{_shown_value(value.value)}"))
    return 0


def _target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for flag, text in (
        ("--local", "This checkout's file, .teamwright/settings.local.json, kept out of git."),
        ("--project", "This repository's file, .teamwright/settings.json."),
        ("--user", "Your own file, settings.json in the home; the default."),
    ):
        command = click.option(flag, is_flag=True, help=text)(command)
    return command


@config.command("set")
@click.argument("key")
@click.argument("value")
@_target_options
@click.pass_context
def set_command(ctx: click.Context, /, key: str, value: str, **targets: bool) -> int:
    """Set KEY to VALUE: true, 3, a text, or JSON. `env.NAME` sets one variable. Checked before it is written."""
    _say_result(set_value(_target_change(ctx, targets), key, value), "was so already; nothing was changed")
    _say_used(_settings_query(ctx), key)
    return 0


USED_MOST = 5
"""The number of values of a list that `set` prints."""


def _say_used(query: SettingsQuery, key: str) -> None:
    """Print the value that a run here uses and the file it comes from. A nearer file may override the one just set."""
    try:
        found = values_of(query, key)
    except TeamwrightError as problem:
        say(f"The value in use here cannot be read: {one_line(problem.what)}")
        return
    for value in found[:USED_MOST]:
        name = f" {value.name}" if value.name and value.name != value.value else ""
        say(cut(one_line(f"used here: {value.key}{name} = {_shown_value(value.value)} ({value.file})"), 4 * WIDTH))


@config.command("unset")
@click.argument("key")
@_target_options
@click.pass_context
def unset_command(ctx: click.Context, /, key: str, **targets: bool) -> int:
    """Remove KEY from a file. The value of the next settings file then has effect, or the default."""
    _say_result(unset_value(_target_change(ctx, targets), key), "was not set there; nothing was changed")
    return 0


@config.command("path")
@json_flag
@click.pass_context
def path_command(ctx: click.Context, /, as_json: bool) -> int:
    """List the settings files that are read here. For single values the last file in the list has precedence."""
    found = files(_settings_query(ctx))
    if as_json:
        say_json(found)
        return 0
    for view in found:
        say(f"{'  ' if view.exists else '- '}{one_line(view.file)}")
        say(f"    {view.owner}{'' if view.exists else '; not there'}")
    return 0


@config.command("schema")
def schema_command() -> int:
    """Print the JSON Schema of a settings file, for editors."""
    say_json(json_schema())
    return 0


def _settings_query(ctx: click.Context) -> SettingsQuery:
    place = run_location(ctx)
    return SettingsQuery(resolve_home(place.home), place.cwd, place.settings)


def _target_change(ctx: click.Context, targets: dict[str, bool]) -> SettingTarget:
    named: list[Target] = [target for target in ("user", "project", "local") if targets[target]]
    if len(named) > 1:
        raise UsageError("usage", "--user, --project and --local exclude each other", note="nothing was changed")
    place = run_location(ctx)
    return SettingTarget(resolve_home(place.home), place.cwd, named[0] if named else "user")


def _say_result(done: SettingChange, otherwise: str) -> None:
    if not done.changed:
        say(f"{one_line(done.key)} {otherwise}: {one_line(done.file)}")
        return
    say(f"{one_line(done.key)} was changed in {one_line(done.file)}")
    if done.waits:
        say("It takes effect once this repository is trusted: teamwright trust")


def _shown_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


KEY_WIDTH = 30
"""The width of the key column."""


def _setting_line(value: SettingValue) -> str:
    """Return key and value on one line; a longer line is cut, and complete in the JSON."""
    plain = value.name and value.name == value.value
    key = value.key if plain or not value.name else f"{value.key} {value.name}"
    return cut(f"  {pad(one_line(key), KEY_WIDTH)}  {one_line(_shown_value(value.value))}".rstrip(), WIDTH)


# ── check ──────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(params=agent_flags())
@json_flag
@click.pass_context
def check(ctx: click.Context, /, as_json: bool, **flags: Any) -> int:
    """List every file that a run reads here: used, ignored with the reason, waiting for trust, or broken with its line.

    Instructions, settings, agents, skills, commands, hooks, MCP servers, the team file. Nothing is run or contacted.
    """
    place = run_location(ctx)
    flag_agents = parse_agents(place, flags)
    plugins = tuple(map(PluginSource, parse_plugin_dirs(place, flags)))
    query = AssetQuery(resolve_home(place.home), place.cwd, os.environ, place.settings, flag_agents, plugins)
    found = list_assets(query)
    if as_json:
        counts = found.counts
        head = {"ok": not counts["broken"], "root": found.root, "trusted": found.trusted, "counts": counts}
        say_json({**head, "assets": found.assets})
    else:
        _show_assets(found, Path(os.path.realpath(place.cwd)))
    return 1 if found.counts["broken"] else 0


def _show_assets(found: Assets, cwd: Path) -> None:
    for group in GROUPS:
        mine = [asset for asset in found.assets if asset.group == group]
        if mine:
            say(group)
        for asset in mine:
            _show_asset(asset, cwd)
    if found.assets:
        say()
    counts = found.counts
    texts = {state: f"{count} {state}" for state, count in counts.items()}
    texts["needs trust"] = f"{counts['needs trust']} {'needs' if counts['needs trust'] == 1 else 'need'} trust"
    say(", ".join(texts.values()))
    if counts["needs trust"]:
        say("What waits takes effect after: teamwright trust")


STATE_WIDTH = 12
"""The width of the state column, and the indent of continuation lines."""


def _show_asset(asset: Asset, cwd: Path) -> None:
    """Print an asset on one line when it fits; otherwise continue on further lines, uncut."""
    where = display_path(asset.file, cwd) if asset.file.startswith("/") else asset.file
    where += f":{asset.line}" if asset.line else ""
    name = "" if where.split(":")[0].endswith(asset.name) else one_line(asset.name)
    why = one_line(asset.why.replace(f"{cwd}{os.sep}", "").replace(f"{Path.home()}{os.sep}", "~/"))
    what = f"{name} {why}" if why.startswith("is ") else ": ".join(part for part in (name, why) if part)
    head = f"  {pad(asset.state, STATE_WIDTH)} {one_line(where)}"
    if not what:
        say(head)
    elif cell_width(head) + 2 + cell_width(what) <= WIDTH:
        say(f"{head}  {what}")
    else:
        say(head)
        indent = " " * (STATE_WIDTH + 5)
        for part in textwrap.wrap(what, WIDTH - len(indent), break_on_hyphens=False):
            say(indent + part)


# ── agents ─────────────────────────────────────────────────────────────────────────────────────────────────────


@click.group(invoke_without_command=True, params=agent_flags())
@json_flag
@click.pass_context
def agents(ctx: click.Context, /, as_json: bool, **flags: Any) -> int:
    """List the agent types with source, model, tools and description. `show` prints one of them in full."""
    if ctx.invoked_subcommand is None:
        return _list_types(ctx, flags, as_json=as_json)
    if as_json or any(flags.values()):
        behind = f"teamwright agents {ctx.invoked_subcommand} …"
        raise UsageError("usage", f"flags of {ctx.invoked_subcommand} are written after it", do=[behind])
    return 0


@agents.command("list", params=agent_flags())
@json_flag
@click.pass_context
def list_agents(ctx: click.Context, /, as_json: bool, **flags: Any) -> int:
    """List every definition by precedence: of several with one name the first is used."""
    return _list_types(ctx, flags, as_json=as_json)


def _list_types(ctx: click.Context, flags: dict[str, Any], *, as_json: bool) -> int:
    found = agent_types_view(_types_query(ctx, flags))
    if as_json:
        say_json(found)
    else:
        _show_types(found)
    return 0


@agents.command("show", params=agent_flags())
@click.argument("name")
@json_flag
@click.pass_context
def show_command(ctx: click.Context, /, name: str, as_json: bool, **flags: Any) -> int:
    """Show the definition of NAME, and the definitions of that name that it replaces."""
    views = find_agent_types(_types_query(ctx, flags), name)
    if as_json:
        say_json(views)
        return 0
    for number, view in enumerate(views):
        if number:
            say()
        _show_type(view)
    return 0


def _types_query(ctx: click.Context, flags: dict[str, Any]) -> AgentTypeQuery:
    place = run_location(ctx)
    flag_agents = parse_agents(place, flags)
    plugins = tuple(map(PluginSource, parse_plugin_dirs(place, flags)))
    return AgentTypeQuery(resolve_home(place.home), place.cwd, place.settings, flag_agents, plugins)


def _show_types(found: AgentTypesView) -> None:
    head, *rows = table_lines(("type", "state", "model", "source", "tools"), [_type_row(view) for view in found.kinds])
    say(head)
    for row, view in zip(rows, found.kinds, strict=True):
        say(row)
        if view.description:
            say(f"  {one_line(view.description, WIDTH - 2)}")
    notes = [f"{_type_source(view)}: {view.why}" for view in found.kinds if view.state == "broken"]
    notes += [f"{_type_source(view)}: needs trust: {view.why}" for view in found.kinds if view.state == "needs trust"]
    notes += found.ignored
    if notes:
        say()
    for line in notes:
        say(one_line(line))


def _type_row(view: AgentTypeView) -> tuple[str, str, str, str, str]:
    """Return the cells of an agent type. Without a model it uses its caller's; without a list of tools, all tools."""
    if view.state == "broken":
        return one_line(view.name), view.state, "", one_line(view.source), ""
    tools: list[str] = view.fields.get("tools", ["all"])
    denied = ", ".join(view.fields.get("disallowedTools", []))
    tools_text = (", ".join(tools) or "none") + (f" but {denied}" if denied else "")
    return one_line(view.name), view.state, view.fields.get("model") or "inherit", one_line(view.source), tools_text


def _type_source(view: AgentTypeView) -> str:
    return view.file or view.source


def _show_type(view: AgentTypeView) -> None:
    say(f"{one_line(view.name)}  {view.state}" + (f" {one_line(view.why)}" if view.why else ""))
    say_facts([("source", view.source), ("file", view.file), ("description", view.description)])
    say_facts([(name, _shown_value(value)) for name, value in view.fields.items()], label=18)
    say_facts([("does not start", view.refused)], label=18)
    for text in view.warnings:
        say(f"warning: {one_line(text)}")
    if view.prompt:
        say()
        say(clean(view.prompt))


# ── models ─────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("provider", required=False)
@json_flag
@click.pass_context
def models(ctx: click.Context, /, provider: str | None, as_json: bool) -> int:
    """List providers, aliases and prices. With PROVIDER, ask that service for its models."""
    from teamwright.views.doctor import DoctorSubject, models_settings

    place = run_location(ctx)
    settings = models_settings(DoctorSubject(resolve_home(place.home), place.cwd, os.environ, None, place.settings))
    if provider is not None:
        return _show_provider(provider, asyncio.run(listed_models(provider, settings, os.environ)), as_json=as_json)
    found = model_catalog(settings, os.environ)
    if as_json:
        say_json(found)
    else:
        _show_catalog(found)
    return 0


def _show_provider(provider: str, rows: list[ModelView], *, as_json: bool) -> int:
    if as_json:
        say_json(rows)
    elif not rows:
        say(f"{provider} lists no models.")
    else:
        _show_models(rows)
    return 0


def _show_catalog(found: ModelCatalog) -> None:
    say_table(("provider", "where", "key"), [(row.id, _short_address(row.where), row.key) for row in found.providers])
    say()
    for lacks in dict.fromkeys(row.lacks for row in found.providers if row.lacks):
        without = ", ".join(row.id for row in found.providers if row.lacks == lacks)
        for line in textwrap.wrap(f"Without {', '.join(lacks)}: {without}.", WIDTH):
            say(line)
    say()
    _show_models(found.models)
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


def _short_address(where: str) -> str:
    return where if len(where) <= WHERE else f"{where[: WHERE - 1]}…"


_SOURCES = {SETTINGS: "settings", SERVER: "server", CATALOGUE: "catalogue", OWN_SERVER: ""}


def _show_models(models: Sequence[ModelView]) -> None:
    say_table(("model", "alias", "window", "USD in", "out", "source"), [_model_row(model) for model in models])


def _model_row(model: ModelView) -> tuple[str, ...]:
    window = f"{model.context_tokens // 1000:,}k" if model.context_tokens else "unknown"
    prices = [f"{price:g}" if price is not None else "unknown" for price in (model.usd_in, model.usd_out)]
    window_by = model.sources.get("context_tokens", "")
    price_by = model.sources.get("price", "")
    by = dict.fromkeys(_SOURCES[source.partition(":")[0]] for source in (window_by, price_by) if source)
    return model.name, model.alias, window, *prices, ", ".join(filter(None, by))
