"""The location of a command: directory, home and settings, from the flags before or after it, and the terminal.

Depends on click and opens nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from msgspec import Struct

from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.ui.cli.flags import LOCATION_KEY

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress
    from teamwright.saved.team_access import SavedTeamAccess
    from teamwright.storage.paths import Home


def is_on_terminal() -> bool:
    """Return True when stdin and stdout are terminals."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())


class RunLocation(Struct, frozen=True):
    """The location of a command. `cwd` is absolute; `home` and `settings` are None when no flag gave them.

    `settings` is a file, or JSON text. `database` is the value of the flag.
    """

    cwd: Path
    home: str | None = None
    settings: Path | str | None = None
    debug: str = ""
    """The categories of the debug log; empty without the flag."""
    database: str | None = None

    def resolve(self, value: str) -> Path:
        """Return a path of the command line; a relative one starts at `cwd`."""
        return self.cwd / os.path.expanduser(value)


def run_location(ctx: click.Context) -> RunLocation:
    """Return the location of a command. Raises UsageError for a directory that does not exist."""
    flags = cast("dict[str, Any]", ctx.meta.get(LOCATION_KEY, {}))
    directory = _current_directory()
    cwd = Path(os.path.normpath(directory / os.path.expanduser(flags.get("cwd", ""))))
    if not os.path.isdir(cwd):
        raise UsageError(
            "usage", f"there is no directory {cwd}", looked_at=[("flag", "-C")], note="nothing was started"
        )
    return RunLocation(
        cwd=cwd,
        home=os.path.join(cwd, os.path.expanduser(flags["home"])) if flags.get("home") else None,
        settings=_settings(cwd, flags.get("settings")),
        debug=_debug(flags.get("debug") or ""),
        database=flags.get("database"),
    )


def _debug(value: str) -> str:
    """Return the value of `--debug`. Raises UsageError for a category that does not exist."""
    if value:
        from teamwright.protocol.program_log import debug_categories  # loaded only for this flag

        debug_categories(value, {})
    return value


def _settings(cwd: Path, value: str | None) -> Path | str | None:
    """Return the value of `--settings`: JSON text that begins with a brace, else a file. Raises UsageError."""
    if value is None or not value.lstrip().startswith("{"):
        return None if value is None else cwd / os.path.expanduser(value)
    try:
        json.loads(value)
    except (ValueError, RecursionError) as problem:
        raise UsageError(
            "usage",
            f"the text of --settings is not JSON: {problem}",
            do=["""--settings '{"model": "sonnet"}'""", "--settings FILE"],
            note="nothing was started",
        ) from None
    return value.strip()


def open_home(where: RunLocation, word: str | None = None) -> Home:
    """Open the home of a command that shows teams: with a database, a private copy of its teams as files.

    The copy is removed when the process ends. Raises CannotStart: `database`, and as `open_files_home`.
    """
    if (address := named_database(where)) is None:
        return open_files_home(where, word)
    from teamwright.session.database_session import copy_teams

    return copy_teams(address, word or "")


def named_database(where: RunLocation) -> DatabaseAddress | None:
    """Return the address of the database with the teams of a command; None for teams on files. Raises UsageError."""
    from teamwright.session.command_start import find_database
    from teamwright.team_records.snapshots import resolve_home

    return find_database(where.database, resolve_home(where.home))


@asynccontextmanager
async def open_access(where: RunLocation, word: str | None) -> AsyncGenerator[SavedTeamAccess]:
    """Give a command the access to the teams of the home, or of the database that is named, while the block runs.

    `word` as for `open_home`. Raises CannotStart: `database`, and as `open_files_home`; StorageError.
    """
    if (address := named_database(where)) is None:
        from teamwright.saved.team_access import FileAccess

        yield FileAccess(await asyncio.to_thread(open_files_home, where, word))
        return
    from teamwright.saved.database_access import open_database_access

    async with open_database_access(address, word or "") as access:
        yield access


def open_files_home(where: RunLocation, word: str | None = None) -> Home:
    """Open the home of a command about teams on files.

    Damaged files of teams without a lead are rebuilt first and reported on stderr. `word` is the team's name, a
    member's address or the id of a session; other teams are not rebuilt.

    Raises CannotStart (`read-only-home`) for a home that cannot be read.
    """
    from teamwright.teams.team_recovery import open_recovered_home
    from teamwright.ui.cli.output import note

    home, rebuilt = open_recovered_home(where.home, word or "")
    for sentence in rebuilt:
        note(f"teamwright: {sentence}")
    return home


def _current_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise CannotStart(
            "failed", "the directory that this was started in is gone", do=["cd to another one"]
        ) from None
