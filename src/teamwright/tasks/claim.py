"""Claims: at most one member becomes the owner of a task, also when several claim it at the same moment.

The index names a candidate; the claim reads the task and its blockers again under the task's lock. Depends on the store
and the rules.
"""

from __future__ import annotations

from teamwright.protocol.errors import LockTimeout, StorageError, TaskRefused
from teamwright.protocol.task import Task
from teamwright.tasks.drafts import claimable_at
from teamwright.tasks.task_rules import Actor, apply_claim, apply_release, is_owner, may_claim
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
