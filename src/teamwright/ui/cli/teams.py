"""`teamwright teams`: teams on disk; `show` prints one, `adopt` gives it a new lead, `rm` archives or deletes it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from shlex import quote
from typing import Any

import click

from teamwright.config.person_authority import require_person
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.saved.removal import (
    RemovedTeam,
    delete_archived_teams,
    find_archived_teams,
    remove_finished,
    remove_team,
)
from teamwright.saved.teams import find_saved_team, find_team_view, require_adoptable
from teamwright.team_records.views import TeamView, archived_teams, resolve_home, team_views
from teamwright.ui.cli.flags import HEADLESS_FLAGS, RUN_FLAGS
from teamwright.ui.cli.output import format_age, format_datetime, json_flag, say, say_facts, say_json, say_table
from teamwright.ui.cli.run_location import RunLocation, named_database, open_home, run_location
from teamwright.ui.cli.start import is_headless, refuse_headless_flags, run
from teamwright.ui.cli.tasks import task_rows
from teamwright.ui.cli.usage_errors import too_many_words
from teamwright.ui.display_text import one_line


@click.group(invoke_without_command=True)
@click.option("--archived", is_flag=True, help="List deleted teams too.")
@json_flag
@click.pass_context
def teams(ctx: click.Context, /, archived: bool, as_json: bool) -> int:
    """List teams on disk: live, open (no lead, but open work), finished, or another product's."""
    if ctx.invoked_subcommand is not None:
        return 0
    home = open_home(run_location(ctx))
    views = [*team_views(home), *(archived_teams(home) if archived else [])]
    if as_json:
        say_json([view.as_json() for view in views])
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
    """Show members, tasks and messages of one team."""
    home = open_home(run_location(ctx), name)
    view = find_team_view(home, name, archived=True)
    if as_json:
        say_json(view.as_json())
        return 0
    say_facts(
        [
            ("team", view.name),
            ("about", view.description),
            ("state", view.state + (f", process {view.lead_pid}" if view.lead_pid else "")),
            ("made", format_datetime(view.created_at / 1000) if view.created_at else ""),
            ("session", view.session),
            ("files", home.origin or str(view.path)),
            ("damaged", view.damaged),
        ]
    )
    say()
    say_table(
        ("member", "state", "type", "mode", "unread", "messages", "model"),
        [_member_row(view, n) for n in range(len(view.members))],
    )
    if view.tasks:
        say()
        say_table(("task", "status", "owner", "subject"), task_rows(view.tasks))
    return 0


@teams.command()
@click.argument("name", required=False)
@click.option("--force", is_flag=True, help="Also with open tasks or unread mail, or when files are damaged.")
@click.option("--finished", is_flag=True, help="All finished teams: no lead, open task or unread mail.")
@click.option("--archived", is_flag=True, help="Delete archived teams for good, or the one named NAME.")
@click.option("--older", metavar="AGE", help="With either: unchanged for at least this long, e.g. 30d or 12h.")
@click.option("--yes", is_flag=True, help="With --archived: do not ask.")
@json_flag
@click.pass_context
def rm(
    ctx: click.Context,
    /,
    *,
    name: str | None,
    force: bool,
    finished: bool,
    archived: bool,
    older: str | None,
    yes: bool,
    as_json: bool,
) -> int:
    """Archive a team without a running lead: requests, messages and tasks.

    With --archived, delete teams in the archive. They are listed first, then you are asked.
    """
    place = run_location(ctx)
    if archived and (finished or force):
        raise UsageError("usage", "--archived takes no --finished and no --force", note="nothing was removed")
    if archived:
        before = time.time() - (0.0 if older is None else _seconds(older))
        return _rm_archived(place, name or "", before, yes=yes, as_json=as_json)
    if yes:
        raise UsageError("usage", "--yes goes with --archived", note="nothing was removed")
    if finished:
        if name or force:
            raise UsageError("usage", "--finished takes no NAME and no --force", note="nothing was removed")
        before = time.time() - (0.0 if older is None else _seconds(older))
        return _rm_finished(asyncio.run(_remove_finished(place, before)), as_json=as_json)
    if not name or older is not None:
        what = "teams rm needs a NAME, --finished or --archived"
        if name:
            what = "--older goes with --finished or --archived"
        raise UsageError("usage", what, do=["teamwright teams rm --finished --older 7d"], note="nothing was removed")
    removed = asyncio.run(_remove(place, name, force=force))
    if as_json:
        say_json(removed)
        return 1 if removed.stayed else 0
    say(one_line(f'team "{removed.team}" is in the archive: {removed.archived}'))
    left = _unfinished_text(removed)
    if left:
        say(f"with it     {left}")
    if removed.ended:
        say(f"ended       processes that it had left running: {', '.join(map(str, removed.ended))}")
    say(f"look at it  teamwright teams show {quote(removed.archived.name)}")
    if removed.stayed:
        raise TeamwrightError(
            "failed", f"some processes of the team would not end: {', '.join(map(str, removed.stayed))}"
        )
    return 0


async def _remove(place: RunLocation, name: str, *, force: bool) -> RemovedTeam:
    if (address := named_database(place)) is None:
        return await remove_team(await asyncio.to_thread(open_home, place, name), name, force=force)
    from teamwright.saved.database_access import open_database_archive

    require_person(resolve_home(place.home), "removes teams", f"teams rm {name}"[:100])
    async with open_database_archive(address, name) as (home, archive):
        return await remove_team(home, name, force=force, archive=archive)


async def _remove_finished(place: RunLocation, before: float) -> list[RemovedTeam]:
    if (address := named_database(place)) is None:
        return await remove_finished(await asyncio.to_thread(open_home, place), before)
    from teamwright.saved.database_access import open_database_archive

    require_person(resolve_home(place.home), "removes teams", "teams rm --finished")
    async with open_database_archive(address, "") as (home, archive):
        return await remove_finished(home, before, archive)


def _rm_finished(removed: Sequence[RemovedTeam], *, as_json: bool) -> int:
    if as_json:
        say_json(removed)
        return 0
    for one in removed:
        say(one_line(f'team "{one.team}" is in the archive: {one.archived}'))
    if not removed:
        say("No finished team of that age.")
    return 0


_SHOWN = 12
"""The number of archived teams that are listed before they are deleted."""


def _rm_archived(place: RunLocation, name: str, before: float, *, yes: bool, as_json: bool) -> int:
    """Delete archived teams after a person said yes; print what is deleted."""
    if named_database(place) is not None:
        what = "--archived deletes teams in the archive of this computer, not those of a database"
        raise UsageError("usage", what, note="nothing was removed")
    home = resolve_home(place.home)
    require_person(home, "deletes archived teams", "teams rm --archived")
    found = find_archived_teams(home, before, name)
    if as_json and not yes:
        raise UsageError("usage", "--json does not ask", do=["add --yes"], note="nothing was removed")
    if not as_json:
        if not found:
            say("No archived team of that age.")
            return 0
        say_table(
            ("archived team", "entry", "archived"),
            [(t.team, t.entry, format_age(t.archived_at)) for t in found[:_SHOWN]],
        )
        if len(found) > _SHOWN:
            say(f"and {len(found) - _SHOWN} more: teamwright teams --archived")
    teams_text = "1 archived team" if len(found) == 1 else f"{len(found)} archived teams"
    if not yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("usage", "no person is here to say yes", do=["add --yes"], note="nothing was removed")
        if not click.confirm(f"Delete {teams_text} with requests, messages and tasks for good?"):
            say("Nothing was removed.")
            return 0
    gone = delete_archived_teams(home, found)
    if as_json:
        say_json(gone)
    else:
        say(f"{teams_text} deleted." if len(gone) == len(found) else f"{len(gone)} of {teams_text} deleted.")
    if stayed := [one.entry for one in found if one not in gone]:
        raise TeamwrightError(
            "failed", f"could not be deleted: {', '.join(stayed[:5])}", looked_at=[("archive", str(home.archive))]
        )
    return 0


_UNITS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def _seconds(age: str) -> float:
    """Return the seconds of an age such as `7d` or `12h`. Raises UsageError."""
    number, unit = age[:-1], age[-1:]
    if unit not in _UNITS or not number.isascii() or not number.isdigit():
        raise UsageError(
            "usage",
            f"--older {age[:20]!r} is not an age",
            do=["a number with m, h, d or w: 7d"],
            note="nothing was removed",
        )
    return int(number) * _UNITS[unit]


@teams.command(params=[*RUN_FLAGS, *HEADLESS_FLAGS])
@click.argument("name")
@click.argument("prompt", nargs=-1, metavar="[PROMPT]")
@click.pass_context
def adopt(ctx: click.Context, /, name: str, prompt: tuple[str, ...], **flags: Any) -> int:
    """Lead a team without a running lead: in a new session here, with the same members.

    With -p, PROMPT or stdin is the lead's prompt; without either it continues open work.
    """
    place = run_location(ctx)
    if len(prompt) > 1:
        headlessly = " -p" if flags.get("headless") else ""
        raise too_many_words(prompt, f"teamwright teams adopt {quote(name)}{headlessly}")
    headless = is_headless(flags, prompt, is_resume=True)
    refuse_headless_flags(flags, headless=headless)
    team = require_adoptable(find_saved_team(open_home(place, name), name))
    return run(
        place,
        {**flags, "adopt": name if named_database(place) is None else team.name},
        prompt[0] if prompt else None,
        headless=headless,
    )


def _unfinished_text(removed: RemovedTeam) -> str:
    """Return the open tasks and mail of a removed team as a text."""
    counts = (
        (len(removed.members), "member", "members"),
        (len(removed.open_tasks), "open task", "open tasks"),
        (removed.unread, "unread message", "unread messages"),
    )
    return ", ".join(f"{number} {one if number == 1 else many}" for number, one, many in counts if number)


def _row(view: TeamView) -> tuple[str, ...]:
    about = f"damaged: {view.damaged}" if view.damaged else view.description
    counts = (str(len(view.members)), str(view.open_tasks), str(view.unread))
    return view.name, view.state, *counts, format_age(view.created_at / 1000), about


def _member_row(view: TeamView, position: int) -> tuple[str, ...]:
    one = view.members[position]
    counts = ("damaged", "damaged") if one.unread < 0 else (str(one.unread), str(one.messages))
    return one.name, one.state, one.agent_type, one.mode, *counts, one.model
