"""`teamwright undo`: take back the edits of a session's last prompt, all or none."""

from __future__ import annotations

import asyncio
import sys

import click

from teamwright.config.person_authority import require_person
from teamwright.edit_history.history_location import HistoryLocation
from teamwright.edit_history.queries import preview_undo, undo_on_disk
from teamwright.edit_history.undo import COMMANDS_STAY
from teamwright.edit_history.undo_plan import UndoPlan
from teamwright.protocol.errors import UsageError
from teamwright.team_records.views import resolve_home
from teamwright.ui.change_text import plan_rows, undone_lines
from teamwright.ui.cli.diff import find_edits
from teamwright.ui.cli.output import format_iso, json_flag, say, say_facts, say_json, say_table
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import clean


@click.command()
@click.argument("name", required=False, metavar="[SESSION or TEAM]")
@click.option("--member", metavar="NAME", help="Only this member's edits, with those of its sub-agents.")
@click.option("--except", "excluded", metavar="PATH", multiple=True, help="Leave this file as it is; may be repeated.")
@click.option("--force", is_flag=True, help="Undo also while member processes run.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_flag
@click.pass_context
def undo(ctx: click.Context, /, name: str | None, member: str | None, excluded: tuple[str, ...], **how: bool) -> int:
    """Undo the edits of the last prompt that changed files. A second undo goes one prompt further back.

    Changes by shell commands are covered in a git repository, without ignored files. While a session runs, type
    /undo there.
    """
    require_person(resolve_home(run_location(ctx).home), "takes edits back")
    place = run_location(ctx)
    where = asyncio.run(find_edits(place, name))
    agreed = None if how["yes"] else _confirm(where, preview_undo(where, member, excluded))
    if agreed is None and not how["yes"]:
        say("Nothing was changed.")
        return 0
    undone = asyncio.run(undo_on_disk(where, member, excluded, force=how["force"], agreed=agreed))
    if how["as_json"]:
        say_json(undone)
        return 0
    for line in undone_lines(undone):
        say(clean(line))
    return 0


def _confirm(where: HistoryLocation, plan: UndoPlan) -> UndoPlan | None:
    """Ask the person, and return the plan after a yes. Raises UsageError off a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        count = len(plan.steps)
        raise UsageError(
            "usage",
            "no user is present to confirm",
            looked_at=[("session", where.session), ("would do", f"take back {count} file{'' if count == 1 else 's'}")],
            do=["add --yes"],
            note="nothing was changed",
        )
    prompt = f'"{plan.prompt.text}"' if plan.prompt.text else ""
    say_facts([("session", where.session), ("team", where.team), ("prompt", prompt)], label=8)
    say_facts([("said", format_iso(plan.prompt.at) if plan.prompt.at else "")], label=8)
    say()
    say_table(("", "file", "edits of"), plan_rows(plan, where.cwd))
    say()
    return plan if click.confirm(f"Take this back? ({COMMANDS_STAY})") else None
