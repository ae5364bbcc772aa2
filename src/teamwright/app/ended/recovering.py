"""Teams on disk whose damaged or missing files are rebuilt before a command uses them.

Depends on the recovery of one team's files. Leaves what is printed to its callers.
"""

from __future__ import annotations

import asyncio

from teamwright.app.inspect import home_at
from teamwright.storage.paths import Home
from teamwright.teams.recovery import damaged_teams, recover_teams


def recovered_home(root: str | None) -> tuple[Home, tuple[str, ...]]:
    """The home at this root, and a sentence for each file of a team that was rebuilt. Raises as `home_at`.

    Not for a running event loop.
    """
    home = home_at(root)
    return home, asyncio.run(recover_teams(home)) if damaged_teams(home) else ()
