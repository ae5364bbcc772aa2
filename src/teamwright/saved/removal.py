"""Removal of a team from outside: requests, mail and tasks are archived. Archived teams are deleted on request.

A team is archived only without a lead. The lease of its session is held during the removal, so that no process resumes
it. Depends on teams on disk and on processes of a dead session.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from teamwright.config.trust import require_person
from teamwright.processes.process_records import end_orphans
from teamwright.protocol.errors import CannotStart, TeamRefused, TeamwrightError
from teamwright.protocol.ids import LEAD_ALIAS, nearest
from teamwright.protocol.members import MemberState
from teamwright.requests.request_store import RequestStore
from teamwright.saved.teams import SavedTeam, all_teams, find_saved_team
from teamwright.storage.file_lease import Lease
from teamwright.storage.paths import Home
from teamwright.team_records.archive import archive_entries, archive_team, remove_entries
from teamwright.team_records.file_stores import FileStores

if TYPE_CHECKING:
    from teamwright.team_records.snapshots import TeamView

SHOWN = 6
"""Maximum number of open tasks that a refusal names."""


class RemovedTeam(Struct, frozen=True):
    """An archived team: `archived` is the entry; `members` had a place, `open_tasks` and `unread` were open.

    `ended` are ids of processes that the team had left running, `stayed` of those that did not exit.
    """

    team: str
    directory: str
    archived: Path
    members: tuple[str, ...] = ()
    open_tasks: tuple[str, ...] = ()
    unread: int = 0
    ended: tuple[int, ...] = ()
    stayed: tuple[int, ...] = ()


class TeamArchive(Protocol):
    """The archive of the teams that a home shows: its own ones, or those of a database."""

    def hold(self, team: SavedTeam) -> AbstractAsyncContextManager[None]:
        """Let no process lead the team while the block runs. Raises TeamRefused while one does."""
        ...

    async def changed_at(self, team: SavedTeam) -> float:
        """Return the time of the team's last change, in seconds since 1970."""
        ...

    async def add(self, team: SavedTeam) -> ArchivedTeam:
        """End the processes that the team left running, and archive it. Raises StorageError, LockTimeout."""
        ...


class ArchivedTeam(Struct, frozen=True):
    """The entry of an archived team, and the processes that ended and that stayed."""

    entry: Path
    ended: tuple[int, ...] = ()
    stayed: tuple[int, ...] = ()


class FileArchive:
    """The archive of a home; see TeamArchive."""

    @asynccontextmanager
    async def hold(self, team: SavedTeam) -> AsyncGenerator[None]:
        """See TeamArchive. The lease of the session that led the team is held."""
        if (pid := team.lead_pid()) is not None:
            raise at_work_error(team, pid)
        lease = team.lease
        if lease is None or not lease.parent.is_dir():
            yield
            return
        try:
            taken = Lease.take(lease, f"putting the team {team.name} into the archive")
        except CannotStart:
            raise at_work_error(team, 0) from None
        try:
            yield
        finally:
            taken.release()

    async def changed_at(self, team: SavedTeam) -> float:
        return await asyncio.to_thread(_changed, team)

    async def add(self, team: SavedTeam) -> ArchivedTeam:
        ended, stayed = await _end_processes(team)
        return ArchivedTeam(await archive_team(team.home, team.directory), ended, stayed)


FILES = FileArchive()


async def remove_team(home: Home, word: str, *, force: bool, archive: TeamArchive = FILES) -> RemovedTeam:
    """Archive the team of that name.

    Raises TeamwrightError (`unknown-team`); TeamRefused while its lead lives, for another product's team, and without
    `force` while a task is open, a message is unread or a file cannot be read; StorageError, LockTimeout.
    """
    from teamwright.team_records.snapshots import team_view

    require_person(home, "removes teams", f"teams rm {word}"[:100])
    team = find_saved_team(home, word)
    _refuse_foreign(team, force=force)
    async with archive.hold(team):
        view = team_view(home, team.directory)
        # Tasks on a list that others use stay there.
        is_shared = bool(team.file and team.file.task_list) or FileStores(team.home).is_shared(team.directory)
        tasks = () if is_shared else tuple(task.id for task in view.tasks if task.open)
        if not force:
            _refuse_open(team, view, tasks)
        return await _archive(archive, team, view, tasks)


async def remove_finished(home: Home, before: float, archive: TeamArchive = FILES) -> list[RemovedTeam]:
    """Archive all finished teams without a change since `before` (seconds since 1970).

    A finished team has no lead, no member that runs, no open task and no unread mail. Raises TeamwrightError (`denied`)
    for an agent's command, StorageError, LockTimeout.
    """
    require_person(home, "removes teams", "teams rm --finished")
    return await archive_finished_teams(home, before, archive=archive)


class DeletedTeam(Struct, frozen=True):
    """A team in the archive: its name, its entry, and when it was archived or last changed, in seconds since 1970."""

    team: str
    entry: str
    archived_at: float
    path: Path


def find_archived_teams(home: Home, before: float, word: str = "") -> list[DeletedTeam]:
    """Return the teams that were archived before that time (seconds since 1970), oldest first.

    With `word` those of this name, or the entry of this name. Raises TeamwrightError (`unknown-team`) when no archived
    team has it.
    """
    found = [DeletedTeam(_name_of(entry), entry.name, changed, entry) for changed, entry in archive_entries(home)]
    if word:
        known = [one.entry for one in found]
        found = [one for one in found if word in (one.team, one.entry)]
        if not found:
            close = nearest(word, known)
            do = [f"did you mean {close}?"] if close else ["look: teamwright teams --archived"]
            raise TeamwrightError("unknown-team", f"no archived team is named {word[:60]!r}", do=do)
    return [one for one in found if one.archived_at < before]


def delete_archived_teams(home: Home, teams: Sequence[DeletedTeam]) -> list[DeletedTeam]:
    """Delete archived teams with their requests, mail and tasks; return those that are gone.

    Raises TeamwrightError (`denied`) for an agent's command.
    """
    require_person(home, "deletes archived teams", "teams rm --archived")
    gone = set(remove_entries([one.path for one in teams]))
    return [one for one in teams if one.path in gone]


def _name_of(entry: Path) -> str:
    """Return the name of an archived team; that of its directory when its roster cannot be read."""
    with suppress(OSError, ValueError, AttributeError):
        return str(json.loads((entry / "config.json").read_bytes()).get("name") or "") or entry.name.rpartition("-")[0]
    return entry.name.rpartition("-")[0]


async def archive_finished_teams(
    home: Home, before: float, share: int = 1, archive: TeamArchive = FILES
) -> list[RemovedTeam]:
    """Archive finished teams for the runtime: at most one of `share` teams, oldest first. Damaged teams stay."""
    teams = await asyncio.to_thread(all_teams, home)
    aged = sorted([(await archive.changed_at(team), team.directory, team) for team in teams if team.file is not None])
    old = [team for changed, _, team in aged if changed < before and _is_finished(team)][: -(-len(teams) // share)]
    removed = [await _archive_if_finished(archive, team) for team in old]
    return [one for one in removed if one is not None]


async def _archive_if_finished(archive: TeamArchive, team: SavedTeam) -> RemovedTeam | None:
    """Archive a team; None when a process leads it now, or it is not finished any more."""
    from teamwright.team_records.snapshots import team_view

    with suppress(TeamRefused, CannotStart):
        async with archive.hold(team):
            if _is_finished(team):
                return await _archive(archive, team, team_view(team.home, team.directory), ())
    return None


def _is_finished(team: SavedTeam) -> bool:
    from teamwright.team_records.snapshots import FINISHED, team_view

    view = team_view(team.home, team.directory)
    return view.state == FINISHED and not any(member.state is MemberState.WAITING_FOR_LEAD for member in view.members)


def _changed(team: SavedTeam) -> float:
    """Return the time of the team's last change, in seconds since 1970."""
    places = (
        team.directory_path,
        team.directory_path / "inboxes",
        FileStores(team.home).task_directory(team.directory),
        RequestStore.of_team(team.home, team.directory).directory,
    )
    files = [path for place in places if place.is_dir() for path in place.iterdir()]
    lease = [team.lease] if team.lease is not None else []
    found = [path.lstat().st_mtime for path in (*files, *lease) if path.exists()]
    return max(found, default=time.time())


async def _archive(archive: TeamArchive, team: SavedTeam, view: TeamView, tasks: tuple[str, ...]) -> RemovedTeam:
    done = await archive.add(team)
    members = tuple(member.name for member in view.members if member.name != LEAD_ALIAS)
    return RemovedTeam(team.name, team.directory, done.entry, members, tasks, view.unread, done.ended, done.stayed)


async def _end_processes(team: SavedTeam) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """End orphaned member processes, and processes of commands, before the files are archived."""
    from teamwright.saved.orphaned_members import EndedOrphans, stop_orphan_members

    outlived = await stop_orphan_members(team.home, team.file) if team.file is not None else EndedOrphans()
    if team.lease is None:
        return outlived.ended, outlived.stayed
    found = await asyncio.to_thread(end_orphans, team.lease.parent)
    ended = tuple(left.pid for left in found if not left.is_alive)
    return outlived.ended + ended, outlived.stayed + tuple(left.pid for left in found if left.is_alive)


def _refuse_foreign(team: SavedTeam, *, force: bool) -> None:
    """Refuse another product's team. In Teamwright's home an incomplete or damaged team needs `force`."""
    if team.file is not None or (force and team.may_be_own):
        return
    if not team.may_be_own:
        team.require_own()
    raise TeamRefused(
        "team-refused",
        f'it is not known whether the team "{team.name}" is at work: {team.damaged or "team.json is missing"}',
        looked_at=[("team", str(team.directory_path))],
        do=[f"if it is unused: teamwright teams rm {quote(team.name)} --force"],
        note="nothing was removed",
    )


def _refuse_open(team: SavedTeam, view: TeamView, tasks: tuple[str, ...]) -> None:
    waiting = [f"{member.name} {member.unread}" for member in view.members if member.unread > 0]
    torn = [f"the inbox of {member.name}" for member in view.members if member.unread < 0]
    damaged = "; ".join([*([team.damaged] if team.damaged else []), *torn])
    requests = RequestStore.of_team(team.home, team.directory).count_asked_again()
    if not (tasks or waiting or damaged or requests):
        return
    named = [f"#{task.id} {task.subject or task.damaged}" for task in view.tasks if task.id in tasks]
    more = [f"and {len(named) - SHOWN} more"] if len(named) > SHOWN else []
    raise TeamRefused(
        "team-refused",
        f'the team "{team.name}" has something open',
        looked_at=[
            *([("open", "; ".join([*named[:SHOWN], *more]))] if named else []),
            *([("unread", ", ".join(waiting))] if waiting else []),
            *([("requests", f"{requests}, which a resume takes up")] if requests else []),
            *([("damaged", damaged)] if damaged else []),
        ],
        do=[
            *([] if team.damaged else [f"continue it: teamwright resume {quote(team.name)}"]),
            f"put it into the archive: teamwright teams rm {quote(team.name)} --force",
        ],
        note="nothing was removed",
    )


def at_work_error(team: SavedTeam, pid: int) -> TeamRefused:
    """Return the error for a team that a process leads; 0 for an unknown pid."""
    return TeamRefused(
        "team-refused",
        f'the team "{team.name}" is at work',
        looked_at=[("process", str(pid) if pid else "unknown"), ("team", str(team.directory_path))],
        do=[f"end it first: teamwright stop {quote(team.name)}"],
        note="nothing was removed",
    )
