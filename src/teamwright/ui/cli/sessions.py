"""`teamwright sessions`: the sessions that can be resumed; `rm` removes one."""

from __future__ import annotations

import asyncio
import sys

import click

from teamwright.config.person_authority import require_person
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.saved.retention import remove_session, retention_days
from teamwright.saved.sessions import find_session, session_views
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.output import json_flag, say, say_json, say_table
from teamwright.ui.cli.run_location import RunLocation, run_location
from teamwright.ui.cli.session_choice import session_row
from teamwright.ui.display_text import one_line


@click.group(invoke_without_command=True)
@click.option("--all", "everywhere", is_flag=True, help="List the sessions of all directories.")
@json_flag
@click.pass_context
def sessions(ctx: click.Context, /, everywhere: bool, as_json: bool) -> int:
    """List the sessions of this directory, newest first. `teamwright resume ID` continues one."""
    if ctx.invoked_subcommand is not None:
        return 0
    place = run_location(ctx)
    views = session_views(resolve_home(place.home), None if everywhere else place.cwd)
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
        say(_retention_text(place))
    return 0


@sessions.command("rm")
@click.argument("name", metavar="ID")
@click.option("--force", is_flag=True, help="Also while a team or an open task needs the session.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def remove_command(ctx: click.Context, /, name: str, force: bool, yes: bool) -> int:
    """Remove the session whose id begins with ID: its transcripts, events and edit history."""
    place = run_location(ctx)
    home = resolve_home(place.home)
    require_person(home, "removes a session")
    found = find_session(home, place.cwd, name)
    if not yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("usage", "no person is here to say yes", do=["add --yes"], note="nothing was removed")
        if not click.confirm(f"Remove session {found.id[:8]} ({one_line(found.prompt, 60) or 'no prompt'}) for good?"):
            say("Nothing was removed.")
            return 0
    asyncio.run(remove_session(home, found, force=force))
    say(f"Session {found.id[:8]} was removed.")
    return 0


def _retention_text(where: RunLocation) -> str:
    """Return how long the settings keep sessions, as a text."""
    try:
        days = retention_days(resolve_home(where.home), where.cwd, where.settings)
    except TeamwrightError as problem:
        return f"The retention cannot be read: {problem.what}"
    if not days:
        return "Kept for ever (retention_days is 0)."
    return f"Kept for {days} days, longer while a team or an open task needs one."


def _with_directory(row: tuple[str, str, str], cwd: str) -> tuple[str, str, str, str]:
    return row[0], row[1], cwd if len(cwd) <= 30 else f"…{cwd[-29:]}", row[2]
