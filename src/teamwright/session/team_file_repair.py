"""Repair teams on disk before a command uses them: damaged files are rebuilt, locks of killed processes removed.

Depends on the recovery of one team's files. Leaves what is printed to its callers.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from teamwright.protocol.errors import TeamwrightError
from teamwright.storage.paths import Home
from teamwright.teams.file_stores import FileStores
from teamwright.teams.recovery import damaged_teams, recover_teams, team_directories
from teamwright.teams.status.team_views import resolve_home


def open_recovered_home(root: str | None, word: str = "") -> tuple[Home, tuple[str, ...]]:
    """The home at this root, and a sentence for each file of a team that was rebuilt. Raises as `resolve_home`.

    Locks of killed processes are removed too. `word`, a name or an address, restricts both to the teams that it may
    name: the directories of other teams are not opened. Not for a running event loop.
    """
    home = resolve_home(root)
    for directory in team_directories(home, word):
        with suppress(TeamwrightError):
            FileStores(home).remove_dead_locks(directory)
    return home, asyncio.run(recover_teams(home, word=word)) if damaged_teams(home, word) else ()
