"""The port of a shared task list: what every store of tasks does, wherever the tasks are.

Depends on task values and rules. `file_task_store` implements the port on files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, field

from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import FileMark
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.task_rules import Actor, Edge, FindOpenBlockers, sort_ids

if TYPE_CHECKING:
    from teamwright.storage.file_watcher import Watcher

ChangeTask: TypeAlias = Callable[[Task, FindOpenBlockers], Task]
"""Returns the changed task, or refuses by raising. It does not await: it runs inside the store's critical section."""


class ExternalTaskChange(NamedTuple):
    """A change by another process: the task as seen last (None: it is new) and as it is now (None: deleted).

    `author` is the member that made the last change, as `team_member` names it; empty when no member of a team in the
    store made it; None when the store does not record it, as files do not.
    """

    before: Task | None
    after: Task | None
    author: str | None = None


OnExternalChange: TypeAlias = Callable[[ExternalTaskChange], None]
"""Reports a change. It may be called inside a critical section, so it must neither block nor raise."""


def team_member(directory: str, name: str) -> str:
    """Return the name of a member that distinguishes it from the members of other teams."""
    return f"{directory}/{name.lower()}"


class DamagedTask(Struct, frozen=True):
    """A task that cannot be read. `is_open`: it is not known to be completed. `place` names it for a person."""

    id: str
    place: str
    reason: str
    is_open: bool

    def __str__(self) -> str:
        return f"{self.place} is not a whole task: {self.reason}"


def damaged_error(place: str, reason: str) -> StorageError:
    """Return the error for a task that stays unreadable."""
    return StorageError(
        "damaged-file",
        f"{place} is not a whole task: {reason}",
        do=["repair or remove the file"],
        note="nothing was changed",
    )


class TaskSnapshot(Struct, frozen=True):
    """Tasks in numeric order, as they were read; a damaged one is in its last valid state, if that is known."""

    tasks: Sequence[Task] = ()
    damaged: Sequence[DamagedTask] = ()
    open_ids: Collection[str] = field(default=frozenset[str]())
    """The ids of all open tasks among the read ones and their blockers. A damaged task counts as open."""

    def open_blockers(self, task: Task, more: Sequence[str] = ()) -> list[str]:
        """Return the ids of the task's open blockers, in numeric order."""
        return [id for id in sort_ids((*task.blocked_by, *more)) if id in self.open_ids]


class TaskChange(NamedTuple):
    """A task before and after a change, and its effects on other tasks."""

    before: Task
    after: Task
    touched: Mapping[str, Task] = {}
    """Other tasks whose edges changed, by id."""
    unblocked: Sequence[Task] = ()
    """Tasks that no open task blocks any more."""

    @property
    def begins_task(self) -> bool:
        """True when the change starts the task, or gives a started one to another owner."""
        before, after = self.before, self.after
        started = after.status is TaskStatus.IN_PROGRESS
        return started and (before.status is not TaskStatus.IN_PROGRESS or before.owner != after.owner)


class ClaimAttempt(NamedTuple):
    """The result of claiming any free task. `next_at`: when a free draft becomes claimable, in ms since 1970, or 0."""

    claimed: TaskChange | None
    next_at: int = 0


class TaskStore(Protocol):
    """One shared task list. Changes are atomic among all processes. Every call raises StorageError, LockTimeout."""

    async def read(self, ids: Collection[str] | None = None, *, drafts_of: str | None = None) -> TaskSnapshot:
        """Return the tasks of these ids with the state of their blockers, or the known drafts of a creator.

        Without arguments it returns all tasks. Unknown ids are left out.
        """
        ...

    async def change(
        self, id: str, change: ChangeTask, edges: Sequence[Edge] = (), *, exclusive: bool = False
    ) -> TaskChange:
        """Change one task and add edges, or refuse and change nothing.

        `exclusive`: a change that begins a task is refused while an overlapping one is at work; see `write_sets`.
        Raises TaskRefused (`task_not_found writes_overlap`, and for edges `self_edge cycle`) and what `change` raises.
        """
        ...

    async def claim_next(self, actor: Actor, settle_ms: int = 0) -> ClaimAttempt:
        """Claim the lowest task that is free, not blocked, not a draft, fits the actor, and overlaps with none at work.

        `settle_ms` is the time in ms that a task must be unchanged, for a list whose lead is another program.
        """
        ...

    async def create(self, make_task: Callable[[str], Task], blockers: Sequence[str] = ()) -> Task:
        """Add the task that `make_task` returns for the next id; ids are never used again.

        Raises TaskRefused (`task_not_found`) for an unknown blocker; then nothing is added.
        """
        ...

    async def remove(self, id: str, require_allowed: Callable[[Task], None]) -> TaskChange:
        """Remove a task and all edges to it, unless `require_allowed` raises. Raises TaskRefused (`task_not_found`)."""
        ...


class TaskInterest(NamedTuple):
    """A member that follows the list only for tasks that may be free and for its tasks.

    `on_taken` receives the ids of tasks that are another member's now, so that they need not be read.
    """

    member: str
    on_taken: Callable[[Collection[str]], None]


class TaskFollower(Protocol):
    """A subscription to the changes that other processes make."""

    async def check_files(self, names: Collection[str] | None = None) -> Mapping[str, DamagedTask]:
        """Look for changes, in all tasks or in those with these names. Return the damaged ones among them, by id."""
        ...

    def close(self) -> None:
        """Stop reporting changes."""


class FollowedTaskStore(TaskStore, Protocol):
    """A task store that reports changes by other processes."""

    @property
    def directories(self) -> Sequence[Path]:
        """The directories that change with each task; none for a store without files."""
        ...

    def mark(self, id: str) -> FileMark | None:
        """Return the mark of a task's file for an event; None for a store without files."""
        ...

    def watch(
        self,
        watcher: Watcher,
        on_change: Callable[[Collection[str] | None], None],
        interest: TaskInterest | None = None,
    ) -> Callable[[], None]:
        """Call back with the names that may have changed, for `TaskFollower.check_files`; None: any may have.

        A store that knows more of a change may leave out those that have no `interest`. Returns the function that ends
        this.
        """
        ...

    def follow(self, on_outside: OnExternalChange) -> TaskFollower:
        """Report each change by another process once, from now on. Raises StorageError."""
        ...
