"""An index of the tasks that this process saw last. It is a hint where to look; the files decide.

It groups the known tasks into ready, waiting, in flight (owned) and done, so that the next candidate is found without
listing the directory or checking every task. Callers read the files again under a lock.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.task_file import DamagedTaskFile, FileSignature, TaskFile, file_signature, list_numbers, read_task

SMALL_LIST = 256
"""The size up to which a list's directory is listed whenever that could show more tasks."""

_LISTING_SHARE = 20
"""Longer lists are listed for at most this fraction of the time: one part in 20."""

_PROBES = 64
"""The number of names after the highest known number that are tried before the directory is listed."""

_DONE_STEP = 32
"""The number of finished tasks that one listing checks, in turn, so that their total does not add to the cost."""


OnFileChange: TypeAlias = Callable[[Task | None, Task | None], None]
"""Reports the change of a file by another process: its task as read last, and as it is now."""


class Readiness(Enum):
    """The group of a known task."""

    READY = "ready"
    WAITING = "waiting"
    IN_FLIGHT = "flight"
    DONE = "done"


class TaskIndex:
    """The last readings of a list's files, for one event loop. No method awaits."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._prefix = f"{directory}{os.sep}"
        self._found: dict[int, TaskFile] = {}
        self._damaged: dict[int, DamagedTaskFile] = {}
        self._dependents: dict[int, set[int]] = {}
        self._kinds: dict[int, Readiness] = {}
        self._ready: list[int] = []
        self._flight: set[int] = set()
        self._drafts: dict[str, set[int]] = {}
        self._listed_at = 0.0
        self._listing_took = 0.0
        self._done_at = 0
        self._watchers: tuple[OnFileChange, ...] = ()
        self.highest = 0
        self.arrivals = 0
        """The number of times that a task became ready."""

    def path(self, number: int) -> str:
        """Return the path of the file with this number."""
        return f"{self._prefix}{number}.json"

    # ── known tasks ──────────────────────────────────────────────────────────────────────────────────────────

    def known_tasks(self) -> list[Task]:
        """Return all valid tasks as seen last, in numeric order."""
        return [self._found[number].task for number in sorted(self._found)]

    def refresh_task(
        self, number: int, *, fresh: bool = False, careful: bool = False, patient: bool = True
    ) -> Task | None:
        """Return the task from its file. An unchanged file is not read again unless `fresh`.

        With `careful`, a file that was read too soon after its last change is read again too; only complete listings
        need that, because a change of status changes the size. A damaged file gives its last valid reading, if any (see
        `is_damaged`); `patient` waits for its writer. Raises StorageError.
        """
        last = self._found.get(number)
        if not fresh:
            mark = file_signature(self.path(number))
            if last and last.signature == mark and (last.is_stable or not careful):
                return last.task
            hurt = self._damaged.get(number)
            if hurt and hurt.signature == mark and time.time_ns() - hurt.signature.mtime_ns > 1_000_000_000:
                return last.task if last else None
        read = read_task(self.path(number), str(number), last, patient=patient)
        if isinstance(read, DamagedTaskFile):
            first = not self.exists(number)
            self._damaged[number] = read
            self.highest = max(self.highest, number)
            if first:
                self._update_dependents(number)
            return last.task if last else None
        if read is None:
            self._note_removed_by_others(number)
            return None
        self._damaged.pop(number, None)
        self._note(number, read)
        self._report_external_change(last, read)
        return read.task

    def is_damaged(self, number: int) -> bool:
        """Return True when the file could not be read at the last check."""
        return number in self._damaged

    @property
    def has_damage(self) -> bool:
        """True when a file could not be read at the last check."""
        return bool(self._damaged)

    def is_blocked(self, task: Task) -> bool:
        """Return True when a blocker of the task was open at the last check."""
        return any(self.is_open(blocker) for blocker in _numbers(task.blocked_by))

    def open_ids(self) -> frozenset[str]:
        """Return the ids of all tasks that still block others, as seen last."""
        return frozenset(str(number) for number in self.numbers() if self.is_open(number))

    def damage_reason(self, number: int) -> str:
        """Return the damage of a file; empty for a valid one."""
        hurt = self._damaged.get(number)
        return hurt.reason if hurt else ""

    def damaged_numbers(self) -> list[int]:
        """Return the numbers of the files that could not be read at the last check, in numeric order."""
        return sorted(self._damaged)

    def exists(self, number: int) -> bool:
        """Return True when the file existed at the last check, valid or damaged."""
        return number in self._found or number in self._damaged

    def is_open(self, number: int) -> bool:
        """Return True when the task still blocks others: it exists and is not known to be finished."""
        found = self._found.get(number)
        return not found.task.is_finished if found else number in self._damaged

    def note_written(self, task: Task, raw: bytes) -> None:
        """Note that this process has written the task with these bytes. The task's lock is still held."""
        number = task.number
        mark = file_signature(self.path(number))
        self._damaged.pop(number, None)
        self._note(number, TaskFile(task, mark or FileSignature(0, 0, 0), False, raw))

    def note_removed(self, number: int) -> None:
        """Note that the file was deleted."""
        if not self.exists(number):
            return
        gone = self._found.pop(number, None)
        self._damaged.pop(number, None)
        self._set_readiness(number, None)
        self._note_draft(number, gone and gone.task, None)
        for blocker in _numbers(gone.task.blocked_by if gone else ()):
            self._dependents.get(blocker, set()).discard(number)
        self._update_dependents(number)

    def _note_removed_by_others(self, number: int) -> None:
        """Note that another process deleted the file."""
        last = self._found.get(number)
        self.note_removed(number)
        self._report_external_change(last, None)

    def _report_external_change(self, before: TaskFile | None, after: TaskFile | None) -> None:
        if not self._watchers or (before is None and after is None):
            return
        one, other = before and before.task, after and after.task
        # A difference that JSON cannot express (a tuple, a list) is no change.
        if one != other and (one is None or other is None or one.encode() != other.encode()):
            for watcher in self._watchers:
                watcher(one, other)

    def watch(self, watcher: OnFileChange) -> Callable[[], None]:
        """Report changes by other processes to `watcher` from now on. Return the function that ends this."""
        self._watchers = (*self._watchers, watcher)

        def end() -> None:
            self._watchers = tuple(one for one in self._watchers if one is not watcher)

        return end

    def numbers(self) -> set[int]:
        """Return the numbers of all files that existed at the last check, valid or damaged."""
        return self._found.keys() | self._damaged.keys()

    def dependents(self, number: int) -> set[int]:
        """Return the tasks that this one blocked at the last check, in any state."""
        return set(self._dependents.get(number, ()))

    def known_drafts(self, creator: str) -> list[Task]:
        """Return the tasks that were drafts of this creator at the last check, in numeric order."""
        return [self._found[number].task for number in sorted(self._drafts.get(creator, ()))]

    def refresh_drafts(self, creator: str) -> list[Task]:
        """Return the drafts of this creator, with their files checked again."""
        found = (self.refresh_task(number) for number in sorted(self._drafts.get(creator, ())))
        return [task for task in found if task is not None]

    def changed_ms(self, number: int) -> int:
        """Return the time of the file's last change, in ms since 1970; 0 for an unknown file."""
        found = self._found.get(number)
        return found.signature.mtime_ns // 1_000_000 if found else 0

    # ── candidates ───────────────────────────────────────────────────────────────────────────────────────────

    def next_ready(self, after: int) -> int | None:
        """Return the lowest number above `after` that seems to be free."""
        at = bisect_right(self._ready, after)
        return self._ready[at] if at < len(self._ready) else None

    def ready_tasks(self) -> list[Task]:
        """Return the tasks that seem to be free, in numeric order."""
        return [self._found[number].task for number in self._ready if number in self._found]

    def tasks_in_flight(self) -> list[Task]:
        """Return the tasks with an owner as seen last, in numeric order."""
        return [self._found[number].task for number in sorted(self._flight) if number in self._found]

    def refresh_in_flight(self, below: int | None = None) -> None:
        """Check the tasks of other owners again; with `below`, only where that could free a lower number."""
        for number in sorted(self._flight):
            if below is None or number < below or any(d < below for d in self._dependents.get(number, ())):
                self.refresh_task(number)

    def refresh_ready(self, watermark: int) -> None:
        """Check for tasks that have become ready, the cheapest check first. `arrivals` counts them."""
        before = self.arrivals
        self.refresh_in_flight()
        for number in [n for n in self._damaged if n not in self._found]:
            self.refresh_task(number)
        top = max(watermark, self.highest) + 1
        if top - self.highest <= _PROBES:
            following = self.highest + 1
            while following <= top or self.exists(following - 1):
                self.refresh_task(following)
                following += 1
        if self.arrivals == before:
            self.list_if_due()

    # ── listing ──────────────────────────────────────────────────────────────────────────────────────────────

    def list_once(self) -> None:
        """List the directory if this process never did."""
        if self._listed_at == 0.0:
            self.list_all()

    def highest_number(self) -> int:
        """Return the highest number in the directory; for a long list the highest that was seen lately."""
        if len(self._found) > SMALL_LIST:
            self.list_if_due()
            return self.highest
        return max(self.highest, *list_numbers(self._directory), 0)

    def list_if_due(self) -> None:
        """List the directory, unless the list is long and was listed lately."""
        pause = self._listing_took * _LISTING_SHARE if len(self._found) > SMALL_LIST else 0.0
        if self._listed_at == 0.0:
            self.list_all()
        elif time.monotonic() - self._listed_at >= pause:
            self._list(self._select_for_refresh)

    def list_all(self) -> None:
        """List the directory and check every task in it. Raises StorageError."""
        self._list(sorted)

    def _select_for_refresh(self, there: set[int]) -> list[int]:
        """Return all tasks that are not known to be finished, and the next finished ones in turn."""
        done = sorted(number for number in there if self._kinds.get(number) is Readiness.DONE)
        if len(done) > _DONE_STEP:
            at = bisect_right(done, self._done_at)
            step = (done[at:] + done[:at])[:_DONE_STEP]
            self._done_at = step[-1]
            there = there.difference(done).union(step)
        return sorted(there)

    def _list(self, to_look_at: Callable[[set[int]], list[int]]) -> None:
        start = time.monotonic()
        there = list_numbers(self._directory)
        for number in self.numbers() - there:
            self._note_removed_by_others(number)
        for number in to_look_at(there):
            self.refresh_task(number, careful=True)
        self.highest = max(self.highest, *there, 0)
        self._listed_at = time.monotonic()
        self._listing_took = self._listed_at - start

    # ── grouping ─────────────────────────────────────────────────────────────────────────────────────────────

    def _note(self, number: int, found: TaskFile) -> None:
        old = self._found.get(number)
        if found.task.status is TaskStatus.COMPLETED:
            found = TaskFile(found.task, found.signature, found.is_stable, b"")  # its bytes are rarely compared again
        self._found[number] = found
        self.highest = max(self.highest, number)
        self._note_draft(number, old and old.task, found.task)
        new_edges = old is None or old.task.blocked_by != found.task.blocked_by
        if new_edges:
            for blocker in _numbers(old.task.blocked_by if old else ()):
                self._dependents.get(blocker, set()).discard(number)
            for blocker in _numbers(found.task.blocked_by):
                self._dependents.setdefault(blocker, set()).add(number)
        finishes = old is None or old.task.is_finished != found.task.is_finished
        if (
            new_edges
            or old is None
            or finishes
            or old.task.status != found.task.status
            or old.task.owner != found.task.owner
        ):
            self._update_readiness(number)
        if finishes:
            self._update_dependents(number)

    def _note_draft(self, number: int, old: Task | None, new: Task | None) -> None:
        before, after = (task.draft if task is not None else None for task in (old, new))
        if before is not None and (after is None or after.by != before.by):
            self._drafts[before.by].discard(number)
        if after is not None:
            self._drafts.setdefault(after.by, set()).add(number)

    def _update_readiness(self, number: int) -> None:
        found = self._found.get(number)
        self._set_readiness(number, self._readiness(found.task) if found else None)

    def _update_dependents(self, number: int) -> None:
        for dependent in self._dependents.get(number, ()):
            self._update_readiness(dependent)

    def _readiness(self, task: Task) -> Readiness:
        if task.is_finished or task.is_internal:
            return Readiness.DONE
        if any(self.is_open(blocker) for blocker in _numbers(task.blocked_by)):
            return Readiness.WAITING
        return Readiness.READY if task.status is TaskStatus.PENDING and task.owner is None else Readiness.IN_FLIGHT

    def _set_readiness(self, number: int, kind: Readiness | None) -> None:
        old = self._kinds.get(number)
        if old is kind:
            return
        if old is Readiness.READY:
            del self._ready[bisect_left(self._ready, number)]
        elif old is Readiness.IN_FLIGHT:
            self._flight.discard(number)
        if kind is Readiness.READY:
            insort(self._ready, number)
            self.arrivals += 1
        elif kind is Readiness.IN_FLIGHT:
            self._flight.add(number)
        if kind is None:
            self._kinds.pop(number, None)
        else:
            self._kinds[number] = kind


def _numbers(ids: Iterable[str]) -> list[int]:
    return [int(i) for i in ids if i.isascii() and i.isdigit()]
