"""The task list of a team in the database, and its rows: they are read, locked and written in one transaction.

The rules of tasks are in `tasks`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from teamwright.database.connection import Database
from teamwright.database.driver import Connection, Row
from teamwright.database.session_connection import SessionConnection
from teamwright.protocol.errors import StorageError
from teamwright.protocol.task import Task, TaskStatus, parse_task
from teamwright.storage.file_watcher import Watcher
from teamwright.tasks.draft_tasks import claimable_at
from teamwright.tasks.task_rules import (
    Actor,
    Edge,
    add_ids,
    apply_claim,
    is_owner,
    may_claim,
    may_free_task,
    not_found_error,
    refuse_cycles,
    remove_id,
    sort_ids,
)
from teamwright.tasks.task_store import (
    ChangeTask,
    ClaimAttempt,
    DamagedTask,
    ExternalTaskChange,
    OnExternalChange,
    TaskChange,
    TaskInterest,
    TaskSnapshot,
)
from teamwright.tasks.write_sets import begins_writing, must_wait, refuse_overlap

_LONGEST_WRITE = timedelta(seconds=120)
"""A time that is longer than every transaction: a change is visible so long after its row's time at the latest."""

_LONGEST_DETAIL = 4_000
"""Bytes of a notification's detail: PostgreSQL sends at most 8,000 in all."""

_CANDIDATES = 20
"""Free tasks that an attempt to claim reads at a time."""

_FREE = (
    "select t.id, t.body, t.changed_at from tasks t where t.list = $1 and t.id > $2 and t.status = 'pending' "
    "and t.owner is null and not t.is_internal and not exists (select 1 from tasks b where b.list = t.list "
    "and b.id = any(t.blocked_by) and not b.is_finished) order by t.id limit $3"
)
_TAKE = "select id, body from tasks where list = $1 and id = $2 and status = 'pending' and owner is null for update"


class DatabaseTaskStore:
    """A task list; see FollowedTaskStore."""

    def __init__(self, database: Database, session: SessionConnection | None, list: str) -> None:
        self._database = database
        self._session = session
        self._list = list
        self._followers: set[DatabaseTaskFollower] = set()

    async def read(self, ids: Collection[str] | None = None, *, drafts_of: str | None = None) -> TaskSnapshot:

        async def work(connection: Connection) -> TaskSnapshot:
            rows = TaskRows(self._list, connection)
            if drafts_of is not None:
                tasks = [task for task in await rows.drafts_of(drafts_of) if ids is None or task.id in ids]
            elif ids is not None:
                tasks = [*(await rows.get(ids)).values()]
            else:
                query = "select id, body from tasks where list = $1 order by id"
                tasks = [parse(row) for row in await connection.fetch(query, self._list)]
            known = {task.id: not task.is_finished for task in tasks}
            missing = {id for task in tasks for id in task.blocked_by if id not in known}
            still_open = await rows.open_among(missing)
            return TaskSnapshot(tasks, (), frozenset([*still_open, *(id for id, is_open in known.items() if is_open)]))

        return await self._database.read(work)

    async def change(
        self, id: str, change: ChangeTask, edges: Sequence[Edge] = (), *, exclusive: bool = False
    ) -> TaskChange:

        async def work(connection: Connection, *, locks_list: bool) -> TaskChange:
            rows = TaskRows(self._list, connection)
            if locks_list:
                await rows.lock_list()
            await _refuse_edges(rows, edges)
            before = await rows.require(id)
            blockers = [blocker for blocker, blocked in edges if blocked == id]
            still_open = await rows.open_among({*before.blocked_by, *blockers})
            after = change(before, lambda: still_open).with_times(before)
            if exclusive:
                await _refuse_overlap(rows, before, after, locks_list=locks_list)
            touched = await _add_edges(rows, edges, after)
            after = touched.pop(id, after)
            done = after.is_finished and not before.is_finished
            changed = [task for task in (after, *touched.values()) if task is not before and task != before]
            await self._write(rows, changed)
            return TaskChange(before, after, touched, await rows.find_unblocked(after.blocks) if done else ())

        try:
            return self._learn(await self._database.write(partial(work, locks_list=bool(edges))))
        except _NeedsListLock:
            return self._learn(await self._database.write(partial(work, locks_list=True)))

    async def claim_next(self, actor: Actor, settle_ms: int = 0) -> ClaimAttempt:

        async def work(connection: Connection, *, locks_list: bool) -> ClaimAttempt:
            rows = TaskRows(self._list, connection)
            if locks_list:
                await rows.lock_list()
            attempt = await self._claim_first(rows, actor, settle_ms, " skip locked", locks_list=locks_list)
            if attempt.claimed is None and not attempt.next_at:
                # A task that another process had locked may be free again, and nothing would wake this member for it.
                attempt = await self._claim_first(rows, actor, settle_ms, "", locks_list=locks_list)
            return attempt

        try:
            attempt = await self._database.write(partial(work, locks_list=False))
        except _NeedsListLock:
            attempt = await self._database.write(partial(work, locks_list=True))
        if attempt.claimed is not None:
            self._learn(attempt.claimed)
        return attempt

    async def _claim_first(
        self, rows: TaskRows, actor: Actor, settle_ms: int, lock: str, *, locks_list: bool
    ) -> ClaimAttempt:
        """Claim the first free task that fits; `lock` says what happens at a task that another process has locked."""
        at = 0
        later = set[int]()
        while found := await rows.connection.fetch(_FREE, self._list, at, _CANDIDATES):
            candidates = [(parse(row), int(row["changed_at"].timestamp() * 1000)) for row in found]
            creators = {task.draft.by for task, _ in candidates if task.draft is not None}
            drafts = {creator: await rows.drafts_of(creator) for creator in creators}
            for task, changed_ms in candidates:
                if moment := claimable_at(task, lambda by, known=drafts: known.get(by, ()), changed_ms, settle_ms):
                    later.add(moment)
                elif (taken := await self._take(rows, task, actor, lock, locks_list=locks_list)) is not None:
                    return ClaimAttempt(taken)
            at = int(found[-1]["id"])
        return ClaimAttempt(None, min(later, default=0))

    async def _take(
        self, rows: TaskRows, seen: Task, actor: Actor, lock: str, *, locks_list: bool
    ) -> TaskChange | None:
        """Claim one task, unless it does not fit, is no longer free, or overlaps with one at work."""
        if not may_claim(seen, actor):
            return None
        row = await rows.connection.fetchrow(_TAKE + lock, self._list, int(seen.id))
        if row is None or not may_claim(task := parse(row), actor):
            return None
        after = apply_claim(task, actor, lambda: ()).with_times(task)
        if begins_writing(task, after):
            if must_wait(task, actor, await rows.in_progress()):
                return None
            if not locks_list:
                raise _NeedsListLock
        await self._write(rows, [after])
        return TaskChange(task, after)

    async def create(self, make_task: Callable[[str], Task], blockers: Sequence[str] = ()) -> Task:

        async def work(connection: Connection) -> Task:
            rows = TaskRows(self._list, connection)
            await rows.lock_list()
            there = await rows.get(blockers, lock=True)
            for id in blockers:
                if id not in there:
                    raise not_found_error(id)
            task = make_task(await rows.next_id())
            task = task.copy_with(blocked_by=add_ids(task.blocked_by, blockers)).with_times(None)
            await self._write(rows, [task, *(add_dependent(one, task.id).with_times(one) for one in there.values())])
            return task

        made = await self._database.write(work)
        self._learn(TaskChange(made, made))
        return made

    async def remove(self, id: str, require_allowed: Callable[[Task], None]) -> TaskChange:

        async def work(connection: Connection) -> TaskChange:
            rows = TaskRows(self._list, connection)
            await rows.lock_list()
            gone = await rows.require(id)
            require_allowed(gone)
            near = await rows.get({*gone.blocked_by, *gone.blocks}, lock=True)
            touched = {
                one.id: one.copy_with(
                    blocks=remove_id(one.blocks, id), blocked_by=remove_id(one.blocked_by, id)
                ).with_times(one)
                for one in near.values()
            }
            await connection.execute("delete from tasks where list = $1 and id = $2", self._list, int(id))
            await self._write(rows, [*touched.values()], also=[id])
            return TaskChange(gone, gone, touched, () if gone.is_finished else await rows.find_unblocked(gone.blocks))

        done = await self._database.write(work)
        for follower in self._followers:
            follower.forget(id)
        return self._learn(done, but=id)

    @property
    def directories(self) -> Sequence[Path]:
        return ()

    def mark(self, id: str) -> None: ...

    def watch(
        self,
        watcher: Watcher,
        on_change: Callable[[Collection[str] | None], None],
        interest: TaskInterest | None = None,
    ) -> Callable[[], None]:
        """See FollowedTaskStore. The watcher, which watches files, is not used."""
        if self._session is None:
            return lambda: None
        return self._session.subscribe(self._topic, lambda detail: self._note_change(on_change, interest, detail or ""))

    def _note_change(
        self, on_change: Callable[[Collection[str] | None], None], interest: TaskInterest | None, detail: str
    ) -> None:
        """Call back for the changes of a notification; an empty detail means any."""
        if not detail:
            on_change(None)
            return
        words = [word.partition("=") for word in detail.split()]
        ids = {id for id, _, _ in words}
        if interest is not None:
            others = {id for id, is_settled, owner in words if is_settled and not is_owner(owner, interest.member)}
            others -= {id for follower in self._followers for id in follower.owned(others, interest.member)}
            interest.on_taken(others)
            ids -= others
        if ids:
            on_change(ids)

    def follow(self, on_outside: OnExternalChange) -> DatabaseTaskFollower:
        follower = DatabaseTaskFollower(self._database, self._list, on_outside, self._followers.discard)
        self._followers.add(follower)
        return follower

    async def _write(self, rows: TaskRows, tasks: Sequence[Task], also: Sequence[str] = ()) -> None:
        """Store the tasks, and notify those who follow the list of them and of the ids `also`."""
        if tasks:
            await rows.write(tasks, f"{self._database.origin} {self._database.member}".rstrip())
        words = [*map(_notification_word, tasks), *also]
        if words:
            detail = " ".join(words)
            detail = detail if len(detail.encode()) <= _LONGEST_DETAIL else ""
            await self._database.notify(rows.connection, self._topic, detail)

    @property
    def _topic(self) -> str:
        return f"tasks:{self._list}"

    def _learn(self, change: TaskChange, but: str = "") -> TaskChange:
        """Let no follower of this store report its own change."""
        for follower in self._followers:
            for task in (change.after, *change.touched.values()):
                if task.id != but:
                    follower.learn(task)
        return change


class DatabaseTaskFollower:
    """A subscription to the changes of other processes; see TaskFollower.

    The tasks from before it began are known once they are read; later ones of other processes are reported.
    """

    def __init__(
        self,
        database: Database,
        list: str,
        on_outside: OnExternalChange,
        on_close: Callable[[DatabaseTaskFollower], None],
    ) -> None:
        self._database = database
        self._list = list
        self._on_outside = on_outside
        self._on_close = on_close
        self._since = database.now()
        self._known: dict[str, Task] = {}
        self._read_at: datetime | None = None
        """The time of the last look at all tasks, on the server's clock; None before the first."""
        self._is_open = True

    async def check_files(self, names: Collection[str] | None = None) -> Mapping[str, DamagedTask]:
        """See TaskFollower. A row of the database is never half."""
        began = self._database.now()
        if names is not None and self._read_at is not None:
            found = await self._read("id = any($2::bigint[])", numbers(names))
            there = None
        else:
            found, there = await self._read_new()
            self._read_at = began
        if not self._is_open:
            return {}
        for row in found:
            before = self._known.get(row.task.id)
            after = row.task
            self._known[after.id] = after
            is_others = row.process != self._database.origin
            if before != after and is_others and (before is not None or row.changed_at > self._since):
                self._on_outside(ExternalTaskChange(before, after, row.author))
        if there is None:
            there = {row.task.id for row in found} | (self._known.keys() - set(names or ()))
        for id in sort_ids(self._known.keys() - there):
            self._on_outside(ExternalTaskChange(self._known.pop(id), None))
        return {}

    async def _read_new(self) -> tuple[list[TaskRow], set[str]]:
        """Return the tasks that may have changed since the last look at all of them, and the ids of all tasks."""
        since = self._read_at - _LONGEST_WRITE if self._read_at is not None else datetime.fromtimestamp(0, UTC)
        found = await self._read("changed_at > $2", since)
        there = self._known.keys() | {row.task.id for row in found}
        query = "select count(*) from tasks where list = $1"
        if await self._database.read(lambda connection: connection.fetchval(query, self._list)) != len(there):
            query = "select id from tasks where list = $1"
            rows = await self._database.read(lambda connection: connection.fetch(query, self._list))
            there = {str(row["id"]) for row in rows}
        return found, set(there)

    async def _read(self, where: str, given: object) -> list[TaskRow]:
        query = f"select id, body, changed_at, changed_by from tasks where list = $1 and {where} order by id"
        rows = await self._database.read(lambda connection: connection.fetch(query, self._list, given))
        found: list[TaskRow] = []
        for row in rows:
            process, _, author = str(row["changed_by"]).partition(" ")
            found.append(TaskRow(parse(row), row["changed_at"], process, author))
        return found

    def owned(self, ids: Collection[str], member: str) -> list[str]:
        """Return which of these tasks the member owned when they were seen last."""
        return [id for id in ids if (task := self._known.get(id)) is not None and is_owner(task.owner, member)]

    def learn(self, task: Task) -> None:
        """Take over a change of this process."""
        self._known[task.id] = task

    def forget(self, id: str) -> None:
        """Take over a removal by this process."""
        self._known.pop(id, None)

    def close(self) -> None:
        self._is_open = False
        self._on_close(self)


def _notification_word(task: Task) -> str:
    """Return the id of the task, with its owner after `=` when no other member may claim it or one that waited."""
    return task.id if may_free_task(task) else f"{task.id}={''.join((task.owner or '').split())}"


def add_dependent(task: Task, id: str) -> Task:
    """Return the task with one more that waits for it."""
    return task.copy_with(blocks=add_ids(task.blocks, [id]))


class _NeedsListLock(Exception):
    """Raised in a transaction that begins a task with a write set: two of them do not run at once."""


async def _refuse_overlap(rows: TaskRows, before: Task, after: Task, *, locks_list: bool) -> None:
    """Refuse a change that begins a task which overlaps with one at work. Raises TaskRefused, _NeedsListLock."""
    if not begins_writing(before, after):
        return
    if not locks_list:
        raise _NeedsListLock
    at_work = await rows.in_progress()
    refuse_overlap(before, after, lambda: at_work)


async def _refuse_edges(rows: TaskRows, edges: Sequence[Edge]) -> None:
    if not edges:
        return
    ends = sort_ids(id for edge in edges for id in edge)
    there = await rows.get(ends, lock=True)
    for id in ends:
        if id not in there:
            raise not_found_error(id)
    graph = await rows.graph_from(blocked for _, blocked in edges)
    refuse_cycles(edges, lambda id: graph[id].blocks if id in graph else ())


async def _add_edges(rows: TaskRows, edges: Sequence[Edge], changed: Task) -> dict[str, Task]:
    """Return the tasks whose edges changed, by id; `changed` is the state of one of them in this transaction."""
    tasks = await rows.get({id for edge in edges for id in edge}) if edges else {}
    if changed.id in tasks:
        tasks[changed.id] = changed
    touched: dict[str, Task] = {}
    for blocker, blocked in edges:
        for id, after in (
            (blocker, add_dependent(tasks[blocker], blocked)),
            (blocked, tasks[blocked].copy_with(blocked_by=add_ids(tasks[blocked].blocked_by, [blocker]))),
        ):
            if after != tasks[id]:
                tasks[id] = touched[id] = after.with_times(tasks[id])
    return touched


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
            "select id, body from tasks where list = $1 and id = any($2::bigint[]) order by id"
            + (" for update" if lock else ""),
            self.list,
            numbers(ids),
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
