"""`teamwright audit`: messages, tasks and processes of a team that are lost, duplicated or left behind.

Depends only on the team's files.
"""

from __future__ import annotations

import click

from teamwright.saved.teams import find_team_view
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.output import json_flag, say, say_json
from teamwright.ui.cli.run_location import named_database, open_home, run_location
from teamwright.views.audit.consistency_check import audit as audit_team
from teamwright.views.status import status_views


@click.command()
@click.argument("team", required=False, metavar="[TEAM]")
@json_flag
@click.pass_context
def audit(ctx: click.Context, /, team: str | None, as_json: bool) -> int:
    """Check messages, tasks, transcripts, processes and locks of a team by its files. Exit code 1 means a problem.

    Without TEAM: the running teams of this directory, else the newest.
    """
    place = run_location(ctx)
    home = resolve_home(place.home) if named_database(place) is None else open_home(place, team)
    names = [team] if team is not None else [view.directory for view in status_views(home, place.cwd)]
    views = [find_team_view(home, name, archived=True) for name in names]
    found = [audit_team(home, view.directory, running=[view.lead_pid]) for view in views]
    if as_json:
        say_json([row for one in found for row in one.rows()])
    elif not found:
        say("No team yet.")
    for number, one in enumerate(() if as_json else found):
        for line in [*([""] if number else []), f"{one.team} ({one.state}), from the files alone", *one.report()]:
            say(line)
    return 0 if all(one.clean for one in found) else 1
