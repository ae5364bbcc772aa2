"""Remove the locks that killed Teamwright processes left in a team, so that other products lose no mail.

Depends on the locks of storage. Leaves the question whether an owner is dead to them.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.storage.lock import remove_dead_locks
from teamwright.storage.paths import Home


def remove_team_locks(home: Home, directory: str) -> list[Path]:
    """Remove locks of dead owners on the roster, the inboxes and the tasks of a team. Returns the files freed."""
    team = home.team(directory)
    places = (team, team / "inboxes", home.tasks(directory))
    return [file for place in places for file in remove_dead_locks(place, home.guard)]
