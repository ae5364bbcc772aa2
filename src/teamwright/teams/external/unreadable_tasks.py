"""Task changes that a member process may have made: held briefly until the process reports them or the time is up.

The report and the file arrive by different ways in any order. Depends on the reports of member processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from teamwright.protocol.task import Task
from teamwright.teams.external.participants import ExternalParticipants
from teamwright.teams.team import task_info

REPORT_WAIT_S = 0.3
"""Seconds after a file's change in which a process may report it."""

OWNER_REPORT_WAIT_S = 5.0
"""The same for a task owned by a member with such a process: it most likely made the change, and may be slow."""

UncertainChange = tuple[Task | None, Task | None]


class UncertainChanges:
    """Noticed changes that no process has reported yet. `wake` is called when a change is certain."""

    def __init__(self, external: ExternalParticipants, wake: Callable[[], None]) -> None:
        self._external = external
        self._wake = wake
        self._held: list[tuple[float, UncertainChange]] = []
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, change: UncertainChange) -> bool:
        """Return True when the change is held because a member's process may have made it; else it is
        certain at once.
        """
        if not self._external.process_names:
            return False
        within = OWNER_REPORT_WAIT_S if self._is_owned_by_process(change[1]) else REPORT_WAIT_S
        self._held.append((asyncio.get_running_loop().time() + within, change))
        return True

    def _is_owned_by_process(self, task: Task | None) -> bool:
        return task is not None and (task.owner or "").lower() in self._external.process_names

    def confirmed_changes(self) -> Iterator[UncertainChange]:
        """Yield the changes that none of our processes reported in time, in order; reported ones are dropped."""
        now, held, self._held = asyncio.get_running_loop().time(), self._held, []
        for due, change in held:
            if self._was_reported(change):
                continue
            if due <= now:
                yield change
            else:
                self._held.append((due, change))
        first = min((due for due, _ in self._held), default=0.0)
        if self._held and (self._timer is None or first < self._timer.when()):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(first, self._on_due)

    def clear(self) -> None:
        """Drop all held changes."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_due(self) -> None:
        self._timer = None
        self._wake()

    def _was_reported(self, change: UncertainChange) -> bool:
        before, after = change
        task = after or before
        told = self._external.reported_tasks.get(task.id, ()) if task is not None else ()
        if after is None:
            return any(one.status == "deleted" for one in told)
        return task_info(after) in told
