"""The list of sessions of a directory that can be resumed, each with its team.

Reads without locks. Depends on sessions and teams on disk.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from teamwright.saved.sessions import SessionView, session_views
from teamwright.saved.teams import all_teams
from teamwright.storage.paths import Home

SHOWN = 15
"""Maximum number of listed sessions, the newest first."""


class ListedSession(Struct, frozen=True):
    """One session of a list. `members` have a place in its team, without the lead."""

    view: SessionView
    team: str = ""
    members: int = 0


def listed_sessions(home: Home, cwd: Path) -> list[ListedSession]:
    """Return the sessions of a directory that can be resumed, newest first."""
    views = [view for view in session_views(home, cwd) if not view.damaged][:SHOWN]
    teams = {team.session: team for team in all_teams(home) if team.file is not None} if views else {}
    sessions: list[ListedSession] = []
    for view in views:
        team = teams.get(view.id)
        config = None if team is None else team.config
        sessions.append(
            ListedSession(view, "" if team is None else team.name, 0 if config is None else len(config.teammates))
        )
    return sessions
