"""Changes of tasks that a member's own process may have made: held for a moment, until it says so or has not.

Its word comes by another way than the file, and either may be first. Knows what such processes told; does not know how
a change is told of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from teamwright.protocol.task import Task
from teamwright.teams.outside import Outside
from teamwright.teams.team import task_info

WITHIN_S = 0.3
"""So long after its file a process may tell of a change."""

OF_OWNER_S = 5.0
"""The same where the task is that of a member with such a process: it most likely made the change, and may be slow."""

Change = tuple[Task | None, Task | None]


class Doubt:
    """What was noticed and nobody has told of yet. `wake` is called when a change is certain."""

    def __init__(self, outside: Outside, wake: Callable[[], None]) -> None:
        self._outside = outside
        self._wake = wake
        self._held: list[tuple[float, Change]] = []
        self._due: asyncio.TimerHandle | None = None

    def hold(self, change: Change) -> bool:
        """Whether the change is held: a member's process may have made it. Else it is certain at once."""
        if not self._outside.processes:
            return False
        within = OF_OWNER_S if self._is_of_process(change[1]) else WITHIN_S
        self._held.append((asyncio.get_running_loop().time() + within, change))
        return True

    def _is_of_process(self, task: Task | None) -> bool:
        return task is not None and (task.owner or "").lower() in self._outside.processes

    def certain(self) -> Iterator[Change]:
        """What no process of ours told of in time, in order; what one told of is forgotten."""
        now, held, self._held = asyncio.get_running_loop().time(), self._held, []
        for due, change in held:
            if self._told(change):
                continue
            if due <= now:
                yield change
            else:
                self._held.append((due, change))
        first = min((due for due, _ in self._held), default=0.0)
        if self._held and (self._due is None or first < self._due.when()):
            if self._due is not None:
                self._due.cancel()
            self._due = asyncio.get_running_loop().call_at(first, self._now)

    def clear(self) -> None:
        """Nothing is held any more."""
        self._held.clear()
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _now(self) -> None:
        self._due = None
        self._wake()

    def _told(self, change: Change) -> bool:
        before, after = change
        task = after or before
        told = self._outside.told.get(task.id, ()) if task is not None else ()
        if after is None:
            return any(one.status == "deleted" for one in told)
        return task_info(after) in told
