"""Orphans of a team: locks, processes, doorbells, and files of interrupted writes.

Files name the processes that ran the team, but not the commands of agents. On Linux, commands have a mark in their
environment that names the process that started them: they are orphans when that process ran the team and has exited. On
other systems, and for a command that cleared its environment, they are not detected. Ends no process.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.processes.process_tree import MARK_VARIABLE, list_processes
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.file_lease import lease_held, lease_holder, lease_path
from teamwright.storage.guard_record import read_guard
from teamwright.storage.lock_dir import DirectoryMark, directory_mark
from teamwright.views.audit.team_location import TeamLocation, entries

_INTENT_NS = 50_000_000


class LeftLock(Struct, frozen=True):
    """A lock directory that still exists. `pid` created it; 0 for an unknown process."""

    path: Path
    age_s: float
    pid: int = 0


class LeftProcess(Struct, frozen=True):
    """A running process; `why` says how it is known to belong to this team."""

    pid: int
    why: str


class Orphans(Struct, frozen=True):
    """The orphans. `locks` are Teamwright's own unused locks; `strange` may be another program's, or in use.

    `bells` are doorbells of a team without a lead. `debris` is harmless: drafts of interrupted writes, unused
    doorbells, copies of damaged inboxes, retired locks.
    """

    locks: tuple[LeftLock, ...] = ()
    foreign: tuple[LeftLock, ...] = ()
    processes: tuple[LeftProcess, ...] = ()
    doorbells: tuple[Path, ...] = ()
    debris: tuple[Path, ...] = ()


def find_orphans(place: TeamLocation, drivers: Collection[int], running: Collection[int] = ()) -> Orphans:
    """Find the orphans. `drivers` ran the team, `running` are expected to live. Nothing is raised.

    Locks of an archived team are skipped, because no process uses them.
    """
    locks = [] if place.archived else list(_locks(place))
    leases = sorted({*(lease_path(session) for session in place.sessions), *_lead_lease(place)})
    held_leases = [path for path in leases if lease_held(path)]
    holders = {lease_holder(path): path for path in held_leases}
    left = [LeftProcess(pid, f"drives the session of {path}") for pid, path in holders.items() if pid not in running]
    known = {*drivers, *map(_noted_pid, leases), place.file.lead.pid if place.file else 0} - {0}
    known -= set(holders)  # a lease holder is running: its pid in an older record belonged to an earlier process
    left += [one for one in _commands(known) if one.pid not in running]
    hung = () if held_leases or place.archived else tuple(entries(TeamDoorbells(place.home, place.directory).place))
    return Orphans(
        locks=tuple(lock for lock, ours in locks if ours),
        foreign=tuple(lock for lock, ours in locks if not ours),
        processes=tuple(left),
        doorbells=tuple(path for path in hung if not path.name.startswith(".")),
        debris=(*_debris(place), *(path for path in hung if path.name.startswith("."))),
    )


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────


def _locks(place: TeamLocation) -> Iterator[tuple[LeftLock, bool]]:
    """Yield existing lock directories, with True for an orphaned lock of Teamwright."""
    for directory in (place.path, place.inboxes, place.tasks):
        for path in entries(directory):
            if path.suffix != ".lock" or not path.is_dir():
                continue
            mark = directory_mark(str(path))
            if mark is not None:
                yield _judged(place, path, mark)


def _judged(place: TeamLocation, path: Path, mark: DirectoryMark) -> tuple[LeftLock, bool]:
    age = time.time() - mark.mtime_ns / 1e9
    record = read_guard(place.home, path.with_suffix(""))
    pid = record.creator_of(mark)
    begun = bool(record.intent) and abs(mark.mtime_ns - record.intent[0]) <= _INTENT_NS
    return LeftLock(path, age, pid), (bool(pid) or begun) and not record.is_held


def _debris(place: TeamLocation) -> Iterator[Path]:
    for directory in (place.path, place.inboxes, place.tasks, place.requests):
        for path in entries(directory):
            if any(sign in path.name for sign in (".tmp.", ".bad.", ".lock.stale.")):
                yield path


# ── processes ────────────────────────────────────────────────────────────────────────────────────────────────


def _lead_lease(place: TeamLocation) -> list[Path]:
    file = place.file
    return [Path(file.lead.lease)] if file is not None and file.lead.lease and not place.archived else []


def _commands(known: Collection[int]) -> Iterator[LeftProcess]:
    """Yield commands that outlived a process which ran the team, the first of each process family."""
    table = {row.pid: row for row in list_processes()}
    marks = {pid: mark for pid in table if (mark := _mark(pid))}
    for pid, mark in sorted(marks.items()):
        starter, _, start = mark.rpartition(".")[0].partition(".")
        is_starter_running = starter.isdigit() and int(starter) in table and table[int(starter)].start == start
        if (
            starter.isdigit()
            and int(starter) in known
            and not is_starter_running
            and marks.get(table[pid].parent) != mark
        ):
            yield LeftProcess(pid, f"was started by process {starter}, which is gone")


def _mark(pid: int) -> str:
    """Return the mark of a process: pid and start time of the process that started its family, and digits."""
    beginning = f"{MARK_VARIABLE}=".encode()
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environment:
        found = next((part for part in environment.read().split(b"\0") if part.startswith(beginning)), b"")
        return found.removeprefix(beginning).decode("utf-8", "replace")
    return ""


def _noted_pid(lease: Path) -> int:
    """Return the process id in a lease's note, also of a killed process."""
    try:
        note: object = json.loads(lease.read_bytes())
    except (OSError, ValueError, RecursionError):
        return 0
    pid = cast("dict[str, Any]", note).get("pid") if isinstance(note, dict) else None
    return pid if isinstance(pid, int) else 0
