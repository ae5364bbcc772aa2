"""Which session is meant: the newest here, one by its team or its id, or one that the user picks from a list.

Knows sessions through `app`; asks on a terminal, else the error lists what there is.
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from teamwright.app.cost_line import duration
from teamwright.app.ended.naming import session_meant, teams_by_session
from teamwright.app.inspect import home_at
from teamwright.app.looking.sessions import SessionView, latest_session, session_views
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.values import dataclass
from teamwright.ui.cli.output import one_line, say, say_table
from teamwright.ui.cli.place import Place

SHOWN = 15
"""Sessions that a list shows."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A session that is to go on, by its whole id."""

    id: str
    cwd: Path

    def place(self, here: Place) -> Place:
        """The place to go on in: the session's own directory. Raises TeamwrightError when that is gone."""
        if self.cwd == here.cwd:
            return here
        if not self.cwd.is_dir():
            raise TeamwrightError(
                "unknown-session",
                f"the directory of session {self.id[:8]} is gone",
                looked_at=[("directory", str(self.cwd))],
                note="nothing was started",
            )
        return Place(self.cwd, here.home, here.settings, here.debug)


def latest(place: Place) -> Chosen:
    """The newest session of this directory. Raises TeamwrightError (`unknown-session`)."""
    return _chosen(latest_session(home_at(place.home), place.cwd), place)


def named(place: Place, word: str) -> Chosen:
    """The session that led the team of that name, else the one whose id begins so.

    Raises TeamwrightError (`unknown-session`, `session-busy` for a team that is led now, `team-refused` for another
    product's).
    """
    return _chosen(session_meant(home_at(place.home), place.cwd, word), place)


def choose(place: Place, *, ask: bool) -> Chosen:
    """The session that the user picks; the only one is taken. Without a terminal the error lists them."""
    views = [view for view in session_views(home_at(place.home), place.cwd) if not view.damaged][:SHOWN]
    if not views:
        return latest(place)
    if not ask:
        raise TeamwrightError(
            "usage",
            "which session? Nobody is here to choose",
            looked_at=[(view.id[:8], one_line(view.prompt, 56)) for view in views[:7]],
            do=[f"teamwright resume {views[0].id[:8]}", "teamwright -c takes the newest"],
            note="nothing was started",
        )
    teams = teams_by_session(home_at(place.home))
    rows = [(str(n), *_with_team(session_row(view), teams.get(view.id, ""))) for n, view in enumerate(views, 1)]
    say_table(("", "id", "last", "team", "prompt"), rows)
    say()
    number: int = click.prompt("Which one", type=click.IntRange(1, len(views)), default=1)
    return _chosen(views[number - 1], place)


def session_row(view: SessionView) -> tuple[str, str, str]:
    """A session in three cells: the short id, how long ago, the prompt that began it."""
    state = f"runs, pid {view.pid}" if view.pid else f"{duration(max(time.time() - view.changed_at, 0))} ago"
    return view.id[:8], state, f"damaged: {view.damaged}" if view.damaged else view.prompt or "(no prompt)"


def _with_team(row: tuple[str, str, str], team: str) -> tuple[str, str, str, str]:
    return row[0], row[1], one_line(team, 20), row[2]


def _chosen(view: SessionView, place: Place) -> Chosen:
    return Chosen(view.id, Path(view.cwd) if view.cwd else place.cwd)
