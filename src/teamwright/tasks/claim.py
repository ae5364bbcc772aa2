"""The claim of any free task on files: the index names a candidate, which is read again under its lock.

At most one member becomes the owner of a task, also when several claim it at the same moment. Depends on the files of a
list and the rules.
"""

from __future__ import annotations

from teamwright.protocol.errors import LockTimeout, StorageError, TaskRefused
from teamwright.protocol.task import Task
from teamwright.tasks.drafts import claimable_at
from teamwright.tasks.task_files import TaskFiles
from teamwright.tasks.task_index import TaskIndex
from teamwright.tasks.task_rules import Actor, apply_claim, may_claim, still_draft_error


async def claim_next(files: TaskFiles, actor: Actor, settle_ms: int = 0) -> tuple[Task, Task] | None:
    """Claim the lowest task that is free, not blocked, not a draft, and fits the actor; return None when there is none
    now. `settle_ms` is the time in ms that a file must be unchanged, for a list whose lead is another program: its
    drafts have no mark."""
    files.index.list_once()
    while True:
        arrivals = files.index.arrivals
        taken = await _claim_first_free(files, actor, settle_ms, wait=False)
        taken = taken or await _claim_first_free(files, actor, settle_ms, wait=True)
        if taken is not None:
            return taken
        files.index.refresh_ready(files.watermark())
        if files.index.arrivals == arrivals:
            return None


async def _claim_first_free(files: TaskFiles, actor: Actor, settle_ms: int, *, wait: bool) -> tuple[Task, Task] | None:
    """Try the candidates once. Without `wait`, a task whose lock is held by another process is skipped."""
    index, at = files.index, 0
    while (number := index.next_ready(at)) is not None:
        index.refresh_in_flight(below=number)
        number = min(number, index.next_ready(at) or number)
        at = number
        task = index.refresh_task(number)
        if task is None or index.next_ready(number - 1) != number or not may_claim(task, actor):
            continue
        if _claimable_at(index, task, settle_ms) or (not wait and files.is_locked(task.id)):
            continue
        try:
            return await files.change(str(number), lambda now: _claim_for_idle(files, now, actor, settle_ms))
        except (TaskRefused, LockTimeout):
            continue  # another member was faster or holds the lock: try the next task
        except StorageError as problem:
            if problem.slug != "damaged-file":
                raise
    return None


def _claim_for_idle(files: TaskFiles, task: Task, actor: Actor, settle_ms: int) -> Task:
    """Claim the task for an idle member. Raises TaskRefused, also when it has become a draft again."""
    if _claimable_at(files.index, task, settle_ms):
        raise still_draft_error(task)
    return apply_claim(task, actor, lambda: files.open_blockers(task))


def next_claim_at(index: TaskIndex, settle_ms: int) -> int:
    """Return when the next free task becomes claimable, in ms since 1970; 0 when no free task waits for that."""
    times = [_claimable_at(index, task, settle_ms) for task in index.ready_tasks()]
    return min((moment for moment in times if moment), default=0)


def _claimable_at(index: TaskIndex, task: Task, settle_ms: int) -> int:
    return claimable_at(task, index.refresh_drafts, index.changed_ms(task.number), settle_ms)
