"""The task list of a team in the database. Depends on its rows, the rules of tasks, and notifications."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from teamwright.database.connection import Database
from teamwright.database.driver import Connection
from teamwright.database.session_connection import SessionConnection
from teamwright.database.task_rows import TaskRow, TaskRows, numbers, parse
from teamwright.protocol.task import Task
from teamwright.storage.file_watcher import Watcher
from teamwright.tasks.draft_tasks import claimable_at
from teamwright.tasks.task_graph import Edge, add_ids, refuse_cycles, remove_id, sort_ids
from teamwright.tasks.task_rules import Actor, apply_claim, is_owner, may_claim, may_free_task, not_found_error
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
        """See TaskStore."""

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
        """See TaskStore."""

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
        """See TaskStore."""

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
        at, later = 0, set[int]()
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
        """See TaskStore."""

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
        """See TaskStore."""

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
        """See FollowedTaskStore."""
        return ()

    def mark(self, id: str) -> None:
        """See FollowedTaskStore."""

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
        """See FollowedTaskStore."""
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
            found, there = await self._read("id = any($2::bigint[])", numbers(names)), None
        else:
            found, there = await self._read_new()
            self._read_at = began
        if not self._is_open:
            return {}
        for row in found:
            before, after = self._known.get(row.task.id), row.task
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
        """See TaskFollower."""
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
