"""Pending requests for a person in all live teams and sessions: the present ones, or the next one.

Changes of directories wake it, for new teams and sessions as for requests. Depends on the places of requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct, field

from teamwright.approvals import open_requests
from teamwright.protocol.pending_request import PendingRequest
from teamwright.requests.request_store import RequestStore
from teamwright.storage.file_lease import lease_held, lease_path
from teamwright.storage.file_watcher import Watcher
from teamwright.storage.paths import Home

GATHER_S = 0.03
"""Seconds for which changes are collected before the files are read once."""


def waiting_requests(home: Home) -> list[PendingRequest]:
    """Return the requests that a person may answer now, oldest first: those of running processes."""
    return [one for one in open_requests(home) if one.is_alive]


async def wait_for_request(home: Home) -> list[PendingRequest]:
    """Return the open requests; without any, wait for one in any process."""
    async with Watcher() as watcher:
        everywhere = _RequestDirectories(home, watcher)
        while True:
            everywhere.follow()
            if found := waiting_requests(home):
                return found
            await everywhere.changed.wait()
            await asyncio.sleep(GATHER_S)
            everywhere.changed.clear()


class _RequestDirectories(Struct):
    """The directories in which a request may appear: those of all teams, and of running sessions."""

    home: Home
    watcher: Watcher
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _followed: set[Path] = field(default_factory=set[Path])
    _quiet: set[Path] | None = None
    """Sessions that no process ran at the first look."""

    def follow(self) -> None:
        """Follow the present directories, and those of later teams and sessions."""
        teams, projects = self.home.shared / "teams", self.home.own / "projects"
        self._directory(teams)
        self._directory(projects)
        for team in _below(teams):
            self._directory(RequestStore.of_team(self.home, team.name).directory)
        sessions: list[Path] = []
        for project in _below(projects):
            # A line in a transcript may show that a session was resumed. Sessions that are followed need no check.
            self._directory(project, lambda name, p=project: p / name.removesuffix(".jsonl") not in self._followed)
            sessions += _below(project)
        if self._quiet is None:
            self._quiet = {session for session in sessions if not lease_held(lease_path(session))}
        for session in sessions:
            # A session that was just created may not hold its lease yet.
            if session not in self._followed and (session not in self._quiet or lease_held(lease_path(session))):
                self._followed.add(session)
                self._directory(session / "requests")

    def _directory(self, directory: Path, concerns: Callable[[str], bool] = lambda _name: True) -> None:
        if directory not in self._followed:
            self._followed.add(directory)
            self.watcher.follow_directory(directory, lambda _names: self.changed.set(), concerns)


def _below(parent: Path) -> Iterator[Path]:
    try:
        yield from [entry for entry in parent.iterdir() if entry.is_dir()]
    except OSError:
        return
