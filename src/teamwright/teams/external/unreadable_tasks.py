"""Changes of tasks that a member's own process may have made: held for a moment, until it says so or has not.

Its word comes by another way than the file, and either may be first. Knows what such processes told; does not know how
a change is told of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from teamwright.protocol.task import Task
from teamwright.teams.external.participants import ExternalParticipants
from teamwright.teams.team import task_info

REPORT_WAIT_S = 0.3
"""So long after its file a process may tell of a change."""

OWNER_REPORT_WAIT_S = 5.0
"""The same where the task is that of a member with such a process: it most likely made the change, and may be slow."""

UncertainChange = tuple[Task | None, Task | None]


class UncertainChanges:
    """What was noticed and nobody has told of yet. `wake` is called when a change is certain."""

    def __init__(self, external: ExternalParticipants, wake: Callable[[], None]) -> None:
        self._external = external
        self._wake = wake
        self._held: list[tuple[float, UncertainChange]] = []
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, change: UncertainChange) -> bool:
        """Whether the change is held: a member's process may have made it. Else it is certain at once."""
        if not self._external.process_names:
            return False
        within = OWNER_REPORT_WAIT_S if self._is_owned_by_process(change[1]) else REPORT_WAIT_S
        self._held.append((asyncio.get_running_loop().time() + within, change))
        return True

    def _is_owned_by_process(self, task: Task | None) -> bool:
        return task is not None and (task.owner or "").lower() in self._external.process_names

    def confirmed_changes(self) -> Iterator[UncertainChange]:
        """What no process of ours told of in time, in order; what one told of is forgotten."""
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
        """Nothing is held any more."""
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
