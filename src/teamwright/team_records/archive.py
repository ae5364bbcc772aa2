"""The archive: the directory for deleted and finished teams, with their requests, mail, tasks and integration queue.

Depends on `storage` and `tasks`. Only entries older than the stated retention are destroyed. The decision to delete a
team is left to its callers.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.requests.request_store import RequestStore
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.files import storage_error
from teamwright.storage.paths import Home, make_private
from teamwright.team_records.file_stores import FileStores

RETENTION_DAYS = 30
"""Days that an archived team is kept."""


def archive_entry(home: Home, directory: str) -> Path:
    """Return a free path `archive/<team directory>-<8 hex>`; the hex digits are the first of the team's uuid, if it has
    one.
    """

    mark = secrets.token_hex(4)
    with contextlib.suppress(StorageError):
        file = FileStores(home).read_state(directory)
        mark = file.uuid[:8] if file else mark
    while (entry := home.archive / f"{directory}-{mark}").exists():
        mark = secrets.token_hex(4)
    return entry


async def archive_team(home: Home, directory: str) -> Path:
    """Move a team's directory and its tasks into the archive; a shared task list stays. Returns the entry.

    The team's directory is renamed in one step, so that no process sees half a team. Guards stay. Raises
    TeamwrightError (`unknown-team`), StorageError, LockTimeout.
    """
    if not home.team(directory).is_dir():
        raise TeamwrightError("unknown-team", f"there is no team in {home.team(directory)}")
    entry = archive_entry(home, directory)
    stores = FileStores(home)
    async with stores.lock(stores.roster(directory).path).hold() as lock:
        lock.check()
        _move(home.team(directory), entry)
    await _finish_archiving(home, directory, entry)
    return entry


async def find_archived(home: Home, session: str) -> Path | None:
    """Return the entry of the team that this session deleted last, completing an interrupted move; None without one.

    Raises StorageError, LockTimeout.
    """
    from teamwright.team_records.team_state import read_team_file

    entries = [path for path in home.archive.iterdir() if path.is_dir()] if home.archive.is_dir() else []
    for entry in sorted(entries, key=lambda path: path.stat().st_mtime, reverse=True):
        with contextlib.suppress(StorageError):
            file = read_team_file(entry / "team.json")
            if file is None or file.lead.session != session:
                continue
            directory = entry.name.rpartition("-")[0]
            if not home.team(directory).exists():
                await _finish_archiving(home, directory, entry)
            return entry
    return None


async def _finish_archiving(home: Home, directory: str, entry: Path) -> None:
    """Move the remaining files of a team into its entry; files that are there already stay."""
    with contextlib.suppress(OSError):  # our own lock directory was moved too
        (entry / "config.json.lock").rmdir()
    _move_own_files(home, directory, entry)
    stores = FileStores(home)
    if stores.tasks(directory).exists and not stores.is_shared(directory):
        await stores.tasks(directory).archive_and_remove(entry / "tasks")


def archive_entries(home: Home) -> list[tuple[float, Path]]:
    """Return the entries of the archive, oldest first, each with the time when it was archived or last changed."""
    if not home.archive.is_dir():
        return []
    entries = [entry for entry in home.archive.iterdir() if entry.is_dir() and not entry.is_symlink()]
    return sorted((entry.stat().st_mtime, entry) for entry in entries)


def remove_entries(entries: Sequence[Path]) -> list[Path]:
    """Remove entries of the archive for good. Returns those that are gone."""
    for entry in entries:
        shutil.rmtree(entry, ignore_errors=True)
    return [entry for entry in entries if not entry.exists()]


def prune_archive(
    home: Home, *, days: float = RETENTION_DAYS, now: float | None = None, max_share: int = 1
) -> list[Path]:
    """Remove teams archived more than this many days before `now`, at most one in `max_share` of all. Returns them."""
    limit = (time.time() if now is None else now) - days * 86_400
    aged = archive_entries(home)
    return remove_entries([entry for changed, entry in aged if changed < limit][: -(-len(aged) // max_share)])


def _move_own_files(home: Home, directory: str, entry: Path) -> None:
    """Move a team's integration queue, and its requests, which are elsewhere under a foreign root. Remove its
    doorbells.
    """
    archive_queue(home, directory, entry)
    requests = RequestStore.of_team(home, directory).directory
    bells = TeamDoorbells(home, directory).place
    if requests.is_dir():
        _move(requests, entry / "requests")
    for place in (entry / "bells", bells):
        shutil.rmtree(place, ignore_errors=True)


def archive_queue(home: Home, directory: str, entry: Path) -> bool:
    """Move the integration queue of a team into this entry. Return False without a queue. Raises StorageError."""
    queue = home.integration(directory)
    if queue.is_dir():
        _move(queue, entry / "integration")
        return True
    return False


def _move(source: Path, target: Path) -> None:
    try:
        make_private(target.parent)
        shutil.move(source, target)
    except OSError as problem:
        raise storage_error(problem, source) from problem
