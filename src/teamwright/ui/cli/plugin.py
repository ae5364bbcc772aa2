"""`teamwright plugin`: the added plugins; `add`, `update` and `remove` change them."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec import to_builtins

from teamwright.config.plugin_sources import FetchedPlugin, fetch_again, fetch_plugins
from teamwright.config.plugins import (
    InstalledPlugin,
    Plugin,
    PluginStore,
    copy_plugin,
    data_directory,
    digest_of,
    read_plugin,
    require_unchanged,
)
from teamwright.config.trust import require_person
from teamwright.protocol.errors import UsageError
from teamwright.storage.paths import Home
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.output import json_flag, say, say_facts, say_json, say_table
from teamwright.ui.cli.run_location import is_on_terminal, run_location
from teamwright.ui.display_text import one_line
from teamwright.views.configuration_sources import plugin_contents

_CHANGES = "adds, updates and removes plugins"


@click.group("plugin", invoke_without_command=True)
@json_flag
@click.pass_context
def plugin_command(ctx: click.Context, /, as_json: bool) -> int:
    """List the added plugins, which every session of yours uses."""
    return _list(ctx, as_json) if ctx.invoked_subcommand is None else 0


@plugin_command.command("list")
@json_flag
@click.pass_context
def list_command(ctx: click.Context, /, as_json: bool) -> int:
    """List the added plugins with their source, commit and state."""
    return _list(ctx, as_json)


@plugin_command.command("add")
@click.argument("source")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--yes", is_flag=True, help="Add what is shown, without asking: for scripts.")
@click.pass_context
def add_command(ctx: click.Context, /, source: str, names: tuple[str, ...], yes: bool) -> int:
    """Show a plugin, and add it when a person agrees. Nothing of it runs before.

    SOURCE is a directory, a git address (with #REF), OWNER/REPO at GitHub, or a marketplace; NAME chooses its plugins.
    """
    place = run_location(ctx)
    home = _home_of_person(ctx, "plugin add")
    store = PluginStore.load(home)
    with _scratch() as scratch:
        # All are read and checked before the first one is added.
        chosen = [(read_plugin(one.source), one) for one in fetch_plugins(source, names, place.cwd, scratch)]
        for plugin, fetched in chosen:
            known = store.plugins.get(plugin.name)
            if known is not None and (known.source, known.marketplace) != (fetched.origin, fetched.entry_name):
                raise UsageError(
                    "usage",
                    f"a plugin {plugin.name} was added from {known.source}",
                    do=[f"teamwright plugin remove {plugin.name}"],
                    note="nothing was added",
                )
            _require_parts(plugin, fetched, home)
        for plugin, fetched in chosen:
            digest = _show(plugin, fetched, home)
            if not _agrees(f"Add {plugin.name} for all your sessions", yes, "teamwright plugin add --yes"):
                return 1
            _keep(store, plugin, fetched, digest)
            say(f"Added {plugin.name}. New sessions use it; teamwright plugin remove {plugin.name} removes it.")
    return 0


@plugin_command.command("update")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--yes", is_flag=True, help="Use what is shown, without asking: for scripts.")
@click.pass_context
def update_command(ctx: click.Context, /, names: tuple[str, ...], yes: bool) -> int:
    """Fetch added plugins again, all without NAME. A changed one is shown, and used when a person agrees."""
    home = _home_of_person(ctx, "plugin update")
    store = PluginStore.load(home)
    for name in names or tuple(store.plugins):
        known = store.find(name)
        with _scratch() as scratch:
            fetched = fetch_again(known, scratch)
            plugin = read_plugin(fetched.source)
            if digest_of(fetched.source.path) == known.digest and _state(known) == "used":
                say(f"{name} is up to date.")
                continue
            if plugin.name != name:
                do = [f"teamwright plugin remove {name}", f"teamwright plugin add {known.source}"]
                raise UsageError("usage", f"{name} is called {plugin.name} now", do=do, note="nothing was changed")
            digest = _show(plugin, fetched, home)
            if not _agrees(f"Use this version of {name}", yes, "teamwright plugin update --yes"):
                return 1
            _keep(store, plugin, fetched, digest)
            say(f"Updated {name}.")
    return 0


@plugin_command.command("remove")
@click.argument("name")
@click.pass_context
def remove_command(ctx: click.Context, /, name: str) -> int:
    """Remove the added plugin NAME. The files that it stored itself stay."""
    home = _home_of_person(ctx, "plugin remove")
    gone = PluginStore.load(home).remove(name)
    say(f"Removed {name}.")
    data = data_directory(Plugin(gone.name, Path(gone.directory)), home)
    if data.is_dir():
        say(f"Its own data stays in {data}.")
    return 0


def _home_of_person(ctx: click.Context, tried: str) -> Home:
    """Return the home, for a change by a person. Raises UsageError (`not-for-agents`)."""
    home = resolve_home(run_location(ctx).home)
    require_person(home, _CHANGES, tried)
    home.prepare()
    return home


def _list(ctx: click.Context, as_json: bool) -> int:
    store = PluginStore.load(resolve_home(run_location(ctx).home))
    found = list(store.plugins.values())
    if as_json:
        say_json([{**to_builtins(one), "state": _state(one)} for one in found])
    elif not found:
        say("No plugin was added. teamwright plugin add SOURCE adds one.")
    else:
        rows = [(one.name, one.version, one.commit[:12], _state(one), one_line(one.source)) for one in found]
        say_table(("plugin", "version", "commit", "state", "source"), rows)
    return 0


def _state(plugin: InstalledPlugin) -> str:
    """Return the state of an added plugin: used, or why it is not."""
    try:
        require_unchanged(plugin)
        read_plugin(plugin.plugin_source)
    except UsageError as problem:
        return f"not used: {problem.what}"
    return "used"


def _keep(store: PluginStore, plugin: Plugin, fetched: FetchedPlugin, shown_digest: str) -> None:
    """Store a copy of the plugin. Raises UsageError when its files are not those that were shown."""
    source = fetched.source
    directory, digest = copy_plugin(source.path, store.home, plugin.name)
    if digest != shown_digest:
        raise UsageError("usage", f"{source.path} changed since it was shown", note="nothing was added")
    store.add(
        InstalledPlugin(
            name=plugin.name,
            source=fetched.origin,
            directory=str(directory),
            digest=digest,
            commit=fetched.commit,
            ref=fetched.ref,
            marketplace=fetched.entry_name,
            version=plugin.version,
            added_at=datetime.now(UTC).isoformat(timespec="seconds"),
            entry=dict(source.entry),
            is_whole=source.is_whole,
            is_shared=source.is_shared,
        )
    )


def _show(plugin: Plugin, fetched: FetchedPlugin, home: Home) -> str:
    """Show a plugin, and return the digest of what was shown."""
    digest = digest_of(fetched.source.path)
    contents = plugin_contents(plugin, home)
    say_facts(
        [
            ("plugin", plugin.name + (f" {plugin.version}" if plugin.version else "")),
            ("source", fetched.origin + (f" ({fetched.entry_name})" if fetched.entry_name else "")),
            ("commit", fetched.commit or "none: it is bound to the content of its files"),
            *((kind, ", ".join(names)) for kind, names in contents.names.items()),
        ]
    )
    if contents.effects:
        say("what it allows or runs")
        for line in contents.effects:
            say(f"  {one_line(line)}")
    for line in contents.problems:
        say(f"not used: {one_line(line)}")
    return digest


def _require_parts(plugin: Plugin, fetched: FetchedPlugin, home: Home) -> None:
    """Raise UsageError for a source without any part of a plugin."""
    contents = plugin_contents(plugin, home)
    if not contents.names and not contents.effects:
        what = f"{fetched.entry_name} of the marketplace {fetched.origin}" if fetched.entry_name else fetched.origin
        raise UsageError(
            "usage",
            f"{what} has no part of a plugin",
            looked_at=[("parts", "agents/*.md, commands/*.md, skills/NAME/SKILL.md, hooks/hooks.json, .mcp.json")],
            do=["name the directory that has them"],
            note="nothing was added",
        )


def _agrees(question: str, yes: bool, script: str) -> bool:
    """Return True when the person at this terminal, or the flag, agrees."""
    if yes:
        return True
    if not is_on_terminal():
        say(f"Nothing was changed. From a script: {script}")
        return False
    if click.confirm(question, default=False, err=True):
        return True
    say("Nothing was changed.")
    return False


@contextmanager
def _scratch() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="teamwright-plugin-") as directory:
        yield Path(directory)
