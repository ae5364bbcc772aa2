"""Commands about saved sessions: `sessions` lists and removes them, `resume` continues one, `projects` by directory."""

from __future__ import annotations

import asyncio
from shlex import quote
from typing import Any

import click

from teamwright.config.trust import require_person
from teamwright.protocol.errors import TeamwrightError
from teamwright.saved.project_removal import ProjectData, find_project, projects, remove_project
from teamwright.saved.retention import remove_session, retention_days
from teamwright.saved.sessions import find_session, session_views
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.confirmation import confirm_removal
from teamwright.ui.cli.flags import HEADLESS_FLAGS, RUN_FLAGS
from teamwright.ui.cli.output import format_age, json_flag, say, say_json, say_table
from teamwright.ui.cli.run_location import RunLocation, run_location
from teamwright.ui.cli.session_choice import choose_by_name, choose_session, session_row
from teamwright.ui.cli.start import is_headless, refuse_headless_flags, run
from teamwright.ui.cli.usage_errors import too_many_words
from teamwright.ui.display_text import one_line

# ── sessions ───────────────────────────────────────────────────────────────────────────────────────────────────


@click.group(invoke_without_command=True)
@click.option("--all", "everywhere", is_flag=True, help="List the sessions of all directories.")
@json_flag
@click.pass_context
def sessions(ctx: click.Context, /, everywhere: bool, as_json: bool) -> int:
    """List the sessions of this directory, newest first. `teamwright resume ID` continues one."""
    if ctx.invoked_subcommand is not None:
        return 0
    place = run_location(ctx)
    views = session_views(resolve_home(place.home), None if everywhere else place.cwd)
    if as_json:
        say_json(views)
    elif not views:
        say("No session yet." if everywhere else f"No session of {place.cwd} yet. Others: teamwright sessions --all")
    elif everywhere:
        say_table(("id", "last", "directory", "prompt"), [_with_directory(session_row(v), v.cwd) for v in views])
    else:
        say_table(("id", "last", "prompt"), [session_row(view) for view in views])
    if views and not as_json:
        say()
        say(_retention_text(place))
    return 0


@sessions.command("rm")
@click.argument("name", metavar="ID")
@click.option("--force", is_flag=True, help="Also while a team or an open task needs the session.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def remove_session_command(ctx: click.Context, /, name: str, force: bool, yes: bool) -> int:
    """Remove the session whose id begins with ID: its transcripts, events and edit history."""
    place = run_location(ctx)
    home = resolve_home(place.home)
    require_person(home, "removes a session")
    found = find_session(home, place.cwd, name)
    question = f"Remove session {found.id[:8]} ({one_line(found.prompt, 60) or 'no prompt'}) for good?"
    if not yes and not confirm_removal(question):
        return 0
    asyncio.run(remove_session(home, found, force=force))
    say(f"Session {found.id[:8]} was removed.")
    return 0


def _retention_text(where: RunLocation) -> str:
    """Return how long the settings keep sessions, as a text."""
    try:
        days = retention_days(resolve_home(where.home), where.cwd, where.settings)
    except TeamwrightError as problem:
        return f"The retention cannot be read: {problem.what}"
    if not days:
        return "Kept for ever (retention_days is 0)."
    return f"Kept for {days} days, longer while a team or an open task needs one."


def _with_directory(row: tuple[str, str, str], cwd: str) -> tuple[str, str, str, str]:
    return row[0], row[1], cwd if len(cwd) <= 30 else f"…{cwd[-29:]}", row[2]


# ── resume ─────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(params=[*RUN_FLAGS, *HEADLESS_FLAGS])
@click.argument("session", required=False, metavar="[TEAM or SESSION]")
@click.argument("prompt", nargs=-1, metavar="[PROMPT]")
@click.pass_context
def resume(ctx: click.Context, /, session: str | None, prompt: tuple[str, ...], **flags: Any) -> int:
    """Continue a team and its members, or a session by the beginning of its id. Without a name, choose from a list.

    With -p, PROMPT or stdin is the lead's next prompt; without either it continues open work. Caps count from zero.
    """
    place = run_location(ctx)
    if len(prompt) > 1:
        headlessly = " -p" if flags.get("headless") else ""
        raise too_many_words(prompt, f"teamwright resume {quote(session or '')}{headlessly}")
    headless = is_headless(flags, prompt, is_resume=True)
    refuse_headless_flags(flags, headless=headless)
    chosen = (
        choose_session(place, ask=not headless)
        if session is None
        else choose_by_name(place, session, headless=headless)
    )
    return run(
        chosen.run_location(place), {**flags, "resume": chosen.id}, prompt[0] if prompt else None, headless=headless
    )


# ── projects ───────────────────────────────────────────────────────────────────────────────────────────────────


@click.group("projects", invoke_without_command=True)
@json_flag
@click.pass_context
def projects_command(ctx: click.Context, /, as_json: bool) -> int:
    """List the directories with sessions, the newest first, with the size of their data."""
    if ctx.invoked_subcommand is not None:
        return 0
    found = projects(resolve_home(run_location(ctx).home))
    if as_json:
        say_json([one.as_json() for one in found])
    elif not found:
        say("No project has data yet.")
    else:
        say_table(("directory", "last", "sessions", "teams", "size"), [_project_row(one) for one in found])
    return 0


@projects_command.command("rm")
@click.argument("path", metavar="PATH")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def remove_project_command(ctx: click.Context, /, path: str, yes: bool) -> int:
    """Remove all data of the project in the directory PATH: they are listed first, then you are asked."""
    place = run_location(ctx)
    home = resolve_home(place.home)
    require_person(home, "removes the data of a project")
    data = find_project(home, place.resolve(path))
    for line in _data_lines(data):
        say(line)
    if not yes and not confirm_removal(f"Remove all of this for good? Files in {data.cwd} stay."):
        return 0
    asyncio.run(remove_project(home, data))
    say(f"The data of {data.cwd} were removed.")
    return 0


def _project_row(data: ProjectData) -> tuple[str, ...]:
    running = sum(bool(view.pid) for view in data.sessions)
    last = f"{running} running" if running else format_age(data.changed_at)
    return one_line(data.cwd), last, str(len(data.sessions)), str(len(data.teams) or ""), _size_text(data.size)


def _size_text(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 100_000 else f"{size / 1_000:.0f} kB"


_SHOWN = 12
"""The number of sessions and of open tasks that are listed before a removal."""


def _data_lines(data: ProjectData) -> list[str]:
    """Return the data of a project, a line each."""
    lines = [f"Data of {one_line(data.cwd)}, {_size_text(data.size)}:"]
    for view in data.sessions[:_SHOWN]:
        lines.append(f"  session  {view.id[:8]}  {one_line(view.label, 60) or '(no prompt)'}")
    if len(data.sessions) > _SHOWN:
        lines.append(f"  and {len(data.sessions) - _SHOWN} more sessions")
    lines += [f"  team     {one_line(name)}" for name in data.teams]
    if data.archived:
        lines.append(f"  archive  {len(data.archived)} deleted teams")
    lines += [f"  open     {one_line(subject, 60)}" for subject in data.open_tasks[:_SHOWN]]
    if len(data.open_tasks) > _SHOWN:
        lines.append(f"  and {len(data.open_tasks) - _SHOWN} more open tasks")
    if data.is_trusted:
        lines.append("  trust    in the entries of its repository")
    return lines
