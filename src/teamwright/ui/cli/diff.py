"""`teamwright diff`: the changes of a session to files, with the member that made each."""

from __future__ import annotations

import asyncio

import click
from msgspec.structs import replace

from teamwright.edit_history.history_location import HistoryLocation, accessed_history
from teamwright.edit_history.queries import SessionChanges, edit_of_call, session_changes
from teamwright.protocol.errors import UsageError
from teamwright.storage.paths import Home
from teamwright.team_records.views import resolve_home
from teamwright.ui.change_text import ChangeTotals, change_lines, comparison_line, stat_rows, summary_notes
from teamwright.ui.cli.output import format_iso, json_flag, say, say_json, say_styled, say_table
from teamwright.ui.cli.run_location import RunLocation, open_access, run_location
from teamwright.ui.display_text import clean


@click.command()
@click.argument("name", required=False, metavar="[SESSION or TEAM or @MEMBER]")
@click.option("--member", metavar="NAME", help="Only this member's edits, with those of its sub-agents.")
@click.option("--call", "call_id", metavar="ID", help="Only what one tool call changed, e.g. c7.")
@click.option("--stat", is_flag=True, help="One line per file.")
@json_flag
@click.pass_context
def diff(ctx: click.Context, /, name: str | None, member: str | None, call_id: str | None, **how: bool) -> int:
    """Show what a session changed since it began, and which member did it. Newest session here by default.

    The changes of one member with a worktree are those against the integration branch. Changes by shell commands are
    covered in a git repository, without ignored files.
    """
    if name is not None and name.startswith("@") and member is None:
        name, member = None, name
    if call_id is not None and (member is not None or how["stat"]):
        raise UsageError("usage", "--call goes with --json alone", note="nothing was shown")
    place = run_location(ctx)
    home = resolve_home(place.home)
    member = member.removeprefix("@") if member is not None else None
    where = asyncio.run(find_edits(place, name))
    if call_id is not None:
        change = edit_of_call(where, call_id)
        say_json(change) if how["as_json"] else say_styled(change_lines(change), home)
        return 0
    found = session_changes(where, member)
    if how["as_json"]:
        _say_json(found, stat=how["stat"])
    else:
        _show(found, home, stat=how["stat"])
    return 0


async def find_edits(place: RunLocation, name: str | None) -> HistoryLocation:
    """Return the location of a session's edits, which are on this machine. Raises TeamwrightError."""
    async with open_access(place, name) as access:
        return accessed_history(access, resolve_home(place.home), place.cwd, name).require_here()


def _say_json(found: SessionChanges, *, stat: bool) -> None:
    files = [replace(change, diff="") if stat else change for change in found.files]
    where = found.place
    about = {"session": where.session, "team": where.team, "cwd": where.cwd, "member": found.member}
    notes = {"again": found.again, "cut_off": found.cut_off, "damaged": found.damaged, "against": found.against}
    say_json({**about, "files": files, **notes})


def _show(found: SessionChanges, home: Home, *, stat: bool) -> None:
    sums = ChangeTotals()
    if found.against:
        say(clean(comparison_line(found.member, found.against)))
        say()
    files = (sums.add(change) for change in found.files)
    if stat:
        if rows := list(stat_rows(files)):
            say_table(("file", "lines", "who", ""), rows)
            say()
    else:
        for change in files:
            say_styled(change_lines(change), home)
            say()
    whose = f"{clean(found.member)} in " if found.member else ""
    say(clean(str(sums)) if sums.files else f"Nothing is changed by {whose}session {found.place.session[:8]}.")
    if found.against:
        return
    for line in summary_notes(found.again, format_iso(found.cut_off) if found.cut_off else "", found.damaged):
        say(clean(line))
