"""`teamwright database`: make, check, upgrade and describe the schema of a team space in PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from teamwright.config.person_authority import require_person
from teamwright.protocol.errors import UsageError
from teamwright.session.database_choice import find_database
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.output import json_flag, say, say_facts, say_json
from teamwright.ui.cli.run_location import run_location

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress

_CHANGES = "changes the schema of a database"


@click.group(invoke_without_command=True)
@click.pass_context
def database(ctx: click.Context, /) -> int:
    """Make, check, upgrade and describe a team space in PostgreSQL.

    The address comes from --database, TEAMWRIGHT_DATABASE or the setting `database`.
    """
    if ctx.invoked_subcommand is None:
        return int(ctx.invoke(database_status))
    return 0


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
    from teamwright.database.schema import VERSION
    from teamwright.database.server_checks import find_problems, read_facts

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
    from teamwright.database.administration import count_rows
    from teamwright.database.server_checks import read_facts, require_usable

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
