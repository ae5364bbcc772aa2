"""The choice of a session: the newest here, one by its team or id, or one that the user picks from a list.

Off a terminal the error lists the sessions. Depends on the packages `session` and `views`.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from shlex import quote

import click
from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import moved_directory_advice
from teamwright.saved.session_list import listed_sessions
from teamwright.saved.sessions import SessionView, latest_session
from teamwright.saved.teams import find_session_to_resume
from teamwright.session.command_start import find_database
from teamwright.storage.paths import Home
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.run_location import RunLocation, open_files_home
from teamwright.ui.display_text import one_line
from teamwright.ui.terminal.session_picker import pick, session_rows
from teamwright.ui.terminal.styles import configured_terminal
from teamwright.views.run_summary import duration


class ChosenSession(Struct, frozen=True):
    """A session to resume, by its full id."""

    id: str
    cwd: Path

    def run_location(self, current: RunLocation) -> RunLocation:
        """Return the location of the session. Raises TeamwrightError when its directory does not exist."""
        if self.cwd == current.cwd:
            return current
        if not self.cwd.is_dir():
            raise TeamwrightError(
                "unknown-session",
                f"the directory of session {self.id[:8]} is gone",
                looked_at=[("directory", str(self.cwd))],
                do=moved_directory_advice(self.id),
                note="nothing was started",
            )
        return replace(current, cwd=self.cwd)


def choose_latest(where: RunLocation) -> ChosenSession:
    """Return the newest session of this directory. Raises TeamwrightError (`unknown-session`)."""
    return _from_view(latest_session(open_files_home(where), where.cwd), where)


def choose_by_name(where: RunLocation, word: str, *, headless: bool) -> ChosenSession:
    """Return the session that led the team of that name, else the one whose id starts with `word`.

    Raises TeamwrightError: `unknown-session`, `session-busy` for a team with a running lead, and `team-refused` for a
    team of another product. Several words are probably a prompt: the error says how to pass one.
    """
    try:
        home, word = _open_home_with(where, word)
        return _from_view(find_session_to_resume(home, where.cwd, word), where)
    except TeamwrightError as problem:
        if problem.slug == "unknown-session" and len(word.split()) > 1:
            arguments = f"{' -p' if headless else ''} {quote(one_line(word, 60))}"
            newest = f"the newest session: teamwright -c{arguments}"
            problem.do = (newest, f"another: teamwright resume ID{arguments}", *problem.do)
        raise


def _open_home_with(where: RunLocation, word: str) -> tuple[Home, str]:
    """Return the home with the session that the word names, and the word; with a database the full id of the session.

    A session of another machine is brought here first.
    """
    home = resolve_home(where.home)
    if (address := find_database(where.database, home)) is not None:
        from teamwright.session.database_session import fetch_session

        if found := asyncio.run(fetch_session(address, home, word)):
            return home, found
    return open_files_home(where, word), word


def choose_session(where: RunLocation, *, ask: bool, plain: bool = False) -> ChosenSession:
    """Return the session that the user picks, at a plain terminal by its number. Off a terminal the error lists the
    sessions. Raises click.Abort when the user picks none.
    """
    rows = listed_sessions(open_files_home(where), where.cwd)
    if not rows:
        return choose_latest(where)
    if not ask:
        raise TeamwrightError(
            "usage",
            "which session? No user is present to choose",
            looked_at=[(row.view.id[:8], one_line(row.view.prompt, 56)) for row in rows[:7]],
            do=[f'teamwright resume {rows[0].view.id[:8]} -p "…"', 'teamwright -c -p "…" takes the newest'],
            note="nothing was started",
        )
    picked = pick(
        lambda width: session_rows(rows, width), len(rows), configured_terminal(resolve_home(where.home), plain=plain)
    )
    if picked is None:
        raise click.Abort
    return _from_view(rows[picked].view, where)


def session_row(view: SessionView) -> tuple[str, str, str]:
    """Return a session as three cells: the short id, its age, its first prompt."""
    state = f"runs, pid {view.pid}" if view.pid else f"{duration(max(time.time() - view.changed_at, 0))} ago"
    return view.id[:8], state, f"damaged: {view.damaged}" if view.damaged else view.label or "(no prompt)"


def _from_view(view: SessionView, where: RunLocation) -> ChosenSession:
    return ChosenSession(view.id, Path(view.cwd) if view.cwd else where.cwd)
