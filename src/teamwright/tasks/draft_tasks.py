"""Drafts: tasks that their creator has not finished describing. Idle members do not claim them.

The note of a draft expires 5 s after its creator's last change of the list. Depends on the port of task stores, the
rules and the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from teamwright.protocol.errors import LockTimeout, StorageError, TaskRefused
from teamwright.protocol.ids import now_ms
from teamwright.protocol.task import DRAFT, DRAFT_MS, Task, TaskStatus
from teamwright.tasks.task_rules import merge_metadata
from teamwright.tasks.task_store import TaskStore

FindDrafts = Callable[[str], Iterable[Task]]
"""Returns the drafts of a creator, as far as they are known."""


class Drafts:
    """The drafts of one list, according to its store."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    def with_renewed_note(self, task: Task, by: str) -> Task:
        """Return the task with a new note if it is a pending draft of this creator. A started task has no note."""
        if task.status is not TaskStatus.PENDING:
            return finish_draft(task)
        return mark_draft(task, by) if task.draft is not None and task.draft.by == by else task

    async def renew(self, by: str, changes: str) -> None:
        """Renew the note of one of the creator's drafts, because it changes another task of the list (`changes`)."""
        drafts = (await self._store.read(drafts_of=by)).tasks
        if drafts and all(task.id != changes for task in drafts):
            await self._rewrite(drafts[0].id, lambda task: self.with_renewed_note(task, by))

    async def finish(self, by: str) -> list[Task]:
        """Remove the notes of this creator. Return the tasks that changed, in numeric order."""
        drafts = (await self._store.read(drafts_of=by)).tasks
        rewritten = [await self._rewrite(draft.id, finish_draft) for draft in drafts]
        return [task for task in rewritten if task is not None]

    async def _rewrite(self, id: str, change: Callable[[Task], Task]) -> Task | None:
        """Return the task if it changed. A task that cannot be changed now keeps its note, which expires."""
        try:
            done = await self._store.change(id, lambda task, _: change(task))
        except (TaskRefused, LockTimeout, StorageError):
            return None
        return done.after if done.after != done.before else None


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


def claimable_at(task: Task, find_drafts: FindDrafts, changed_ms: int, settle_ms: int) -> int:
    """Return when an idle member may claim the task, in ms since 1970; 0 for a task that it may claim now.

    A draft is claimable 5 s after the creator's last change of the list. Each change renews the note of one draft, so
    the newest note of all the creator's drafts counts. `settle_ms` is the wait after the task's last change where
    another program leads.
    """
    now = now_ms()
    latest = changed_ms + settle_ms if settle_ms else 0
    if task.draft is not None:
        notes = [task.draft, *(other.draft for other in find_drafts(task.draft.by) if other.draft is not None)]
        latest = max([latest, *(note.until for note in notes if note.is_open(now))])
    return latest if now < latest <= now + max(settle_ms, DRAFT_MS) else 0
