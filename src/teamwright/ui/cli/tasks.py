"""`teamwright tasks TEAM`: the task list, as the files contain it."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

import click

from teamwright.protocol.errors import UsageError
from teamwright.saved.teams import find_tasks
from teamwright.storage.paths import Home
from teamwright.team_records.views import TaskView
from teamwright.ui.cli.output import json_flag, say, say_json, say_table
from teamwright.ui.cli.run_location import RunLocation, open_home, run_location
from teamwright.views.status import status_views


@click.command()
@click.argument("team", required=False, metavar="[TEAM]")
@json_flag
@click.pass_context
def tasks(ctx: click.Context, /, team: str | None, as_json: bool) -> int:
    """List the tasks of a team, or of a session without a team (session-…).

    Without TEAM: the running team of this directory, else the newest.
    """
    place = run_location(ctx)
    home = open_home(place, team)
    views = find_tasks(home, team) if team is not None else _tasks_here(home, place)
    if as_json:
        say_json(views)
    elif not views:
        say("No tasks.")
    else:
        say_table(("task", "status", "owner", "subject"), task_rows(views))
    return 0


def _tasks_here(home: Home, place: RunLocation) -> tuple[TaskView, ...]:
    """Return the tasks of the team of this directory. Raises UsageError when several teams run here."""
    teams = status_views(home, place.cwd)
    if len(teams) > 1:
        raise UsageError(
            "usage",
            f"{len(teams)} teams run in this directory",
            do=[f"teamwright tasks {quote(team.name)}" for team in teams],
        )
    return find_tasks(home, teams[0].directory) if teams else ()


def task_rows(views: Iterable[TaskView]) -> list[tuple[str, str, str, str]]:
    """Return tasks as cells: number, status with open blockers, owner, subject."""
    return [(f"#{view.id}", _status(view), view.owner or "", view.damaged or view.subject) for view in views]


def _status(view: TaskView) -> str:
    if view.damaged:
        return "damaged"
    if view.unverified or view.integration or view.notes:
        return ", ".join(filter(None, (view.status, "unverified" * view.unverified, view.integration, *view.notes)))
    if view.waits_for:
        return f"waits for {', '.join(f'#{id}' for id in view.waits_for)}"
    return "given, not started" if view.status == "pending" and view.owner else view.status
