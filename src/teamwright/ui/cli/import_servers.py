"""`teamwright import`: take MCP servers over from the state file of the other product, after showing them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from teamwright.config.edit_settings import SettingTarget, set_value
from teamwright.config.person_authority import require_person
from teamwright.config.project_mcp_file import SERVERS
from teamwright.config.settings_view import SettingsQuery
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.output import json_flag, say, say_json
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import one_line
from teamwright.ui.invocation import is_on_terminal
from teamwright.views.mcp_servers import ImportableServer, importable_servers

_FILES = {"user": "your own settings", "local": "the settings of this checkout"}


@click.command("import")
@click.option("--from", "file", metavar="FILE", default="~/.claude.json", help="Default: ~/.claude.json.")
@click.option("--yes", is_flag=True, help="Take over what is shown, without asking: for scripts.")
@json_flag
@click.pass_context
def import_command(ctx: click.Context, /, file: str, yes: bool, as_json: bool) -> int:
    """Show the MCP servers that another product has for you and for this directory, and take them over."""
    place = run_location(ctx)
    home = resolve_home(place.home)
    path = Path(os.path.normpath(place.cwd / os.path.expanduser(file)))
    found = importable_servers(path, SettingsQuery(home, place.cwd, place.settings))
    if as_json and not yes:
        say_json([_as_json(row) for row in found])
        return 0
    _show(found)
    fresh = [row for row in found if row.state == "new"]
    if not fresh:
        say("There is nothing to take over.")
        return 0
    if not yes and not is_on_terminal():
        say("Nothing was changed. From a script: teamwright import --yes")
        return 1
    require_person(home, "takes servers over", "import")
    if not yes and not click.confirm(f"Take over {len(fresh)} of them", default=False, err=True):
        say("Nothing was changed.")
        return 1
    for row in fresh:
        done = set_value(SettingTarget(home, place.cwd, row.target), f"{SERVERS}.{row.name}", json.dumps(row.entry))
        say(f"Added {one_line(row.name)} to {one_line(done.file)}")
        if done.waits:
            say("It takes effect once this repository is trusted: teamwright trust")
    return 0


def _show(found: list[ImportableServer]) -> None:
    for origin in dict.fromkeys(row.origin for row in found):
        say(f"from {one_line(origin)}")
        for row in (row for row in found if row.origin == origin):
            note = f"to {_FILES[row.target]}" if row.state == "new" else f"left out: {row.why}"
            say(f"  {one_line(row.name)}: {one_line(row.what)}   ({one_line(note)})")


def _as_json(row: ImportableServer) -> dict[str, object]:
    keys = ("name", "origin", "target", "what", "state", "why")
    return {key: getattr(row, key) for key in keys}
