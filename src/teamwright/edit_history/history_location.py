"""Locations of edit histories: the files of a session on disk, and the names of its agents.

Depends on the places of sessions and the records of sub-agents.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.transcript import read_header
from teamwright.edit_history.edit_journal_reader import EditJournal
from teamwright.edit_history.undo import UndoRequest
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.ids import LEAD, display_name
from teamwright.saved.saved_members import match_member_name
from teamwright.saved.team_access import SavedTeamAccess
from teamwright.saved.teams import all_teams
from teamwright.session.wiring.worktree_use import stored_worktree
from teamwright.storage.file_lease import lease_held, lease_path
from teamwright.storage.paths import Home
from teamwright.subagents.journal import RunJournal
from teamwright.team_records.team_state import process_directory
from teamwright.views.log import event_name, find_log

if TYPE_CHECKING:
    from teamwright.session.session import Session


class HistoryLocation(Struct, frozen=True):
    """The files of a session. `cwd` is its working directory, as far as known; `team` may be empty.

    `rooms` are the directories of member processes: an adopted member keeps the one of its first session. `beyond` are
    the external members, whose edits are not recorded. `is_here` is False for the copy of a session of a database that
    ran on another machine: that machine has the contents of its edits.
    """

    directory: Path
    session: str
    cwd: str
    team: str = ""
    rooms: tuple[Path, ...] = ()
    beyond: tuple[str, ...] = ()
    is_here: bool = True
    home: Home | None = None
    """The state of Teamwright with the session."""

    def require_here(self) -> HistoryLocation:
        """Return the location. Raises TeamwrightError (`unknown-session`) when another machine has the contents."""
        if self.is_here:
            return self
        raise TeamwrightError(
            "unknown-session",
            f"the edits of session {self.session[:8]} are on the machine on which it ran",
            looked_at=[("directory there", self.cwd)],
            do=["type this command on that machine"],
            note="nothing was changed",
        )

    @property
    def history(self) -> Path:
        """The directory with the contents and the journal of edits."""
        return self.directory / "history"

    @property
    def transcript(self) -> Path:
        """The lead's transcript."""
        return self.directory.with_name(f"{self.directory.name}.jsonl")


def find_history(home: Home, cwd: Path, name: str | None) -> HistoryLocation:
    """Find the session of a team (also a deleted one), the session with that id, or the newest of this directory.

    Raises TeamwrightError (`unknown-team`, `unknown-session`).
    """
    found = find_log(home, cwd, name)
    directory = found.path.parent
    header = read_header(directory.with_name(f"{directory.name}.jsonl")) or {}
    where = str((stored_worktree(header) or header).get("cwd", ""))
    return _with_rooms(home, HistoryLocation(directory, found.session or directory.name, where, found.team))


def accessed_history(access: SavedTeamAccess, own: Home, cwd: Path, name: str | None) -> HistoryLocation:
    """Find a session as `find_history` does, also that of a team in a database.

    Its files in `own`, the home of this machine, count before a copy of them.
    """
    if access.is_local or name is None:
        return find_history(own, cwd, name)
    found = find_history(access.home, cwd, name)
    local = own.session(Path(found.cwd), found.session)
    return replace(found, directory=local) if local.is_dir() else replace(found, is_here=False)


def history_of_session(session: Session) -> HistoryLocation:
    """Return the location of a session in this process."""
    agent_factory = session.agent_factory
    location = HistoryLocation(
        agent_factory.home.session(agent_factory.cwd, session.id),
        session.id,
        str(agent_factory.work_directory),
        session.team.name,
    )
    return _with_rooms(agent_factory.home, location)


def _with_rooms(home: Home, place: HistoryLocation) -> HistoryLocation:
    """Return the location with the directories of its member processes and with its external members."""
    rooms = dict.fromkeys(sorted((place.directory / "members").glob("*/")))
    led = [team for team in all_teams(home) if team.file is not None and team.session == place.session]
    incarnations = [
        (name, incarnation)
        for team in led
        if team.file is not None
        for name, incarnation in team.file.incarnation_records.items()
    ]
    rooms |= dict.fromkeys(
        process_directory(Path(incarnation.transcript))
        for _, incarnation in incarnations
        if incarnation.transcript and not incarnation.command
    )
    beyond = tuple(name for name, incarnation in incarnations if incarnation.command)
    team = place.team or next((team.name for team in led), "")
    return replace(place, team=team, rooms=tuple(rooms), beyond=beyond, home=home)


def subagent_owners(place: HistoryLocation) -> dict[str, str]:
    """Return for each sub-agent the member that it works for, the lead or a teammate."""
    direct = {
        run.id: run.owner
        for directory in (place.directory, *place.rooms)
        for run in RunJournal(directory).runs.values()
    }
    return {id: _root(direct, id) for id in direct}


def _root(direct: Mapping[str, str], id: str) -> str:
    seen: set[str] = set()
    while id in direct and id not in seen:
        seen.add(id)
        id = direct[id]
    return id


def agents_of_member(
    place: HistoryLocation, edits: EditJournal, member: str | None, owners: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the agents whose edits count as a member's: itself and its sub-agents. Without a member: empty, all
    agents.

    Raises UnknownMember with the names of agents that changed files; UsageError for a member without recorded edits.
    """
    if not member:
        return ()
    key = event_name(member)
    changed = edits.members
    own = [name for name in changed if key in (name.lower(), owners.get(name, "").lower())]
    if own:
        return tuple(own)
    known = {LEAD, *changed, *owners.values(), *(path.stem for path in (place.directory / "agents").glob("*.jsonl"))}
    if key in {name.lower() for name in place.beyond} - {name.lower() for name in known}:
        raise UsageError(
            "usage",
            f"what {member[:80]} edited is not known here: another program runs it",
            do=["git diff shows what changed in a repository, by whomever"],
            note="nothing was changed",
        )
    names = [display_name(name) for name in dict.fromkeys([*changed, *sorted(known)])]
    match_member_name(member, names, f"this session ({place.session})")
    return (key,)


def make_undo_request(
    place: HistoryLocation, edits: EditJournal, member: str | None, left: tuple[str, ...], owners: Mapping[str, str]
) -> UndoRequest:
    """Return the undo request for these arguments. `left` is relative to the session's directory. Raises
    UnknownMember.
    """
    paths = tuple(os.path.realpath(os.path.join(place.cwd, os.path.expanduser(path))) for path in left)
    by = agents_of_member(place, edits, member, owners)
    return UndoRequest(by, paths, display_name(event_name(member)) if member else "")


def running_members(place: HistoryLocation) -> list[str]:
    """Return the members whose own processes are running, by name."""
    return [room.name for room in place.rooms if lease_held(lease_path(room))]
