"""Which session is meant: the newest here, one by its team or its id, or one that the user picks from a list.

Knows sessions through `app`; asks on a terminal, else the error lists what there is.
"""

from __future__ import annotations

import time
from pathlib import Path
from shlex import quote

import click

from teamwright.app.cost_line import duration
from teamwright.app.ended.listing import listed_sessions
from teamwright.app.ended.naming import session_meant
from teamwright.app.looking.sessions import SessionView, latest_session
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.values import dataclass
from teamwright.ui.cli.output import one_line
from teamwright.ui.cli.place import Place, home_of_teams
from teamwright.ui.terminal.resuming.listed import row_lines
from teamwright.ui.terminal.resuming.picker import pick


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
    return _chosen(latest_session(home_of_teams(place), place.cwd), place)


def named(place: Place, word: str, *, headless: bool) -> Chosen:
    """The session that led the team of that name, else the one whose id begins so.

    Raises TeamwrightError (`unknown-session`, `session-busy` for a team that is led now, `team-refused` for another
    product's). Words where a name should be are most likely a prompt: the error says where that goes.
    """
    try:
        return _chosen(session_meant(home_of_teams(place, word), place.cwd, word), place)
    except TeamwrightError as problem:
        if problem.slug == "unknown-session" and len(word.split()) > 1:
            said = f"{' -p' if headless else ''} {quote(one_line(word, 60))}"
            newest = f"the newest session: teamwright -c{said}"
            problem.do = (newest, f"another: teamwright resume ID{said}", *problem.do)
        raise


def choose(place: Place, *, ask: bool) -> Chosen:
    """The session that the user picks. Off a terminal the error lists them. Raises click.Abort when they leave."""
    rows = listed_sessions(home_of_teams(place), place.cwd)
    if not rows:
        return latest(place)
    if not ask:
        raise TeamwrightError(
            "usage",
            "which session? No user is present to choose",
            looked_at=[(row.view.id[:8], one_line(row.view.prompt, 56)) for row in rows[:7]],
            do=[f'teamwright resume {rows[0].view.id[:8]} -p "…"', 'teamwright -c -p "…" takes the newest'],
            note="nothing was started",
        )
    picked = pick(lambda width: row_lines(rows, width), len(rows))
    if picked is None:
        raise click.Abort
    return _chosen(rows[picked].view, place)


def session_row(view: SessionView) -> tuple[str, str, str]:
    """A session in three cells: the short id, how long ago, the prompt that began it."""
    state = f"runs, pid {view.pid}" if view.pid else f"{duration(max(time.time() - view.changed_at, 0))} ago"
    return view.id[:8], state, f"damaged: {view.damaged}" if view.damaged else view.prompt or "(no prompt)"


def _chosen(view: SessionView, place: Place) -> Chosen:
    return Chosen(view.id, Path(view.cwd) if view.cwd else place.cwd)
