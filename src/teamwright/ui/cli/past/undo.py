"""`teamwright undo`: the edits of a session's last prompt are taken back, all or none."""

from __future__ import annotations

import asyncio
import sys

import click

from teamwright.app.approver import require_person
from teamwright.app.inspect import home_at
from teamwright.app.wayback.asked import undo_ahead, undo_ended
from teamwright.app.wayback.places import Place, place_on_disk
from teamwright.app.wayback.planning import Plan
from teamwright.app.wayback.undoing import COMMANDS_STAY
from teamwright.protocol.errors import UsageError
from teamwright.ui.changes import plan_rows, undone_lines
from teamwright.ui.cli.looking import json_flag, local
from teamwright.ui.cli.output import clean, facts, say, say_json, say_table
from teamwright.ui.cli.place import place_of


@click.command()
@click.argument("name", required=False, metavar="[SESSION or TEAM]")
@click.option("--member", metavar="NAME", help="Only this member's edits, with those of its sub-agents.")
@click.option("--except", "left", metavar="PATH", multiple=True, help="Leave this file as it is; may be repeated.")
@click.option("--force", is_flag=True, help="Also while members' own processes live.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_flag
@click.pass_context
def undo(ctx: click.Context, /, name: str | None, member: str | None, left: tuple[str, ...], **how: bool) -> int:
    """Take back the edits of the last prompt that changed files. Again: one prompt further back.

    Shell commands are not covered. While a session runs, type /undo there.
    """
    require_person(home_at(place_of(ctx).home), "takes edits back")
    place = place_of(ctx)
    where = place_on_disk(home_at(place.home), place.cwd, name)
    agreed = None if how["yes"] else _agreed(where, undo_ahead(where, member, left))
    if agreed is None and not how["yes"]:
        say("Nothing was changed.")
        return 0
    undone = asyncio.run(undo_ended(where, member, left, force=how["force"], agreed=agreed))
    if how["as_json"]:
        say_json(undone)
        return 0
    for line in undone_lines(undone):
        say(clean(line))
    return 0


def _agreed(where: Place, plan: Plan) -> Plan | None:
    """The plan, if the person says yes to it. Raises UsageError when nobody is here to say so."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        count = len(plan.steps)
        raise UsageError(
            "usage",
            "no user is present to confirm",
            looked_at=[("session", where.session), ("would do", f"take back {count} file{'' if count == 1 else 's'}")],
            do=["add --yes"],
            note="nothing was changed",
        )
    said = f'"{plan.prompt.text}"' if plan.prompt.text else ""
    facts([("session", where.session), ("team", where.team), ("prompt", said)], label=8)
    facts([("said", local(plan.prompt.at) if plan.prompt.at else "")], label=8)
    say()
    say_table(("", "file", "edits of"), plan_rows(plan, where.cwd))
    say()
    return plan if click.confirm(f"Take this back? ({COMMANDS_STAY})") else None
