"""`teamwright sessions`: what can be gone on with."""

from __future__ import annotations

import click

from teamwright.app.ended.retention import retention_days
from teamwright.app.inspect import home_at
from teamwright.app.looking.sessions import session_views
from teamwright.protocol.errors import TeamwrightError
from teamwright.ui.cli.choosing import session_row
from teamwright.ui.cli.looking import json_flag
from teamwright.ui.cli.output import say, say_json, say_table
from teamwright.ui.cli.place import Place, place_of


@click.command()
@click.option("--all", "everywhere", is_flag=True, help="Of all directories.")
@json_flag
@click.pass_context
def sessions(ctx: click.Context, /, everywhere: bool, as_json: bool) -> int:
    """Sessions of this directory, the newest first. `teamwright resume ID` goes on with one."""
    place = place_of(ctx)
    views = session_views(home_at(place.home), None if everywhere else place.cwd)
    if as_json:
        say_json(views)
    elif not views:
        say("No session yet." if everywhere else f"No session of {place.cwd} yet. Others: teamwright sessions --all")
    elif everywhere:
        say_table(("id", "last", "directory", "prompt"), [_with_directory(session_row(v), v.cwd) for v in views])
    else:
        say_table(("id", "last", "prompt"), [session_row(view) for view in views])
    if views and not as_json:
        say()
        say(_kept(place))
    return 0


def _kept(place: Place) -> str:
    """How long sessions are kept, by the settings that hold here."""
    try:
        days = retention_days(home_at(place.home), place.cwd, place.settings)
    except TeamwrightError as problem:
        return f"How long they are kept cannot be told: {problem.what}"
    if not days:
        return "Kept for ever (retention_days is 0)."
    return f"Kept for {days} days, longer while a team or an open task needs one."


def _with_directory(row: tuple[str, str, str], cwd: str) -> tuple[str, str, str, str]:
    return row[0], row[1], cwd if len(cwd) <= 30 else f"…{cwd[-29:]}", row[2]
