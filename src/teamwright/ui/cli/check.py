"""`teamwright check`: every configuration file of this directory and its state. Exit code 1 when one is broken."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import click

from teamwright.config.plugins import PluginSource
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.flags import agent_flags
from teamwright.ui.cli.output import WIDTH, json_flag, say, say_json
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import cell_width, one_line, pad
from teamwright.ui.invocation import parse_agents, parse_plugin_dirs
from teamwright.views.assets import GROUPS, Asset, AssetQuery, display_path
from teamwright.views.directory_assets import Assets, list_assets

STATE_WIDTH = 12
"""The width of the state column, and the indent of continuation lines."""


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
        _show(found, Path(os.path.realpath(place.cwd)))
    return 1 if found.counts["broken"] else 0


def _show(found: Assets, cwd: Path) -> None:
    for group in GROUPS:
        mine = [asset for asset in found.assets if asset.group == group]
        if mine:
            say(group)
        for asset in mine:
            _line(asset, cwd)
    if found.assets:
        say()
    counts = found.counts
    say(
        ", ".join(
            f"{count} {state}" if state != "needs trust" else _waiting_text(count) for state, count in counts.items()
        )
    )
    if counts["needs trust"]:
        say("What waits takes effect after: teamwright trust")


def _waiting_text(count: int) -> str:
    return f"{count} {'needs' if count == 1 else 'need'} trust"


def _line(asset: Asset, cwd: Path) -> None:
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
