"""Claims: at most one member becomes the owner of a task, also when several claim it at the same moment.

The index names a candidate; the claim reads the task and its blockers again under the task's lock. Idle members do not
claim drafts, which their creator has not finished describing. Depends on the store, the rules and the clock.
"""

from __future__ import annotations

from collections.abc import Callable

from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import LockTimeout, StorageError, TaskRefused
from teamwright.protocol.task import DRAFT, DRAFT_MS, Task, TaskStatus
from teamwright.tasks.task_index import TaskIndex
from teamwright.tasks.task_rules import Actor, apply_claim, apply_release, is_owner, may_claim, merge_metadata
from teamwright.tasks.task_store import TaskStore


async def claim_task(store: TaskStore, id: str, actor: Actor) -> tuple[Task, Task]:
    """Claim this task. Return it before and after. Raises TaskRefused with the reason."""
    return await store.change(id, lambda task: apply_claim(task, actor, lambda: store.open_blockers(task)))


async def claim_next(store: TaskStore, actor: Actor, settle_ms: int = 0) -> tuple[Task, Task] | None:
    """Claim the lowest task that is free, not blocked, not a draft, and fits the actor; return None when there is none
    now. `settle_ms` is the time in ms that a file must be unchanged, for a list whose lead is another program: its
    drafts have no mark."""
    store.index.list_once()
    while True:
        arrivals = store.index.arrivals
        taken = await _claim_first_free(store, actor, settle_ms, wait=False)
        taken = taken or await _claim_first_free(store, actor, settle_ms, wait=True)
        if taken is not None:
            return taken
        store.index.refresh_ready(store.watermark())
        if store.index.arrivals == arrivals:
            return None


async def release_all(store: TaskStore, owner: str) -> list[tuple[Task, Task]]:
    """Release all open tasks of this owner. Return those that changed, before and after."""
    store.index.list_all()
    back: list[tuple[Task, Task]] = []
    for task in store.index.known_tasks():
        if not is_owner(task.owner, owner):
            continue
        try:
            before, after = await store.change(task.id, lambda t: apply_release(t, owner))
        except TaskRefused:
            continue  # deleted since the listing
        if after != before:
            back.append((before, after))
    return back


async def _claim_first_free(store: TaskStore, actor: Actor, settle_ms: int, *, wait: bool) -> tuple[Task, Task] | None:
    """Try the candidates once. Without `wait`, a task whose lock is held by another process is skipped."""
    index, at = store.index, 0
    while (number := index.next_ready(at)) is not None:
        index.refresh_in_flight(below=number)
        number = min(number, index.next_ready(at) or number)
        at = number
        task = index.refresh_task(number)
        if task is None or index.next_ready(number - 1) != number or not may_claim(task, actor):
            continue
        if claimable_at(index, task, settle_ms) or (not wait and store.is_locked(task.id)):
            continue
        try:
            return await store.change(str(number), lambda now: _claim_for_idle(store, now, actor, settle_ms))
        except (TaskRefused, LockTimeout):
            continue  # another member was faster or holds the lock: try the next task
        except StorageError as problem:
            if problem.slug != "damaged-file":
                raise
    return None


def _claim_for_idle(store: TaskStore, task: Task, actor: Actor, settle_ms: int) -> Task:
    """Claim the task for an idle member. Raises TaskRefused, also when it has become a draft again."""
    if claimable_at(store.index, task, settle_ms):
        raise TaskRefused("reserved", f"#{task.id} is still being described", do=["take another task"])
    return apply_claim(task, actor, lambda: store.open_blockers(task))


class Drafts:
    """The drafts of one list, according to the task files."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    def with_renewed_note(self, task: Task, by: str) -> Task:
        """Return the task with a new note if it is a pending draft of this creator. A started task has no note."""
        if task.status is not TaskStatus.PENDING:
            return finish_draft(task)
        return mark_draft(task, by) if task.draft is not None and task.draft.by == by else task

    async def renew(self, by: str, changes: str) -> None:
        """Renew the note of one of the creator's drafts, because it changes another task of the list (`changes`)."""
        numbers = self._store.index.drafts_by(by)
        if numbers and int(changes) not in numbers:
            await self._rewrite(min(numbers), lambda task: self.with_renewed_note(task, by))

    async def finish(self, by: str) -> list[Task]:
        """Remove the notes of this creator. Return the tasks that changed, in numeric order."""
        rewritten = [await self._rewrite(number, finish_draft) for number in sorted(self._store.index.drafts_by(by))]
        return [task for task in rewritten if task is not None]

    async def _rewrite(self, number: int, change: Callable[[Task], Task]) -> Task | None:
        """Return the task if it changed. A file that cannot be changed now keeps its note, which expires."""
        try:
            before, after = await self._store.change(str(number), change)
        except (TaskRefused, LockTimeout, StorageError):
            return None
        return after if after != before else None


def mark_draft(task: Task, by: str) -> Task:
    """Return the task with a note that `by` still describes it; renews an older note."""
    return task.copy_with(metadata=merge_metadata(task.metadata, {DRAFT: {"by": by, "until": now_ms() + DRAFT_MS}}))


def finish_draft(task: Task) -> Task:
    """Return the task without the note."""
    return (
        task
        if DRAFT not in (task.metadata or {})
        else task.copy_with(metadata=merge_metadata(task.metadata, {DRAFT: None}))
    )


def claimable_at(index: TaskIndex, task: Task, settle_ms: int) -> int:
    """Return when an idle member may claim the task, in ms since 1970; 0 for a task that it may claim now.

    A draft is claimable 5 s after the creator's last change of the list. Each change renews the note of one draft, so
    the newest note of all the creator's drafts counts. `settle_ms` is the wait after the last change of the file where
    another program leads.
    """
    now = now_ms()
    latest = index.changed_ms(task.number) + settle_ms if settle_ms else 0
    if task.draft is not None:
        others = (index.refresh_task(number) for number in index.drafts_by(task.draft.by))
        notes = [task.draft, *(other.draft for other in others if other is not None and other.draft is not None)]
        latest = max([latest, *(note.until for note in notes if note.is_open(now))])
    return latest if now < latest <= now + max(settle_ms, DRAFT_MS) else 0


def next_claim_at(index: TaskIndex, settle_ms: int) -> int:
    """Return when the next free task becomes claimable, in ms since 1970; 0 when no free task waits for that."""
    times = [claimable_at(index, task, settle_ms) for task in index.ready_tasks()]
    return min((moment for moment in times if moment), default=0)
