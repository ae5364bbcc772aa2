"""`teamwright config`: settings with the file of each; get, set and unset a key, list the files, print the schema.

Depends on the package `views` and reads and writes through `config`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from teamwright.config.edit_settings import SettingChange, SettingTarget, Target, set_value, unset_value
from teamwright.config.settings_schema import json_schema
from teamwright.config.settings_view import DEFAULT, SettingsQuery, SettingValue, files, values, values_of
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.output import WIDTH, json_flag, say, say_json
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import cut, one_line, pad

USED_MOST = 5
"""The number of values of a list that `set` prints."""

KEY_WIDTH = 30
"""The width of the key column."""


@click.group(invoke_without_command=True)
@click.pass_context
def config(ctx: click.Context, /) -> int:
    """Show and change settings. Changes your own file or the repository's, never a file of another product."""
    if ctx.invoked_subcommand is None:
        return int(ctx.invoke(list_command))
    return 0


@config.command("list")
@click.option("--all", "every", is_flag=True, help="Also keys that are not set, with their defaults.")
@json_flag
@click.pass_context
def list_command(ctx: click.Context, /, every: bool, as_json: bool) -> int:
    """List every value in effect here, and its file. Secrets are masked."""
    found = values(_query(ctx), defaults=every)
    if as_json:
        say_json(found)
        return 0
    used_values = [value for value in found if value.state == "used" and value.key]
    for file in dict.fromkeys(value.file for value in sorted(used_values, key=lambda value: value.file == DEFAULT)):
        say(one_line(file) if file != DEFAULT else "defaults")
        for value in used_values:
            if value.file == file:
                say(_line(value))
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
    found = values_of(_query(ctx), key)
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
    _say_used(_query(ctx), key)
    return 0


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
    found = files(_query(ctx))
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


def _query(ctx: click.Context) -> SettingsQuery:
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


def _line(value: SettingValue) -> str:
    """Return key and value on one line; a longer line is cut, and complete in the JSON."""
    plain = value.name and value.name == value.value
    key = value.key if plain or not value.name else f"{value.key} {value.name}"
    return cut(f"  {pad(one_line(key), KEY_WIDTH)}  {one_line(_shown_value(value.value))}".rstrip(), WIDTH)
