"""The data of a project, which is a working directory: its sessions, teams, archived teams, task lists and trust.

Depends on sessions and teams on disk. Settings, agent types and instructions of the user belong to no project.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from teamwright.config.trust import TrustStore, require_person
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.ids import session_list_name
from teamwright.saved.removal import remove_team
from teamwright.saved.retention import remove_session
from teamwright.saved.sessions import SessionView, is_same_directory, session_views
from teamwright.saved.teams import all_teams
from teamwright.storage.paths import Home
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.snapshots import archived_teams, task_views


class ProjectData(Struct, frozen=True):
    """The data of one project. `archived` are directories in the archive, `size` is in bytes.

    `teams` are the names of teams, `open_tasks` the subjects of their open tasks and of those of sessions.
    """

    cwd: str
    sessions: tuple[SessionView, ...]
    teams: tuple[str, ...] = ()
    archived: tuple[Path, ...] = ()
    open_tasks: tuple[str, ...] = ()
    is_trusted: bool = False
    size: int = 0

    @property
    def changed_at(self) -> float:
        """The time of the newest session's last change, in seconds since 1970; 0 without a session."""
        return max((view.changed_at for view in self.sessions), default=0.0)

    def as_json(self) -> dict[str, object]:
        """Return the data as JSON output contains it."""
        return {
            "path": self.cwd,
            "changed_at": self.changed_at,
            "size": self.size,
            "sessions": [view.id for view in self.sessions],
            "running": [view.pid for view in self.sessions if view.pid],
            "teams": list(self.teams),
            "archived": [str(path) for path in self.archived],
            "open_tasks": list(self.open_tasks),
            "trusted": self.is_trusted,
        }


def projects(home: Home) -> list[ProjectData]:
    """Return the data of all projects with a session, the newest first."""
    by_directory: dict[str, list[SessionView]] = {}
    for view in session_views(home):
        by_directory.setdefault(view.cwd, []).append(view)
    found = [_data(home, cwd, views) for cwd, views in by_directory.items() if cwd]
    return sorted(found, key=lambda one: -one.changed_at)


def find_project(home: Home, path: Path) -> ProjectData:
    """Return the data of the project in this directory, which may be gone, also from when only a link led to it.

    Raises TeamwrightError (`unknown-session`) when there are none.
    """
    cwd = os.path.realpath(path)
    found = _data(home, cwd, [view for view in session_views(home) if is_same_directory(view.cwd, Path(cwd))])
    if not found.sessions and not found.is_trusted:
        raise TeamwrightError(
            "unknown-session",
            f"there are no data of {cwd}",
            looked_at=[("looked in", str(home.project(Path(cwd))))],
            do=["teamwright projects"],
            note="nothing was removed",
        )
    return found


async def remove_project(home: Home, data: ProjectData) -> None:
    """Remove the data of a project for good: teams and open tasks too.

    Raises UsageError (`not-for-agents`) in a command of an agent, CannotStart (`session-busy`) while a process runs one
    of its sessions, and the errors of `remove_team` and `remove_session`.
    """
    require_person(home, "removes the data of a project", f"projects rm {data.cwd}"[:100])
    running = [view for view in data.sessions if view.pid]
    if running:
        raise CannotStart(
            "session-busy",
            f"{len(running)} of its sessions run now",
            looked_at=[(view.id[:8], f"process {view.pid}") for view in running[:6]],
            do=[f"end it first: teamwright stop {running[0].id[:8]}"],
            note="nothing was removed",
        )
    for team in data.teams:
        removed = await remove_team(home, team, force=True)
        await asyncio.to_thread(shutil.rmtree, removed.archived, ignore_errors=True)
    for view in data.sessions:
        await remove_session(home, view, force=True)
    lists = {session_list_name(view.id) for view in data.sessions}
    task_lists = [home.archive / name for name in _names(home.archive) if name.rpartition("-")[0] in lists]
    snapshots = [
        home.shell_snapshots / name
        for name in _names(home.shell_snapshots)
        if any(name.startswith(f"{view.id}.") for view in data.sessions)
    ]
    await asyncio.to_thread(_remove_paths, [*data.archived, *task_lists, *snapshots])
    if data.is_trusted:
        TrustStore.load(home).remove_bound_to(Path(data.cwd))
    for place in {home.project(Path(data.cwd)), *(view.path.parent for view in data.sessions)}:
        with suppress(OSError):  # sessions of a directory with the same encoded name may be in it
            place.rmdir()


def _data(home: Home, cwd: str, views: list[SessionView]) -> ProjectData:
    ids = {view.id for view in views}
    teams = [team for team in all_teams(home) if team.session in ids and team.file is not None]
    archived = tuple(team.path for team in archived_teams(home) if team.session in ids)
    stores = FileStores(home)
    lists = [team.directory for team in teams] + [session_list_name(id) for id in ids]
    tasks = [task for name in lists if not stores.is_shared(name) for task in task_views(stores.task_directory(name))]
    directories = [view.directory for view in views] + [team.directory_path for team in teams] + list(archived)
    return ProjectData(
        cwd,
        tuple(views),
        tuple(sorted(team.name for team in teams)),
        archived,
        tuple(dict.fromkeys(task.subject or task.damaged for task in tasks if task.open)),
        TrustStore.load(home).is_bound_to(Path(cwd)),
        sum(view.size for view in views) + sum(size for path in directories for size in _sizes(path)),
    )


def _sizes(directory: Path) -> Iterator[int]:
    for at, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                yield os.lstat(os.path.join(at, name)).st_size


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _remove_paths(paths: list[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
