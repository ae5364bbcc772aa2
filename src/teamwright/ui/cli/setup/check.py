"""`teamwright check`: every asset of this directory, and what becomes of it. Exit 1 when one is broken."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import click

from teamwright.app.assets.asset import GROUPS, Asset, shown
from teamwright.app.assets.listing import Assets, assets_of
from teamwright.app.assets.subject import Asked
from teamwright.app.inspect import home_at
from teamwright.ui.cli.agents.given import agents_given, plugins_given
from teamwright.ui.cli.flags import agent_flags
from teamwright.ui.cli.looking import json_flag
from teamwright.ui.cli.output import WIDTH, columns, one_line, pad, say, say_json
from teamwright.ui.cli.place import place_of

STATE_WIDTH = 12
"""Columns of the state, and of what goes on in a further line."""


@click.command(params=agent_flags())
@json_flag
@click.pass_context
def check(ctx: click.Context, /, as_json: bool, **flags: Any) -> int:
    """Every file here that a run looks at: used, ignored and why, waiting for trust, or broken with its line.

    Instructions, settings, agents, skills, commands, hooks, MCP servers, the team file. Runs nothing, contacts nobody.
    """
    place = place_of(ctx)
    given = agents_given(place, flags)
    asked = Asked(home_at(place.home), place.cwd, os.environ, place.settings, given, plugins_given(place, flags))
    found = assets_of(asked)
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
    say(", ".join(f"{count} {state}" if state != "needs trust" else _waiting(count) for state, count in counts.items()))
    if counts["needs trust"]:
        say("What waits takes effect after: teamwright trust")


def _waiting(count: int) -> str:
    return f"{count} {'needs' if count == 1 else 'need'} trust"


def _line(asset: Asset, cwd: Path) -> None:
    """State, file and line, name, why: on one line where they fit; else what is too long goes on below, never cut."""
    where = shown(asset.file, cwd) if asset.file.startswith("/") else asset.file
    where += f":{asset.line}" if asset.line else ""
    name = "" if where.split(":")[0].endswith(asset.name) else one_line(asset.name)
    why = one_line(asset.why.replace(f"{cwd}{os.sep}", "").replace(f"{Path.home()}{os.sep}", "~/"))
    what = f"{name} {why}" if why.startswith("is ") else ": ".join(part for part in (name, why) if part)
    head = f"  {pad(asset.state, STATE_WIDTH)} {one_line(where)}"
    if not what:
        say(head)
    elif columns(head) + 2 + columns(what) <= WIDTH:
        say(f"{head}  {what}")
    else:
        say(head)
        indent = " " * (STATE_WIDTH + 5)
        for part in textwrap.wrap(what, WIDTH - len(indent), break_on_hyphens=False):
            say(indent + part)
