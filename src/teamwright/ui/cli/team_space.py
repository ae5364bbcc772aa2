"""Commands about a team space in PostgreSQL: `database` for its schema, `worker` and `workers` for its machines."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from teamwright.config.trust import require_person
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import member_name
from teamwright.session.command_start import find_database
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.output import json_flag, say, say_facts, say_json
from teamwright.ui.cli.run_location import run_location

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress
    from teamwright.database.worker_orders import WorkerStatus


# ── workers ────────────────────────────────────────────────────────────────────────────────────────────────────


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
    from teamwright.member_process.machine_worker import WorkerProcess, WorkerSettings

    home = resolve_home(run_location(ctx).home)
    require_person(home, "starts members for leads on other machines")
    beside = home.own.with_name(f"{home.own.name}-worker") / member_name(name)
    work = Path(os.path.abspath(directory)) if directory else beside
    settings = WorkerSettings(member_name(name), work, labels, slots, dict(map(_parse_repository, repositories)))
    asyncio.run(WorkerProcess(database_address(ctx), home, settings, _say_at_once).run())
    return 0


@click.command()
@json_flag
@click.pass_context
def workers(ctx: click.Context, /, as_json: bool) -> int:
    """List the workers of the database: labels, free slots, members, last sign of life, version."""
    found = asyncio.run(_read_workers(ctx))
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


def _say_at_once(line: str) -> None:
    """Print a line at once, also into a file or a pipe."""
    say(line)
    sys.stdout.flush()


async def _read_workers(ctx: click.Context) -> list[WorkerStatus]:
    from teamwright.database.connection import Database
    from teamwright.database.worker_orders import list_workers

    database = await Database.open(database_address(ctx))
    try:
        return await list_workers(database)
    finally:
        await database.close()


def _parse_repository(text: str) -> tuple[str, Path]:
    url, equals, path = text.rpartition("=")
    if not equals or not url or not Path(path).is_dir():
        raise UsageError(
            "usage",
            f"--repo {text[:80]!r} names no local clone",
            do=["--repo https://example.org/app.git=/srv/app"],
            note="nothing was started",
        )
    return url, Path(os.path.abspath(path))


# ── database ───────────────────────────────────────────────────────────────────────────────────────────────────


@click.group(invoke_without_command=True)
@click.pass_context
def database(ctx: click.Context, /) -> int:
    """Make, check, upgrade and describe a team space in PostgreSQL.

    The address comes from --database, TEAMWRIGHT_DATABASE or the setting `database`.
    """
    if ctx.invoked_subcommand is None:
        return int(ctx.invoke(database_status))
    return 0


_CHANGES = "changes the schema of a database"


@database.command()
@click.pass_context
def init(ctx: click.Context, /) -> int:
    """Make the schema of the team space, where it does not exist."""
    from teamwright.database.administration import upgrade_schema

    require_person(resolve_home(run_location(ctx).home), _CHANGES)
    done = asyncio.run(upgrade_schema(database_address(ctx), create=True))
    if done.before == 0:
        say(f"The schema {done.schema} was made, in version {done.after}.")
    elif done.before < done.after:
        say(f"The schema {done.schema} was brought from version {done.before} to {done.after}.")
    else:
        say(f"The schema {done.schema} exists, in version {done.after}. Nothing was changed.")
    return 0


@database.command()
@click.pass_context
def upgrade(ctx: click.Context, /) -> int:
    """Bring the schema to the version of this Teamwright. Data is kept; there is no downgrade."""
    from teamwright.database.administration import upgrade_schema

    require_person(resolve_home(run_location(ctx).home), _CHANGES)
    done = asyncio.run(upgrade_schema(database_address(ctx), create=False))
    if done.before == done.after:
        say(f"The schema {done.schema} has version {done.after} already. Nothing was changed.")
    else:
        say(f"The schema {done.schema} was brought from version {done.before} to {done.after}.")
    return 0


@database.command()
@click.pass_context
def check(ctx: click.Context, /) -> int:
    """Check the server, the connection and the schema. Exit code 3 with a reason when teams cannot use them."""
    from teamwright.database.administration import find_problems, read_facts
    from teamwright.database.schema import VERSION

    address = database_address(ctx)
    facts = asyncio.run(read_facts(address))
    say_facts(
        [
            ("database", str(address)),
            ("server", f"PostgreSQL {facts.server}"),
            ("user", facts.user),
            ("pooler", f"in {facts.pooler} mode" if facts.pooler else "none"),
            ("schema", f"{facts.schema}, version {facts.version or 'none'}; this Teamwright needs {VERSION}"),
        ]
    )
    problems = find_problems(address, facts)
    for what, do in problems:
        say_facts([("problem", what), ("do", do)])
    if not problems:
        say("Teams can use this database.")
    return 3 if problems else 0


@database.command("status")
@json_flag
@click.pass_context
def database_status(ctx: click.Context, /, as_json: bool) -> int:
    """Show what the team space contains, and which sessions are alive."""
    from teamwright.database.administration import count_rows, read_facts, require_usable

    address = database_address(ctx)
    facts = asyncio.run(read_facts(address))
    require_usable(address, facts)
    counts = asyncio.run(count_rows(address, facts))
    if as_json:
        say_json({"database": str(address), "schema": facts.schema, "version": facts.version, "counts": counts})
        return 0
    say_facts(
        [
            ("database", str(address)),
            ("schema", f"{facts.schema}, version {facts.version}, {counts.size // 1000:,} kB"),
            ("teams", f"{counts.teams}, and {counts.archived_teams} in the archive"),
            ("tasks", f"{counts.tasks:,}"),
            ("messages", f"{counts.messages:,}, {counts.unread_messages:,} of them unread"),
            ("sessions", f"{counts.sessions:,}"),
            *[("alive", line) for line in counts.live_sessions],
        ]
    )
    return 0


def database_address(ctx: click.Context) -> DatabaseAddress:
    """Return the address of the database of this command. Raises UsageError without one."""
    place = run_location(ctx)
    address = find_database(place.database, resolve_home(place.home))
    if address is None:
        raise UsageError(
            "usage",
            "no database was named",
            do=["teamwright --database postgresql://HOST/NAME database ...", "export TEAMWRIGHT_DATABASE=..."],
            note="nothing was done",
        )
    return address
