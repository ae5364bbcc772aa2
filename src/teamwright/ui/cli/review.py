"""`teamwright review`: the work of a team on one screen, by member, with actions on it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from teamwright.config.person_authority import require_person
from teamwright.edit_history.history_location import accessed_history
from teamwright.edit_history.team_review import REVIEW_ACTIONS, TeamReview, act_on_review, team_review
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.storage.paths import Home
from teamwright.team_records.views import resolve_home
from teamwright.ui.change_text import key_lines, member_diff, review_lines
from teamwright.ui.cli.output import json_flag, say, say_facts, say_json, say_styled, to_plain
from teamwright.ui.cli.run_location import RunLocation, open_access, run_location
from teamwright.ui.display_text import clean

_DIFF = "d"


@click.command()
@click.argument("name", required=False, metavar="[TEAM or SESSION]")
@click.option("--do", "action", type=click.Choice(tuple(REVIEW_ACTIONS)), help="Act on the work of --member.")
@click.option("--member", metavar="NAME", help="The member that --do is about; else show only this one.")
@click.option("--text", metavar="TEXT", default="", help="The comment of return, the message of commit.")
@json_flag
@click.pass_context
def review(
    ctx: click.Context, /, name: str | None, action: str | None, member: str | None, text: str, as_json: bool
) -> int:
    """Show each member's report, changes, checks and cost. At a terminal, keys accept, return, undo and commit."""
    place = run_location(ctx)
    home = resolve_home(place.home)
    if action is not None:
        require_person(home, "decides about the work of members")
        if member is None:
            raise UsageError("usage", f"--do {action} needs --member NAME", note="nothing was changed")
        result = asyncio.run(_act(place, name, action, member, text))
        say_json({"member": member, "action": action, "result": result}) if as_json else say(clean(result))
        return 0
    found = asyncio.run(_load(place, name))
    if member is not None:
        found = replace(found, members=(found.member(member),))
    if as_json:
        say_json(review_json(found))
        return 0
    _show(found, home)
    if sys.stdin.isatty() and sys.stdout.isatty():
        require_person(home, "decides about the work of members")
        _decide(place, found, name, home)
    else:
        say(f"act on it: teamwright review {found.place.session[:8]} --do ACTION --member NAME")
    return 0


async def _load(where: RunLocation, name: str | None) -> TeamReview:
    async with open_access(where, name) as access:
        return team_review(access, accessed_history(access, resolve_home(where.home), where.cwd, name))


async def _act(where: RunLocation, name: str | None, action: str, member: str, text: str) -> str:
    async with open_access(where, name) as access:
        place = accessed_history(access, resolve_home(where.home), where.cwd, name)
        return await act_on_review(team_review(access, place), action, member, text)


def review_json(found: TeamReview) -> dict[str, Any]:
    """Return the review as JSON output contains it, with the actions."""
    actions = [{"name": one.name, "text": one.text, "help": one.help} for one in REVIEW_ACTIONS.values()]
    where = found.place
    return {
        "team": where.team,
        "session": where.session,
        "cwd": where.cwd,
        "members": to_plain(found.members),
        "actions": actions,
    }


def _show(found: TeamReview, home: Home) -> None:
    say_facts([("team", found.place.team), ("session", found.place.session)], label=8)
    say()
    say_styled(review_lines(found), home)


def _decide(where: RunLocation, found: TeamReview, name: str | None, home: Home) -> None:
    """Read actions until the person leaves. A refused action is named, and the next one is read."""
    for line in (*key_lines(), f"{_DIFF} NAME                 show the diff", "Enter                  leave"):
        say(line)
    where, name = replace(where, cwd=Path(found.place.cwd)), name or found.place.session
    while True:
        try:
            words = input("review> ").split(maxsplit=2)
        except (EOFError, KeyboardInterrupt):
            say()
            return
        if not words:
            return
        key, member, text = [*words, "", ""][:3]
        try:
            if key == _DIFF:
                say_styled(member_diff(found, member), home)
            else:
                say(clean(asyncio.run(_act(where, name, key, member, text))))
        except TeamwrightError as problem:
            say(clean(problem.render()))
        else:
            found = asyncio.run(_load(where, name))
