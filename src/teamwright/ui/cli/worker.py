"""`teamwright worker` and `teamwright workers`: run members of teams on this machine, and list the machines."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from teamwright.config.person_authority import require_person
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import member_name
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.database import database_address
from teamwright.ui.cli.output import json_flag, say, say_json
from teamwright.ui.cli.run_location import run_location

if TYPE_CHECKING:
    from teamwright.database.workers import WorkerStatus


@click.command()
@click.option("--name", required=True, metavar="NAME", help="The name of this worker; one process at a time has it.")
@click.option("--label", "labels", multiple=True, metavar="WORD", help="A word by which leads choose it; repeatable.")
@click.option("--slots", default=4, show_default=True, type=click.IntRange(1, 200), help="Members at the same time.")
@click.option(
    "--repo",
    "repositories",
    multiple=True,
    metavar="URL=PATH",
    help="A local clone of the repository with this address; repeatable.",
)
@click.option("--directory", metavar="DIR", help="Where members' checkouts are made; default: beside the home.")
@click.pass_context
def worker(
    ctx: click.Context,
    /,
    name: str,
    labels: tuple[str, ...],
    slots: int,
    repositories: tuple[str, ...],
    directory: str | None,
) -> int:
    """Start members of teams on this machine, for the leads of a database.

    Keys of model services come from this machine's environment. Ends at SIGTERM and Ctrl-C, with its members.
    """
    from teamwright.member_process.worker import WorkerProcess, WorkerSettings

    home = resolve_home(run_location(ctx).home)
    require_person(home, "starts members for leads on other machines")
    beside = home.own.with_name(f"{home.own.name}-worker") / member_name(name)
    work = Path(os.path.abspath(directory)) if directory else beside
    settings = WorkerSettings(member_name(name), work, labels, slots, dict(map(_repository, repositories)))
    asyncio.run(WorkerProcess(database_address(ctx), home, settings, _report).run())
    return 0


@click.command()
@json_flag
@click.pass_context
def workers(ctx: click.Context, /, as_json: bool) -> int:
    """List the workers of the database: labels, free slots, members, last sign of life, version."""
    found = asyncio.run(_workers(ctx))
    if as_json:
        say_json(
            {
                "workers": [
                    {"offer": one.offer, "members": one.members, "alive": one.is_alive, "beat_s": one.beat_s}
                    for one in found
                ]
            }
        )
        return 0
    if not found:
        say("The database has no worker. Start one: teamwright worker --name NAME --slots 4")
    for one in found:
        offer = one.offer
        state = f"{one.free_slots} of {offer.slots} slots free" if one.is_alive else "not running"
        say(f"{offer.name} on {offer.host}: {state}, last sign of life {one.beat_s} s ago")
        say(f"  version {offer.version}; labels: {', '.join(offer.labels) or 'none'}")
        say(f"  keys: {', '.join(offer.keys) or 'none'}; repositories: {', '.join(offer.repositories) or 'none'}")
        say(f"  members: {', '.join(one.members) or 'none'}")
    return 0


def _report(line: str) -> None:
    """Print a line at once, also into a file or a pipe."""
    say(line)
    sys.stdout.flush()


async def _workers(ctx: click.Context) -> list[WorkerStatus]:
    from teamwright.database.connection import Database
    from teamwright.database.workers import list_workers

    database = await Database.open(database_address(ctx))
    try:
        return await list_workers(database)
    finally:
        await database.close()


def _repository(text: str) -> tuple[str, Path]:
    url, equals, path = text.rpartition("=")
    if not equals or not url or not Path(path).is_dir():
        raise UsageError(
            "usage",
            f"--repo {text[:80]!r} names no local clone",
            do=["--repo https://example.org/app.git=/srv/app"],
            note="nothing was started",
        )
    return url, Path(os.path.abspath(path))
