"""Commands about teams: `teams` lists, adopts, removes; `tasks` and `inbox` show what they have; `send`, `ask`, `stop`.

`send` works also while no process runs the team; `stop` saves the state first.
"""

from __future__ import annotations

import asyncio
import sys
import textwrap
import time
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from teamwright.config.trust import require_person
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.ids import LEAD, MAX_LISTED, display_name, parse_agent_id
from teamwright.saved.removal import (
    RemovedTeam,
    delete_archived_teams,
    find_archived_teams,
    remove_finished,
    remove_team,
)
from teamwright.saved.saved_members import find_inbox
from teamwright.saved.teams import find_saved_team, find_tasks, find_team_view, require_adoptable
from teamwright.storage.paths import Home
from teamwright.team_records.snapshots import (
    MailView,
    TaskView,
    TeamView,
    archived_teams,
    mail_views,
    resolve_home,
    team_views,
)
from teamwright.team_records.team_status import MemberStatus
from teamwright.ui.cli.confirmation import confirm_removal
from teamwright.ui.cli.flags import HEADLESS_FLAGS, RUN_FLAGS, parse_time_span
from teamwright.ui.cli.output import (
    WIDTH,
    changed_task_rows,
    format_age,
    format_datetime,
    format_iso,
    json_flag,
    note,
    say,
    say_facts,
    say_json,
    say_table,
)
from teamwright.ui.cli.run_location import RunLocation, named_database, open_access, open_home, run_location
from teamwright.ui.cli.usage_errors import too_many_words
from teamwright.ui.display_text import clean, cut, one_line
from teamwright.ui.protocol_text import message_words
from teamwright.views.status import status_views

if TYPE_CHECKING:
    from teamwright.saved.member_control import Delivery, StopResult
    from teamwright.saved.team_access import TeamAddress

# ── teams ──────────────────────────────────────────────────────────────────────────────────────────────────────


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
        say_table(
            ("team", "state", "members", "open tasks", "unread", "made", "about"), [_team_row(view) for view in views]
        )
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
        [_member_row(member) for member in view.members],
    )
    if view.tasks:
        say()
        say_table(("task", "status", "owner", "changed", "subject"), changed_task_rows(view.tasks))
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
        before = time.time() - (0.0 if older is None else _age_seconds(older))
        return _rm_archived(place, name or "", before, yes=yes, as_json=as_json)
    if yes:
        raise UsageError("usage", "--yes goes with --archived", note="nothing was removed")
    if finished:
        if name or force:
            raise UsageError("usage", "--finished takes no NAME and no --force", note="nothing was removed")
        before = time.time() - (0.0 if older is None else _age_seconds(older))
        return _rm_finished(asyncio.run(_remove_finished(place, before)), as_json=as_json)
    if not name or older is not None:
        what = (
            "--older goes with --finished or --archived" if name else "teams rm needs a NAME, --finished or --archived"
        )
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


def _unfinished_text(removed: RemovedTeam) -> str:
    """Return the open tasks and mail of a removed team as a text."""
    counts = (
        (len(removed.members), "member", "members"),
        (len(removed.open_tasks), "open task", "open tasks"),
        (removed.unread, "unread message", "unread messages"),
    )
    return ", ".join(f"{number} {one if number == 1 else many}" for number, one, many in counts if number)


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
    if not yes and not confirm_removal(f"Delete {teams_text} with requests, messages and tasks for good?"):
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


_AGE_UNITS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


def _age_seconds(age: str) -> float:
    """Return the seconds of an age such as `7d` or `12h`. Raises UsageError."""
    number = age[:-1]
    unit = age[-1:]
    if unit not in _AGE_UNITS or not number.isascii() or not number.isdigit():
        raise UsageError(
            "usage",
            f"--older {age[:20]!r} is not an age",
            do=["a number with m, h, d or w: 7d"],
            note="nothing was removed",
        )
    return int(number) * _AGE_UNITS[unit]


@teams.command(params=[*RUN_FLAGS, *HEADLESS_FLAGS])
@click.argument("name")
@click.argument("prompt", nargs=-1, metavar="[PROMPT]")
@click.pass_context
def adopt(ctx: click.Context, /, name: str, prompt: tuple[str, ...], **flags: Any) -> int:
    """Lead a team without a running lead: in a new session here, with the same members.

    With -p, PROMPT or stdin is the lead's prompt; without either it continues open work.
    """
    from teamwright.ui.cli.start import is_headless, refuse_headless_flags, run

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


def _team_row(view: TeamView) -> tuple[str, ...]:
    about = f"damaged: {view.damaged}" if view.damaged else view.description
    counts = (str(len(view.members)), str(view.open_tasks), str(view.unread))
    return view.name, view.state, *counts, format_age(view.created_at / 1000), about


def _member_row(member: MemberStatus) -> tuple[str, ...]:
    counts = ("damaged", "damaged") if member.unread < 0 else (str(member.unread), str(member.messages))
    return member.name, member.state, member.agent_type, member.mode, *counts, member.model


# ── tasks ──────────────────────────────────────────────────────────────────────────────────────────────────────


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
        say_table(("task", "status", "owner", "changed", "subject"), changed_task_rows(views))
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


# ── inbox ──────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("address", metavar="NAME@TEAM")
@click.option("--unread", "only_unread", is_flag=True, help="Only unread messages.")
@json_flag
@click.pass_context
def inbox(ctx: click.Context, /, address: str, only_unread: bool, as_json: bool) -> int:
    """List the messages of a member, oldest first. `lead@TEAM` is the lead. Nothing is marked as read."""
    name, team = parse_agent_id(address)
    team = team if name else ""
    view = find_team_view(open_home(run_location(ctx), team or address), team or address, archived=True)
    if not team:
        names = [display_name(member) for member in view.member_names]
        do = [f"teamwright inbox {quote(f'{member}@{view.name}')}" for member in names[:MAX_LISTED]]
        raise UsageError("usage", f"{address!r} is a team, and names no member", do=do)
    mail = [one for one in mail_views(find_inbox(view, name)) if not (only_unread and one.read)]
    if as_json:
        say_json(mail)
        return 0
    if not mail:
        say("No mail." if not only_unread else "No unread mail.")
    for one in mail:
        _show_mail(one)
    return 0


def _show_mail(mail: MailView) -> None:
    head = (format_iso(mail.timestamp), mail.sender, "" if mail.read else "unread", mail.kind)
    say(cut("  ".join(one_line(part) for part in head if part), WIDTH))
    for line in clean(message_words(mail.text)).splitlines():
        for part in textwrap.wrap(line, WIDTH - 4) or [""]:
            say(f"    {part}".rstrip())
    say()


# ── send ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(name="send")
@click.argument("address", metavar="NAME@TEAM")
@click.argument("text", nargs=-1, metavar="[TEXT]")
@click.option("--wait", is_flag=True, help="Wait until it is answered; print the final text of that turn.")
@click.option(
    "--timeout", metavar="TIME", callback=parse_time_span, help="With --wait, at most so long: 90, 90s, 10m, 1h."
)
@json_flag
@click.pass_context
def send_command(
    ctx: click.Context,
    /,
    address: str,
    text: tuple[str, ...],
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> int:
    """Send a message to a member. `lead@TEAM` is the lead, `*@TEAM` all members. TEXT `-`, or none, is stdin."""
    require_person(resolve_home(run_location(ctx).home), "writes to members as the user")
    if timeout is not None and not wait:
        raise UsageError("usage", "--timeout is for --wait", note="nothing was sent")
    return asyncio.run(
        _send(
            run_location(ctx),
            address,
            _read_text(text, "send", "NAME@TEAM"),
            wait=wait,
            timeout_s=timeout,
            as_json=as_json,
        )
    )


async def _send(
    place: RunLocation, address: str, text: str, *, wait: bool, timeout_s: float | None, as_json: bool
) -> int:
    from teamwright.saved.member_control import EVERYONE, send, send_to_all
    from teamwright.saved.team_access import find_address

    async with open_access(place, address) as access:
        target, name = find_address(access, address)
        if not name:
            raise UsageError(
                "usage",
                f"{address!r} names no member",
                do=[f"teamwright send lead@{target.name} …"],
                note="nothing was sent",
            )
        if name == EVERYONE:
            if wait:
                raise UsageError("usage", "--wait is for one member", note="nothing was sent")
            _show_deliveries(await send_to_all(target, text), as_json=as_json, alone=False)
            return 0
        if wait:
            return await _send_and_wait(target, name, text, timeout_s, as_json=as_json)
        _show_deliveries([await send(target, name, text)], as_json=as_json, alone=True)
        return 0


async def _send_and_wait(target: TeamAddress, name: str, text: str, timeout_s: float | None, *, as_json: bool) -> int:
    from teamwright.saved.member_control import follow_answer, send

    async with follow_answer(target, name) as answer:
        delivery = await send(target, name, text)
        if not as_json:
            note(f"teamwright: {_delivery_line(delivery)}")
        if answer is None:
            raise TeamwrightError(
                "failed",
                f'no process runs the team "{target.name}" now',
                do=[target.resume_command],
                note="the message is stored",
            )
        reply = await answer.answer_to(delivery, timeout_s)
    if as_json:
        say_json(asdict(delivery) | {"text": reply})
    else:
        say(clean(reply))
    return 0


def _show_deliveries(deliveries: list[Delivery], *, as_json: bool, alone: bool) -> None:
    if as_json:
        say_json(deliveries[0] if alone else deliveries)
        return
    for delivery in deliveries:
        say(_delivery_line(delivery))


_OUTCOME_TEXT = {
    "woke": "{to} reads it now",
    "queued_next_round": "{to} is at work and reads it before its next step",
    "accepted": "in the inbox of {to}, which another program runs",
    "no_consumer": "stored; no process runs the team now, it is delivered after: {resume}",
}


def _delivery_line(delivery: Delivery) -> str:
    return one_line(_OUTCOME_TEXT[delivery.outcome].format(to=delivery.to, resume=delivery.resume))


MAX_INPUT = 1_000_000
"""The number of bytes read from stdin; no message may be that long."""


def _read_text(text: tuple[str, ...], command: str, address: str) -> str:
    """Return the text from the argument or from stdin. Raises UsageError for several arguments and for no text."""
    example = f'teamwright {command} {address} "…"'
    nothing = "nothing was sent"
    if len(text) > 1:
        raise UsageError("usage", "the text is one argument: put it in quotes", do=[example], note=nothing)
    if text and text[0] != "-":
        return text[0]
    if sys.stdin.isatty():
        do = [example, f"echo … | teamwright {command} {address}"]
        raise UsageError("usage", "there is no text", do=do, note=nothing)
    raw = sys.stdin.buffer.read(MAX_INPUT)
    return raw.decode("utf-8", "replace").removeprefix("\ufeff").strip("\n")


# ── ask ────────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("address", metavar="TEAM or NAME@TEAM")
@click.argument("question", nargs=-1, metavar="[QUESTION]")
@click.option("--timeout", metavar="TIME", callback=parse_time_span, help="Wait at most so long: 90, 90s, 10m, 1h.")
@json_flag
@click.pass_context
def ask(ctx: click.Context, /, address: str, question: tuple[str, ...], timeout: float | None, as_json: bool) -> int:
    """Ask the lead or a member in passing, also while it works; it will not remember it. QUESTION `-`, or none, is
    stdin.
    """
    from teamwright.saved.side_question import ASKS

    require_person(resolve_home(run_location(ctx).home), ASKS)
    return asyncio.run(
        _ask(run_location(ctx), address, _read_text(question, "ask", "TEAM"), timeout_s=timeout, as_json=as_json)
    )


async def _ask(place: RunLocation, address: str, question: str, *, timeout_s: float | None, as_json: bool) -> int:
    from teamwright.saved.member_control import EVERYONE
    from teamwright.saved.side_question import ask_member
    from teamwright.saved.team_access import find_address

    async with open_access(place, address) as access:
        target, name = find_address(access, address)
        if name == EVERYONE:
            do = [f"teamwright ask {quote(target.name)} …"]
            raise UsageError("usage", "a question is for one agent", do=do, note="nothing was asked")
        text = await ask_member(target, name or LEAD, question, timeout_s)
    if as_json:
        say_json({"team": target.name, "member": display_name(name or LEAD), "text": text})
    else:
        say(clean(text))
    return 0


# ── stop ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("address", metavar="TEAM or NAME@TEAM")
@click.option("--now", is_flag=True, help="Stop at once, without a shutdown request and without waiting for a turn.")
@click.option(
    "--timeout", metavar="TIME", callback=parse_time_span, help="Time limit for an orderly end: 90, 90s, 10m, 1h."
)
@json_flag
@click.pass_context
def stop(ctx: click.Context, /, address: str, now: bool, timeout: float | None, as_json: bool) -> int:
    """Stop a member, which may object, or a team: its process saves and exits, and the team can be resumed."""
    from teamwright.saved.member_control import STOPS

    require_person(resolve_home(run_location(ctx).home), STOPS)
    stopped = asyncio.run(_stop(run_location(ctx), address, now=now, timeout_s=timeout))
    if as_json:
        say_json(stopped)
    elif stopped.outcome != "objected":
        for line in _stop_lines(stopped):
            say(one_line(line))
    if stopped.outcome != "objected":
        return 0
    if as_json:
        return 1
    raise TeamRefused(
        "team-refused", stopped.reason, do=[f"teamwright stop {address} --now"], note=f"{stopped.member} continues"
    )


async def _stop(place: RunLocation, address: str, *, now: bool, timeout_s: float | None) -> StopResult:
    from teamwright.saved.member_control import EVERYONE, stop_member, stop_team
    from teamwright.saved.team_access import find_address

    async with open_access(place, address) as access:
        target, name = find_address(access, address)
        if name == EVERYONE:
            raise UsageError("usage", f"{address!r} is everybody: name the team", do=[f"teamwright stop {target.name}"])
        if name:
            return await stop_member(target, name, now=now, timeout_s=timeout_s)
        return await stop_team(target, now=now, timeout_s=timeout_s)


_TEAM_ENDINGS = {
    "killed": "did not answer and was ended with SIGKILL (process {pid})",
    "fenced": "did not answer; its process {pid} can change nothing from now on, and ends once it notices",
}


def _stop_lines(stopped: StopResult) -> list[str]:
    lines: list[str] = []
    if stopped.outcome == "not_running":
        lines.append(stopped.reason or f"{stopped.member} is not running")
    elif stopped.member:
        lines.append(f"{stopped.member} has ended")
    else:
        lines.append(
            f'team "{stopped.team}" ' + _TEAM_ENDINGS.get(stopped.outcome, "has ended").format(pid=stopped.pid)
        )
        if stopped.ended:
            lines.append(f"members    {', '.join(stopped.ended)}")
    if stopped.handed_back:
        lines.append(f"back on the list: {', '.join(f'#{task}' for task in stopped.handed_back)}")
    if stopped.resume:
        lines.append(f"continue    {stopped.resume}")
    if stopped.remove and stopped.outcome == "not_running":
        lines.append(f"remove with {stopped.remove}")
    return lines
