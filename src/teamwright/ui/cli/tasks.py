"""`teamwright tasks TEAM`: the task list, as the files contain it."""

from __future__ import annotations

from collections.abc import Iterable

import click

from teamwright.session.lookup.saved_teams import find_tasks
from teamwright.teams.status.team_views import TaskView
from teamwright.ui.cli.output import json_flag, say, say_json, say_table
from teamwright.ui.cli.run_location import open_home, run_location


@click.command()
@click.argument("team")
@json_flag
@click.pass_context
def tasks(ctx: click.Context, /, team: str, as_json: bool) -> int:
    """List the tasks of a team, or of a session without a team (session-…)."""
    views = find_tasks(open_home(run_location(ctx), team), team)
    if as_json:
        say_json(views)
    elif not views:
        say("No tasks.")
    else:
        say_table(("task", "status", "owner", "subject"), task_rows(views))
    return 0


def task_rows(views: Iterable[TaskView]) -> list[tuple[str, str, str, str]]:
    """Return tasks as cells: number, status with open blockers, owner, subject."""
    return [(f"#{view.id}", _status(view), view.owner or "", view.damaged or view.subject) for view in views]


def _status(view: TaskView) -> str:
    if view.damaged:
        return "damaged"
    if view.unverified:
        return f"{view.status}, unverified"
    if view.waits_for:
        return f"waits for {', '.join(f'#{id}' for id in view.waits_for)}"
    return "given, not started" if view.status == "pending" and view.owner else view.status
