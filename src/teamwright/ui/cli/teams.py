"""`teamwright teams`: teams on disk, and one of them in full."""

from __future__ import annotations

import click

from teamwright.app.inspect import TeamView, archived_teams, find_team, home_at, team_views
from teamwright.ui.cli.looking import ago, json_flag, moment
from teamwright.ui.cli.output import facts, say, say_json, say_table
from teamwright.ui.cli.place import place_of
from teamwright.ui.cli.tasks import task_rows


@click.group(invoke_without_command=True)
@click.option("--archived", is_flag=True, help="Also teams that were deleted.")
@json_flag
@click.pass_context
def teams(ctx: click.Context, /, archived: bool, as_json: bool) -> int:
    """Teams on disk: live, open (the lead is gone, something is left), finished, or another product's."""
    if ctx.invoked_subcommand is not None:
        return 0
    home = home_at(place_of(ctx).home)
    views = [*team_views(home), *(archived_teams(home) if archived else [])]
    if as_json:
        say_json(views)
    elif not views:
        say("No team yet. Deleted ones: teamwright teams --archived")
    else:
        say_table(("team", "state", "members", "open tasks", "unread", "made", "about"), [_row(view) for view in views])
    return 0


@teams.command()
@click.argument("name")
@json_flag
@click.pass_context
def show(ctx: click.Context, /, name: str, as_json: bool) -> int:
    """Members, tasks and mail of one team."""
    view = find_team(home_at(place_of(ctx).home), name, archived=True)
    if as_json:
        say_json(view)
        return 0
    facts(
        [
            ("team", view.name),
            ("about", view.description),
            ("state", view.state + (f", process {view.lead_pid}" if view.lead_pid else "")),
            ("made", moment(view.created_at / 1000) if view.created_at else ""),
            ("session", view.session),
            ("files", str(view.path)),
            ("damaged", view.damaged),
        ]
    )
    say()
    say_table(
        ("member", "state", "type", "unread", "messages", "model"),
        [_member_row(view, n) for n in range(len(view.members))],
    )
    if view.tasks:
        say()
        say_table(("task", "status", "owner", "subject"), task_rows(view.tasks))
    return 0


def _row(view: TeamView) -> tuple[str, ...]:
    about = f"damaged: {view.damaged}" if view.damaged else view.description
    counts = (str(len(view.members)), str(view.open_tasks), str(view.unread))
    return view.name, view.state, *counts, ago(view.created_at / 1000), about


def _member_row(view: TeamView, position: int) -> tuple[str, ...]:
    one = view.members[position]
    counts = ("damaged", "damaged") if one.unread < 0 else (str(one.unread), str(one.messages))
    return one.name, one.state, one.agent_type, *counts, one.model
