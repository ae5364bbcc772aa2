"""Lookup of saved teams by name, and of the sessions that led them.

A team's full name has precedence; an ambiguous word is refused with all its meanings. Reads without locks. Depends on
rosters, team files and sessions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct

from teamwright.protocol.errors import CannotStart, StorageError, TeamRefused, TeamwrightError
from teamwright.protocol.ids import LEAD, nearest, team_dir, unknown_team
from teamwright.protocol.members import TeamConfig
from teamwright.saved.sessions import SessionView, find_session, session_views
from teamwright.storage.file_lease import lease_holder, lease_path
from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.team_records.snapshots import TaskView, TeamView
    from teamwright.team_records.team_state import TeamFile
    from teamwright.team_records.team_stores import TeamStores

T = TypeVar("T")


class NamedTeam(Protocol):
    """A team that can be found by its name: a saved team or a view of one."""

    @property
    def name(self) -> str: ...

    @property
    def directory(self) -> str:
        """The name of the team's directory."""
        ...

    @property
    def member_names(self) -> Sequence[str]:
        """The names of the members on the roster."""
        ...


Named = TypeVar("Named", bound=NamedTeam)


class SavedTeam(Struct, frozen=True):
    """A team on disk, also another product's. `config` and `file` are None when they are missing or cannot be read.

    `damaged` says what cannot be read, and why.
    """

    home: Home
    directory: str
    config: TeamConfig | None
    file: TeamFile | None
    damaged: str = ""

    @property
    def name(self) -> str:
        """The team's name; its directory when the file has none."""
        return self.config.name if self.config is not None else self.directory

    @property
    def member_names(self) -> list[str]:
        """The names of the members on the roster, the lead first; none when the roster cannot be read."""
        return [one.name for one in self.config.members] if self.config is not None else []

    @property
    def directory_path(self) -> Path:
        return self.home.team(self.directory)

    @property
    def session(self) -> str:
        """The id of the session that leads it, or led it when it ended."""
        if self.file is not None:
            return self.file.lead.session
        return self.config.lead_session_id if self.config is not None else ""

    @property
    def lease(self) -> Path | None:
        """The lease file of that session; None when its place is unknown."""
        if self.file is not None and self.file.lead.lease:
            return Path(self.file.lead.lease)
        found = [view.directory for view in session_views(self.home) if view.id == self.session]
        return lease_path(found[0]) if found else None

    def lead_pid(self) -> int | None:
        """Return the process that leads it; 0 when its pid is unknown, None when no process leads the team."""
        from teamwright.team_records.team_state import is_lead_alive

        if self.file is not None and is_lead_alive(self.file.lead):
            return lease_holder(Path(self.file.lead.lease)) or self.file.lead.pid
        if self.file is None and self.lease is not None:
            return lease_holder(self.lease) or None
        return None

    @property
    def may_be_own(self) -> bool:
        """True when Teamwright may have created it: in its own home, or elsewhere with a team.json."""
        from teamwright.team_records.file_stores import FileStores

        return not self.home.is_foreign or FileStores(self.home).state(self.directory).path.exists()

    def require_own(self) -> TeamConfig:
        """Return the roster. Raises TeamRefused for a team that another product leads, StorageError for one that cannot
        be read.
        """
        if self.file is not None and self.config is not None:
            return self.config
        if self.damaged and self.may_be_own:
            raise StorageError(
                "damaged-file",
                f'the team "{self.name}" cannot be continued: {self.damaged}',
                looked_at=[("team", str(self.directory_path))],
                do=[f"put it into the archive: teamwright teams rm {quote(self.name)} --force"],
                note="nothing was changed",
            )
        raise TeamRefused(
            "team-refused",
            f'the team "{self.name}" is another product\'s: it has no team.json',
            looked_at=[("team", str(self.directory_path))],
            do=[
                "end it with the product that made it",
                f"if no program uses it: rm -r {quote(str(self.directory_path))}",
            ],
            note="nothing was changed",
        )

    def require_no_lead(self) -> None:
        """Raise CannotStart (`session-busy`) while a process leads it."""
        pid = self.lead_pid()
        if pid is None:
            return
        word = quote(self.name)
        raise CannotStart(
            "session-busy",
            f'process {pid or "?"} leads the team "{self.name}" now',
            looked_at=[("team", str(self.directory_path)), ("session", self.session)],
            do=[
                f"teamwright status {word}",
                f"teamwright send {quote(f'lead@{self.name}')} TEXT",
                f"end it with: teamwright stop {word}",
            ],
            note="nothing was started",
        )


def find_saved_team(home: Home, word: str) -> SavedTeam:
    """Return the team of that name, else in any case, else by its directory.

    Raises TeamwrightError (`unknown-team`) naming the nearest, and for an ambiguous word.
    """
    teams = all_teams(home)
    found = _find(teams, word)
    if found is None:
        raise _unknown_team_error(home, word, teams)
    return found


def find_team_view(home: Home, word: str, *, archived: bool = False) -> TeamView:
    """Return the view of the team, like `find_saved_team`; with `archived` else the newest deleted one."""
    from teamwright.team_records.snapshots import archived_teams, team_views

    teams = team_views(home)
    if (found := _find(teams, word)) is not None:
        return found
    deleted = archived_teams(home) if archived else []
    matches = _exact_names(deleted, word) or _near_names(deleted, word)
    if not matches:
        raise _unknown_team_error(home, word, [*teams, *deleted])
    return matches[0]


def find_tasks(home: Home, word: str) -> tuple[TaskView, ...]:
    """Return the tasks of a team, also a deleted one, or of a session without a team (`session-<8>`).

    Raises TeamwrightError (`unknown-team`).
    """
    from teamwright.team_records.snapshots import task_views

    shared = home.shared / "tasks" / word
    known = "/" not in word and word not in {".", ".."} and os.path.isdir(shared)  # False also for a name too long
    directory = shared if known else home.shared / "tasks" / team_dir(word)
    try:
        return find_team_view(home, word, archived=True).tasks
    except TeamwrightError:
        if os.path.isdir(directory):
            return task_views(directory)
        raise


def find_session_to_resume(home: Home, cwd: Path, word: str) -> SessionView:
    """Return the session to resume: the one that led the team of that name, else the one whose id begins so.

    Raises TeamwrightError: `unknown-session` (with the nearest team), or when the word matches both a session and, in
    another spelling, a team; and the errors of `find_session_of_team`.
    """
    teams = all_teams(home)
    if exact := [team for team in teams if team.name == word]:
        return last_session(_only_match(exact, word))
    loose = _near_names(teams, word)
    try:
        found = find_session(home, cwd, word)
    except TeamwrightError as none:
        if loose:
            return last_session(_only_match(loose, word))
        close = nearest(word, [team.name for team in teams])
        if close:
            none.replace_advice([f"did you mean the team {close}?", *none.do])
        none.replace_advice([*_archive_advice(home, word), *none.do])
        raise
    if loose:
        raise TeamwrightError(
            "unknown-session",
            f"{word!r} may be a session or a team",
            looked_at=[("session", found.id), ("team", ", ".join(team.name for team in loose))],
            do=["give more of the session's id", "write the team's name as it is"],
            note="nothing was started",
        )
    return found


def find_session_of_team(home: Home, name: str) -> SessionView:
    """Return the session to resume for the team of that name. Raises as `find_saved_team` and `last_session` do."""
    return last_session(find_saved_team(home, name))


def last_session(team: SavedTeam) -> SessionView:
    """Return the session that led a team without a lead.

    Raises TeamRefused for another product's team, StorageError for one that cannot be read, CannotStart
    (`session-busy`) while a process leads it, TeamwrightError (`unknown-session`) without a conversation.
    """
    team.require_own()
    team.require_no_lead()
    for view in session_views(team.home):
        if view.id == team.session:
            return view
    raise TeamwrightError(
        "unknown-session",
        f'the session that led the team "{team.name}" is gone',
        looked_at=[("session", team.session), ("looked in", str(team.home.own / "projects"))],
        do=[f"let a new session lead it: teamwright teams adopt {quote(team.name)}"],
        note="nothing was started",
    )


def require_adoptable(team: SavedTeam) -> SavedTeam:
    """Return the team when it has no lead. Raises as `last_session`, but needs no conversation of the former lead."""
    team.require_own()
    team.require_no_lead()
    return team


async def find_team_to_adopt(home: Home, stores: TeamStores | None, word: str) -> tuple[str, str]:
    """Return the name and the directory of a team without a lead: of these stores, else of the home.

    Raises as `require_adoptable`; of stores TeamwrightError (`unknown-team`).
    """
    if stores is None:
        team = require_adoptable(find_saved_team(home, word))
        return team.name, team.directory
    found = await stores.teams.find_without_lead(word)
    if len(found) != 1:
        what = "no team" if not found else f"{len(found)} teams"
        raise TeamwrightError(
            "unknown-team", f"{what} without a lead have the name {word[:80]!r}", do=["teamwright teams"]
        )
    return word, found[0]


def team_in(home: Home, directory: str) -> SavedTeam:
    """Return the team in one directory under `teams/`."""
    from teamwright.team_records.file_stores import FileStores

    stores = FileStores(home)
    config, no_config = _read(lambda: stores.read_roster(directory), "config.json")
    file, no_file = _read(lambda: stores.read_state(directory), "team.json")
    return SavedTeam(home, directory, config, file, "; ".join(word for word in (no_config, no_file) if word))


def all_teams(home: Home) -> list[SavedTeam]:
    """Return every team on disk, by directory, also those that cannot be read."""
    try:
        names = sorted(e.name for e in (home.shared / "teams").iterdir() if e.is_dir() and e.name[:1] != ".")
    except OSError:
        return []
    found: list[SavedTeam] = []
    for name in names:
        try:
            found.append(team_in(home, name))
        except TeamwrightError:
            continue  # not a valid team name
    return found


def _find(teams: Sequence[Named], word: str) -> Named | None:
    """Return the team of exactly that name, else in any case, else by its directory. Raises TeamwrightError
    (`unknown-team`) for an ambiguous word.
    """
    found = _exact_names(teams, word) or _near_names(teams, word)
    return _only_match(found, word) if found else None


def _exact_names(teams: Sequence[Named], word: str) -> list[Named]:
    return [team for team in teams if team.name == word]


def _near_names(teams: Sequence[Named], word: str) -> list[Named]:
    lower = word.lower()
    return [t for t in teams if t.name.lower() == lower or t.directory in (word, team_dir(word))]


def _unknown_team_error(home: Home, word: str, teams: Sequence[NamedTeam]) -> TeamwrightError:
    names = [team.name for team in teams]
    addresses = [(name, f"{name}@{team.name}") for team in teams for name in team.member_names if name != LEAD]
    close = nearest(word, [*names, *dict(addresses)])
    lower_name = word.lower() if any(word.lower() == name.lower() for name, _ in addresses) else (close or "").lower()
    suggestions = [address for name, address in addresses if name.lower() == lower_name][:3] or (
        [close] if close else []
    )
    do = [f"did you mean {one}?" for one in suggestions] or ["teamwright teams"]
    do = [*_archive_advice(home, word), *do]
    return unknown_team(word, names, home.origin or str(home.shared / "teams"), do)


def _archive_advice(home: Home, word: str) -> list[str]:
    """Return how the work of an archived team of that name continues; empty without one."""
    from teamwright.team_records.snapshots import archived_teams  # loaded only for an error

    session = next((view.session for view in archived_teams(home) if view.name == word), "")
    text = f"{word} is in the archive, its lead's conversation continues without it: teamwright resume {session[:8]}"
    return [text] if session else []


def _only_match(found: Sequence[Named], word: str) -> Named:
    if len(found) == 1:
        return found[0]
    by_directory = [team for team in found if team.directory == word]
    if len(by_directory) == 1:
        return by_directory[0]
    raise TeamwrightError(
        "unknown-team",
        f"{len(found)} teams may be meant by {word[:80]!r}",
        looked_at=[("directory", team.directory) for team in found[:6]],
        do=["name one by its directory"],
        note="nothing was done",
    )


def _read(read: Callable[[], T], name: str) -> tuple[T | None, str]:
    try:
        return read(), ""
    except FileNotFoundError:
        return None, f"{name} is missing"
    except TeamwrightError as problem:
        return None, f"{name}: {problem.what}"
    except OSError as problem:
        return None, f"{name}: {problem.strerror or problem}"
