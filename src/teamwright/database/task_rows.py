"""The rows of a task list: reading, locking and writing them in one transaction.

Depends on the database and on task values. The rules of tasks are in `tasks`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from teamwright.database.driver import Connection, Row
from teamwright.protocol.errors import StorageError
from teamwright.protocol.task import Task, TaskStatus, parse_task
from teamwright.tasks.task_graph import sort_ids
from teamwright.tasks.task_rules import not_found_error

_OPEN = (
    "select t.id from unnest($2::bigint[]) as wanted(id) join tasks t on t.list = $1 and t.id = wanted.id "
    "where not t.is_finished"
)


class TaskRow(NamedTuple):
    """A task with the time of its last change on the server's clock, and the process that changed it.

    `author` is the member that this process ran, as `team_member` names it; empty when it ran none.
    """

    task: Task
    changed_at: datetime
    process: str
    author: str


class TaskRows(NamedTuple):
    """The rows of one list, in the transaction of a connection."""

    list: str
    connection: Connection

    async def lock_list(self) -> None:
        """Let no other process create or remove tasks or add edges before this transaction ends."""
        await self.connection.execute("insert into task_lists (list) values ($1) on conflict do nothing", self.list)
        await self.connection.execute("select 1 from task_lists where list = $1 for update", self.list)

    async def next_id(self) -> str:
        """Return a number that was never used. The list must be locked."""
        highest = await self.connection.fetchval(
            "update task_lists set highest = highest + 1 where list = $1 returning highest", self.list
        )
        return str(highest)

    async def get(self, ids: Iterable[str], *, lock: bool = False) -> dict[str, Task]:
        """Return the tasks of these ids, in numeric order; with `lock` no other process changes them."""
        rows = await self.connection.fetch(
            f"select id, body from tasks where list = $1 and id = any($2::bigint[]) order by id{_lock(lock)}",
            *(self.list, numbers(ids)),
        )
        return {str(row["id"]): parse(row) for row in rows}

    async def require(self, id: str) -> Task:
        """Return one task, which no other process changes from now on. Raises TaskRefused (`task_not_found`)."""
        found = (await self.get([id], lock=True)).get(id)
        if found is None:
            raise not_found_error(id)
        return found

    async def open_among(self, ids: Collection[str]) -> list[str]:
        """Return which of these tasks are open, in numeric order."""
        if not ids:
            return []
        rows = await self.connection.fetch(_OPEN, self.list, numbers(ids))
        return sort_ids(str(row["id"]) for row in rows)

    async def in_progress(self) -> list[Task]:
        """Return the tasks in progress, in numeric order."""
        rows = await self.connection.fetch(
            "select id, body from tasks where list = $1 and status = 'in_progress' order by id", self.list
        )
        return [parse(row) for row in rows]

    async def drafts_of(self, creator: str) -> list[Task]:
        """Return the drafts of a creator, in numeric order."""
        rows = await self.connection.fetch(
            "select id, body from tasks where list = $1 and draft_by = $2 order by id", self.list, creator
        )
        return [parse(row) for row in rows]

    async def write(self, tasks: Sequence[Task], changed_by: str) -> None:
        """Store these tasks, new or changed."""
        await self.connection.executemany(
            "insert into tasks (list, id, body, status, is_finished, owner, is_internal, draft_by, blocked_by, "
            "changed_by) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (list, id) do update "
            "set body = excluded.body, status = excluded.status, is_finished = excluded.is_finished, "
            "owner = excluded.owner, is_internal = excluded.is_internal, draft_by = excluded.draft_by, "
            "blocked_by = excluded.blocked_by, changed_by = excluded.changed_by, changed_at = clock_timestamp()",
            [self._values(task, changed_by) for task in tasks],
        )

    def _values(self, task: Task, changed_by: str) -> tuple[object, ...]:
        return (
            self.list,
            int(task.id),
            task.encode(),
            str(task.status),
            task.is_finished,
            task.owner,
            task.is_internal,
            task.draft.by if task.draft is not None else None,
            numbers(task.blocked_by),
            changed_by,
        )

    async def find_unblocked(self, near: Iterable[str]) -> tuple[Task, ...]:
        """Return which of these tasks are pending and wait for no open task."""
        found = (await self.get(near)).values()
        pending = [task for task in found if task.status is TaskStatus.PENDING and not task.is_internal]
        still_open = set(await self.open_among({id for task in pending for id in task.blocked_by}))
        return tuple(task for task in pending if still_open.isdisjoint(task.blocked_by))

    async def graph_from(self, ids: Iterable[str]) -> dict[str, Task]:
        """Return these tasks and all that wait for them, directly or not."""
        rows = await self.connection.fetch(
            "with recursive later(id) as (select unnest($2::bigint[]) union "
            "select t.id from later l join tasks t on t.list = $1 and l.id = any(t.blocked_by)) "
            "select t.id, t.body from later l join tasks t on t.list = $1 and t.id = l.id",
            *(self.list, numbers(ids)),
        )
        return {str(row["id"]): parse(row) for row in rows}


def numbers(ids: Iterable[str]) -> list[int]:
    """Return the ids as numbers. An id that is no number belongs to no task of a database."""
    return [int(id) for id in sort_ids(ids) if id.isascii() and id.isdigit() and len(id) < 19]


def parse(row: Row) -> Task:
    """Return the task of a row. Raises StorageError for one that cannot be read."""
    task = parse_task(bytes(row["body"]), str(row["id"]))
    if task is None:
        raise StorageError("damaged-file", f"task #{row['id']} in the database is not a whole task")
    return task


def _lock(lock: bool) -> str:
    return " for update" if lock else ""
