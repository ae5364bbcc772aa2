"""Sessions that a person may pick from: those of a directory that can be gone on with, each with the team that it led.

Reads without locks. Knows sessions and teams on disk; does not know how a list is shown.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.protocol.values import dataclass
from teamwright.session.lookup.saved_sessions import SessionView, session_views
from teamwright.session.lookup.saved_teams import all_teams
from teamwright.storage.paths import Home

SHOWN = 15
"""Sessions that a list has: the newest."""


@dataclass(frozen=True, slots=True)
class ListedSession:
    """One session of a list. `members` have a place in its team; the lead is none of them."""

    view: SessionView
    team: str = ""
    members: int = 0


def listed_sessions(home: Home, cwd: Path) -> list[ListedSession]:
    """The sessions of a directory that can be gone on with, the newest first."""
    views = [view for view in session_views(home, cwd) if not view.damaged][:SHOWN]
    teams = {team.session: team for team in all_teams(home) if team.file is not None} if views else {}
    made: list[ListedSession] = []
    for view in views:
        team = teams.get(view.id)
        config = None if team is None else team.config
        made.append(
            ListedSession(view, "" if team is None else team.name, 0 if config is None else len(config.teammates))
        )
    return made
