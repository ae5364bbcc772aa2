"""`teamwright stop`: end a member, or a whole team, from any terminal; what ends saves first."""

from __future__ import annotations

import asyncio

import click

from teamwright.app.approver import require_person
from teamwright.app.inspect import home_at
from teamwright.app.outside.stopping import STOPS, Stopped, stop_member, stop_team
from teamwright.app.outside.target import find_address
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.ui.cli.flags import span
from teamwright.ui.cli.looking import json_flag
from teamwright.ui.cli.output import one_line, say, say_json
from teamwright.ui.cli.place import home_of_teams, place_of


@click.command()
@click.argument("address", metavar="TEAM or NAME@TEAM")
@click.option("--now", is_flag=True, help="At once: without a shutdown request, and without waiting for a turn.")
@click.option("--timeout", metavar="TIME", callback=span, help="Time limit for an orderly end: 90, 90s, 10m, 1h.")
@json_flag
@click.pass_context
def stop(ctx: click.Context, /, address: str, now: bool, timeout: float | None, as_json: bool) -> int:
    """End a member, which may object, or a team: its process saves and ends, and the team can be resumed."""
    require_person(home_at(place_of(ctx).home), STOPS)
    home_of_teams(place_of(ctx), address)
    stopped = asyncio.run(_stop(place_of(ctx).home, address, now=now, timeout_s=timeout))
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


async def _stop(root: str | None, address: str, *, now: bool, timeout_s: float | None) -> Stopped:
    target, name = await find_address(home_at(root), address)
    if name == "*":
        raise UsageError("usage", f"{address!r} is everybody: name the team", do=[f"teamwright stop {target.name}"])
    if name:
        return await stop_member(target, name, now=now, timeout_s=timeout_s)
    return await stop_team(target, now=now, timeout_s=timeout_s)


def _lines(stopped: Stopped) -> list[str]:
    lines: list[str] = []
    if stopped.outcome == "not_running":
        lines.append(stopped.reason or f"{stopped.member} is not running")
    elif stopped.member:
        lines.append(f"{stopped.member} has ended")
    else:
        how = f"did not answer and was ended with SIGKILL (process {stopped.pid})"
        lines.append(f'team "{stopped.team}" ' + (how if stopped.outcome == "killed" else "has ended"))
        if stopped.ended:
            lines.append(f"members    {', '.join(stopped.ended)}")
    if stopped.handed_back:
        lines.append(f"back on the list: {', '.join(f'#{task}' for task in stopped.handed_back)}")
    if stopped.resume:
        lines.append(f"continue    {stopped.resume}")
    if stopped.remove and stopped.outcome == "not_running":
        lines.append(f"remove with {stopped.remove}")
    return lines
