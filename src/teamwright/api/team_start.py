"""The start of a team: the options of its session, and the team under its name.

Depends on the lookup of teams and on sessions.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace as replace_fields

from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.saved.teams import find_saved_team, find_session_of_team, require_adoptable
from teamwright.session.options import Options
from teamwright.session.session import Session
from teamwright.storage.paths import command_with_home
from teamwright.team_records.snapshots import resolve_home
from teamwright.teams.team_creation import create_team


@contextmanager
def naming_home(home: str | Path | None) -> Generator[None]:
    """Add the home that the program named to the commands that an error suggests."""
    try:
        yield
    except TeamwrightError as error:
        if home is not None:
            error.replace_advice(command_with_home(line, str(home)) for line in error.do)
        raise


async def options_to_open(options: Options, name: str, mode: str) -> Options:
    """Return the session options: for a team on disk, those that resume its session or adopt the team.

    `mode` is resume, adopt, or empty for a new team. A rewind that a kill interrupted is
    completed first. Raises as `find_session_of_team` and `require_adoptable`.
    """
    home = resolve_home(options.home)
    if mode == "resume":
        from teamwright.edit_history.rewind import complete_rewind_of  # loaded only for a resume

        options = replace_fields(options, resume=find_session_of_team(home, name).id)
        await complete_rewind_of(options)
        return options
    if mode == "adopt":
        require_adoptable(find_saved_team(home, name))
        return replace_fields(options, adopt=name)
    return options


async def create_named_team(session: Session, name: str, *, replace: bool) -> None:
    """Create the team of that name; `replace` puts an earlier one into the archive first. Raises TeamRefused."""
    if replace:
        await session.archive_team(name)
    try:
        await create_team(session.team, name, None, None)
    except TeamRefused as refused:
        if not await session.find_archivable_teams(name):
            raise
        do = [
            f"Team.resume({name!r}) continues it",
            f"Team({name!r}, replace=True) puts it into the archive first",
            *refused.do,
        ]
        raise TeamRefused(refused.slug, refused.what, looked_at=refused.looked_at, do=do, note=refused.note) from None
