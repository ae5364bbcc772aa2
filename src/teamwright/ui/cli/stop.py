"""`teamwright stop`: end a member or a whole team, from any terminal; its state is saved first."""

from __future__ import annotations

import asyncio

import click

from teamwright.config.person_authority import require_person
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.saved.stop_from_outside import STOPS, StopResult, stop_member, stop_team
from teamwright.saved.team_address import find_address
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.flags import parse_time_span
from teamwright.ui.cli.output import json_flag, say, say_json
from teamwright.ui.cli.run_location import RunLocation, open_access, run_location
from teamwright.ui.display_text import one_line


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
    require_person(resolve_home(run_location(ctx).home), STOPS)
    stopped = asyncio.run(_stop(run_location(ctx), address, now=now, timeout_s=timeout))
    if as_json:
        say_json(stopped)
    elif stopped.outcome != "objected":
        for line in _lines(stopped):
            say(one_line(line))
    if stopped.outcome != "objected":
        return 0
    if as_json:
        return 1
    raise TeamRefused(
        "team-refused", stopped.reason, do=[f"teamwright stop {address} --now"], note=f"{stopped.member} continues"
    )


_HOW = {
    "killed": "did not answer and was ended with SIGKILL (process {pid})",
    "fenced": "did not answer; its process {pid} can change nothing from now on, and ends once it notices",
}


async def _stop(place: RunLocation, address: str, *, now: bool, timeout_s: float | None) -> StopResult:
    async with open_access(place, address) as access:
        target, name = find_address(access, address)
        if name == "*":
            raise UsageError("usage", f"{address!r} is everybody: name the team", do=[f"teamwright stop {target.name}"])
        if name:
            return await stop_member(target, name, now=now, timeout_s=timeout_s)
        return await stop_team(target, now=now, timeout_s=timeout_s)


def _lines(stopped: StopResult) -> list[str]:
    lines: list[str] = []
    if stopped.outcome == "not_running":
        lines.append(stopped.reason or f"{stopped.member} is not running")
    elif stopped.member:
        lines.append(f"{stopped.member} has ended")
    else:
        lines.append(f'team "{stopped.team}" ' + _HOW.get(stopped.outcome, "has ended").format(pid=stopped.pid))
        if stopped.ended:
            lines.append(f"members    {', '.join(stopped.ended)}")
    if stopped.handed_back:
        lines.append(f"back on the list: {', '.join(f'#{task}' for task in stopped.handed_back)}")
    if stopped.resume:
        lines.append(f"continue    {stopped.resume}")
    if stopped.remove and stopped.outcome == "not_running":
        lines.append(f"remove with {stopped.remove}")
    return lines
