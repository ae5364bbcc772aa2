"""`teamwright projects`: the directories with stored data; `rm` removes all data of one."""

from __future__ import annotations

import asyncio
import sys

import click

from teamwright.config.person_authority import require_person
from teamwright.protocol.errors import UsageError
from teamwright.saved.project_removal import ProjectData, find_project, projects, remove_project
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.output import format_age, json_flag, say, say_json, say_table
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import one_line

_SHOWN = 12
"""The number of sessions and of open tasks that are listed before a removal."""


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
        say_table(("directory", "last", "sessions", "teams", "size"), [_row(one) for one in found])
    return 0


@projects_command.command("rm")
@click.argument("path", metavar="PATH")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def remove_command(ctx: click.Context, /, path: str, yes: bool) -> int:
    """Remove all data of the project in the directory PATH: they are listed first, then you are asked."""
    place = run_location(ctx)
    home = resolve_home(place.home)
    require_person(home, "removes the data of a project")
    data = find_project(home, place.resolve(path))
    for line in _data_lines(data):
        say(line)
    if not yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("usage", "no person is here to say yes", do=["add --yes"], note="nothing was removed")
        if not click.confirm(f"Remove all of this for good? Files in {data.cwd} stay."):
            say("Nothing was removed.")
            return 0
    asyncio.run(remove_project(home, data))
    say(f"The data of {data.cwd} were removed.")
    return 0


def _row(data: ProjectData) -> tuple[str, ...]:
    running = sum(bool(view.pid) for view in data.sessions)
    last = f"{running} running" if running else format_age(data.changed_at)
    return one_line(data.cwd), last, str(len(data.sessions)), str(len(data.teams) or ""), _size(data.size)


def _size(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 100_000 else f"{size / 1_000:.0f} kB"


def _data_lines(data: ProjectData) -> list[str]:
    """Return the data of a project, a line each."""
    lines = [f"Data of {one_line(data.cwd)}, {_size(data.size)}:"]
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
