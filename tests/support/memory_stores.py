"""The stores and the teams of one home in memory, for tests of whole teams without files.

Documents, mailboxes and the integration queue are here, task lists in `memory_tasks`. Several objects on one
`MemoryHome` act like several processes on one home. A session whose lead was recorded counts as alive until another
takes over. Depends on the ports of a team's stores.
[testing/memory_stores]

A task store in memory, for tests of teams without files.

Depends on the port of task stores and its rules. Several stores on one table act like several processes on one list.
[testing/memory_tasks]
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.mail.inbox_file import MAX_RUNTIME_UNREAD, MAX_UNREAD
from teamwright.mail.inbox_writer import MAX_RUNTIME_BYTES, MAX_UNREAD_BYTES, inbox_full_error
from teamwright.mail.mailbox import OnArrival, OnLoss
from teamwright.mail.message_size import check_text_size
from teamwright.models.endpoint import Endpoint
from teamwright.models.rate_limit import RateLimiter
from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.ids import LEAD, iso_time, message_id, now_ms
from teamwright.protocol.mail import IdleNotification, InboxEntry, parse_protocol
from teamwright.protocol.members import TeamConfig
from teamwright.protocol.task import Task, TaskStatus
from teamwright.storage.file_lease import process_exists
from teamwright.storage.file_watcher import Watcher
from teamwright.tasks.draft_tasks import claimable_at
from teamwright.tasks.task_rules import (
    Actor,
    Edge,
    add_ids,
    apply_claim,
    may_claim,
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
from teamwright.tasks.write_sets import must_wait, refuse_overlap
from teamwright.team_records.roster import OnRestored
from teamwright.team_records.stored_teams import StoredTeam, StoredTeams
from teamwright.team_records.team_state import LeadLease, TeamFile
from teamwright.worktrees.integration_store import ChangeEntry, IntegrationEntry


class MemoryMailTable(Struct):
    """The entries of one mailbox, by id in the order of their arrival, and the callbacks of those who watch it."""

    reader: str = "reader"
    entries: dict[str, InboxEntry] = field(default_factory=dict[str, InboxEntry])
    watchers: list[tuple[MemoryMailbox, Callable[[], None]]] = field(
        default_factory=list[tuple["MemoryMailbox", Callable[[], None]]]
    )
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class MemoryMailbox:
    """A mailbox; see FollowedMailbox. Mailboxes with one table share their messages."""

    def __init__(self, table: MemoryMailTable | None = None) -> None:
        self.table = table or MemoryMailTable()
        self._own: set[str] = set()
        self._known: set[str] = set()
        self._on_arrival: OnArrival | None = None

    async def put(self, entry: InboxEntry, *, runtime: bool = False) -> str:
        check_text_size(entry.text)
        id = entry.msg_id or message_id()
        whole = replace(entry, msg_id=id, timestamp=entry.timestamp or iso_time(), read=False)
        async with self.table.lock:
            await asyncio.sleep(0)
            replaced = {one.msg_id for one in self._unread() if _is_idle(one, entry.sender)} if _is_idle(entry) else ()
            remaining_entries = [one for one in self._unread() if one.msg_id not in replaced]
            size = sum(len(one.encode()) for one in (*remaining_entries, whole))
            most = MAX_UNREAD + (MAX_RUNTIME_UNREAD if runtime else 0)
            if len(remaining_entries) + 1 > most or size > MAX_UNREAD_BYTES + (MAX_RUNTIME_BYTES if runtime else 0):
                raise inbox_full_error(self.table.reader, len(remaining_entries), size)
            self._own.add(id)
            self.table.entries = {key: one for key, one in self.table.entries.items() if key not in replaced}
            self.table.entries[id] = whole
        for mailbox, notify in list(self.table.watchers):
            if mailbox is not self:
                notify()
        return id

    async def unread(self) -> list[InboxEntry]:
        await asyncio.sleep(0)
        unread = self._unread()
        fresh = [one for one in unread if one.msg_id not in self._own and one.msg_id not in self._known]
        self._known.update(one.msg_id for one in fresh if one.msg_id)
        if fresh and self._on_arrival is not None:
            self._on_arrival(fresh)
        return unread

    async def mark_delivered(self, ids: Collection[str]) -> bool:
        async with self.table.lock:
            await asyncio.sleep(0)
            for id in ids:
                if id in self.table.entries:
                    self.table.entries[id] = replace(self.table.entries[id], read=True)
        return False

    async def contains(self, msg_id: str) -> bool:
        await asyncio.sleep(0)
        return msg_id in self.table.entries

    def entries(self) -> list[InboxEntry]:
        return list(self.table.entries.values())

    def mark(self) -> None: ...

    def watch(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """See FollowedMailbox. The watcher, which watches files, is not used."""
        self.table.watchers.append(watched := (self, on_change))
        return lambda: self.table.watchers.remove(watched)

    def set_listeners(self, on_arrival: OnArrival | None, on_loss: OnLoss | None) -> None:
        """See FollowedMailbox. No other program can remove an entry here, so nothing is ever lost."""
        self._on_arrival = on_arrival
        self._known = {one.msg_id for one in self._unread() if one.msg_id}

    def _unread(self) -> list[InboxEntry]:
        return [one for one in self.table.entries.values() if not one.read]


def _is_idle(entry: InboxEntry, sender: str | None = None) -> bool:
    """Return True for a notice that says only idle, of this sender if one is given."""
    message = parse_protocol(entry.text)
    return isinstance(message, IdleNotification) and message.is_contentless and sender in {None, entry.sender}


T = TypeVar("T")


class MemoryCell(Struct, Generic[T]):
    """The value of one document, None at first, and the callbacks of those who follow it."""

    value: T | None = None
    followers: list[tuple[object, Callable[[], None]]] = field(default_factory=list[tuple[object, Callable[[], None]]])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class MemoryDocument(Generic[T]):
    """A document; see Document."""

    def __init__(self, cell: MemoryCell[T], place: str = "memory") -> None:
        self._cell = cell
        self._place = place

    @property
    def place(self) -> str:
        return self._place

    async def read(self) -> T | None:
        await asyncio.sleep(0)
        return self._cell.value

    async def change(self, change: Callable[[T], T]) -> T:
        async with self._cell.lock:
            await asyncio.sleep(0)
            if self._cell.value is None:
                raise StorageError("damaged-file", f"{self.place} is missing")
            before = self._cell.value
            self._cell.value = after = change(before)
        for document, notify in list(self._cell.followers) if after != before else ():
            if document is not self:
                notify()
        return after

    def mark(self) -> None: ...

    def follow(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """See Document. The watcher, which watches files, is not used."""
        self._cell.followers.append(followed := (self, on_change))
        return lambda: self._cell.followers.remove(followed)


class MemoryRoster(MemoryDocument[TeamConfig]):
    """A roster in memory; see RosterDocument. Nothing damages it, so that nothing is restored."""

    @property
    def exists(self) -> bool:
        return self._cell.value is not None

    async def read(self) -> TeamConfig:
        config = await super().read()
        if config is None:
            raise TeamwrightError("unknown-team", f"there is no team in {self.place}")
        return config


class MemoryTeams:
    """The teams in these tables; see TeamTable."""

    def __init__(
        self,
        rosters: dict[str, MemoryCell[TeamConfig]],
        states: dict[str, MemoryCell[TeamFile]],
        tasks: dict[str, MemoryTaskTable],
        mail: dict[tuple[str, str], MemoryMailTable],
        integration: dict[str, dict[str, IntegrationEntry]],
    ) -> None:
        self._rosters = rosters
        self._states = states
        self._tasks = tasks
        self._mail = mail
        self._integration = integration

    async def list(self) -> list[StoredTeam]:
        await asyncio.sleep(0)
        found: list[StoredTeam] = []
        for directory, cell in sorted(self._states.items()):
            roster = self._rosters.get(directory)
            if cell.value is not None and roster is not None and roster.value is not None:
                found.append(StoredTeam(directory, roster.value, cell.value, process_exists(cell.value.lead.pid)))
        return found

    async def add(self, directory: str, config: TeamConfig, file: TeamFile) -> bool:
        await asyncio.sleep(0)
        roster = self._rosters.setdefault(directory, MemoryCell())
        if roster.value is not None:
            return False
        roster.value = config
        self._states.setdefault(directory, MemoryCell()).value = file
        return True

    async def take_lead(self, directory: str, lead: LeadLease, log: str) -> TeamFile:
        await asyncio.sleep(0)
        cell = self._states.get(directory)
        if cell is None or cell.value is None:
            raise StorageError("damaged-file", f"there is no team {directory}")
        cell.value = replace(cell.value, lead=lead, log=log or cell.value.log)
        return cell.value

    async def adopt_open_tasks(self, list: str, other: str) -> None:
        await asyncio.sleep(0)
        ours, theirs = (self._tasks.setdefault(name, MemoryTaskTable()) for name in (list, other))
        for id, task in [*theirs.tasks.items()]:
            if not task.is_finished and id not in ours.tasks:
                ours.tasks[id] = theirs.tasks.pop(id)
        ours.highest = max(ours.highest, theirs.highest)

    async def archive(self, directory: str) -> list[InboxEntry]:
        """See TeamTable. Nothing keeps an archived team in memory."""
        await asyncio.sleep(0)
        lead = self._mail.get((directory, LEAD))
        for cells in (self._rosters, self._states):
            if (cell := cells.get(directory)) is not None:
                cell.value = None
        self._tasks.pop(directory, None)
        self._integration.pop(directory, None)
        for key in [key for key in self._mail if key[0] == directory]:
            del self._mail[key]
        return [*lead.entries.values()] if lead is not None else []


class MemoryHome:
    """The content of the stores: task lists by name, mailboxes by team and name, rosters and states by team."""

    def __init__(self) -> None:
        self.tasks: dict[str, MemoryTaskTable] = {}
        self.mail: dict[tuple[str, str], MemoryMailTable] = {}
        self.rosters: dict[str, MemoryCell[TeamConfig]] = {}
        self.states: dict[str, MemoryCell[TeamFile]] = {}
        self.integration: dict[str, dict[str, IntegrationEntry]] = {}


class MemoryStores:
    """The stores of the teams of one process; see TeamStores."""

    def __init__(self, content: MemoryHome | None = None) -> None:
        self._content = content or MemoryHome()

    @property
    def teams(self) -> StoredTeams:
        content = self._content
        table = MemoryTeams(content.rosters, content.states, content.tasks, content.mail, content.integration)
        return StoredTeams(table, self)

    def tasks(self, name: str) -> MemoryTaskStore:
        return MemoryTaskStore(self._content.tasks.setdefault(name, MemoryTaskTable()))

    def mailbox(self, directory: str, name: str) -> MemoryMailbox:
        return MemoryMailbox(self._content.mail.setdefault((directory, name.lower()), MemoryMailTable(name)))

    def roster(self, directory: str, on_restored: OnRestored | None = None) -> MemoryRoster:
        """See TeamStores. Nothing in memory is damaged, so nothing is restored."""
        return MemoryRoster(self._content.rosters.setdefault(directory, MemoryCell()), directory)

    def state(self, directory: str) -> MemoryDocument[TeamFile]:
        return MemoryDocument(self._content.states.setdefault(directory, MemoryCell()), directory)

    def integration(self, directory: str) -> MemoryIntegrationStore:
        return MemoryIntegrationStore(self._content.integration.setdefault(directory, {}))

    async def mailbox_names(self, directory: str) -> list[str]:
        return sorted(
            table.reader for (team, _), table in self._content.mail.items() if team == directory and table.entries
        )

    async def share_rate_limit(self, endpoint: Endpoint, limiter: RateLimiter) -> None:
        """See TeamStores. There is one process, and no other machine."""


class MemoryIntegrationStore:
    """The queue in a dictionary that several objects may share; see IntegrationStore."""

    def __init__(self, table: dict[str, IntegrationEntry] | None = None) -> None:
        self._table = {} if table is None else table

    async def add(self, entry: IntegrationEntry) -> bool:
        return self._table.setdefault(entry.id, entry) is entry

    async def get(self, id: str) -> IntegrationEntry | None:
        return self._table.get(id)

    async def entries(self) -> list[IntegrationEntry]:
        return sorted(self._table.values(), key=lambda entry: (entry.order, entry.id))

    async def change(self, id: str, change: ChangeEntry) -> IntegrationEntry:
        self._table[id] = change(self._table[id])
        return self._table[id]


class MemoryTaskTable(Struct):
    """The tasks of one list. A change holds the lock, and gives way to others before it begins."""

    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    changed_ms: dict[str, int] = field(default_factory=dict[str, int])
    highest: int = 0
    followers: list[MemoryTaskFollower] = field(default_factory=list["MemoryTaskFollower"])
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def transaction(self, writer: MemoryTaskStore) -> AsyncGenerator[dict[str, Task]]:
        """Give the tasks to change; an error changes nothing. The stores of other writers are notified."""
        async with self._lock:
            await asyncio.sleep(0)
            draft = dict(self.tasks)
            yield draft
            before, self.tasks = self.tasks, draft
        others = [follower for follower in self.followers if follower.store is not writer]
        for id in sort_ids(id for id in before.keys() | draft.keys() if before.get(id) is not draft.get(id)):
            self.changed_ms[id] = now_ms()
            for follower in others:
                follower.note(id, before.get(id), draft.get(id))


class MemoryTaskStore:
    """A task store; see FollowedTaskStore. Stores with one table share a list."""

    def __init__(self, table: MemoryTaskTable | None = None) -> None:
        self.table = table or MemoryTaskTable()

    async def read(self, ids: Collection[str] | None = None, *, drafts_of: str | None = None) -> TaskSnapshot:
        await asyncio.sleep(0)
        tasks = self.table.tasks
        wanted_ids = sort_ids(tasks if ids is None else ids)
        found = [tasks[id] for id in wanted_ids if id in tasks]
        if drafts_of is not None:
            found = [task for task in found if task.draft is not None and task.draft.by == drafts_of]
        return TaskSnapshot(found, (), frozenset(id for id, task in tasks.items() if _is_open(task)))

    async def change(
        self, id: str, change: ChangeTask, edges: Sequence[Edge] = (), *, exclusive: bool = False
    ) -> TaskChange:
        async with self.table.transaction(self) as tasks:
            _refuse_edges(tasks, edges)
            before = _get(tasks, id)
            more = [blocker for blocker, blocked in edges if blocked == id]
            tasks[id] = change(before, lambda: _open_blockers(tasks, before, more)).with_times(before)
            if exclusive:
                refuse_overlap(before, tasks[id], tasks.values)
            touched = _add_edges(tasks, edges)
            after = touched.pop(id, tasks[id])
            finished = after.is_finished and not before.is_finished
            return TaskChange(before, after, touched, _unblocked(tasks, after) if finished else ())

    async def claim_next(self, actor: Actor, settle_ms: int = 0) -> ClaimAttempt:
        async with self.table.transaction(self) as tasks:
            later: list[int] = []
            for id in sort_ids(tasks):
                task = tasks[id]
                if task.owner is not None or task.status is not TaskStatus.PENDING or task.is_internal:
                    continue
                if _open_blockers(tasks, task) or must_wait(task, actor, tasks.values()):
                    continue
                if moment := claimable_at(task, self._drafts, self.table.changed_ms.get(id, 0), settle_ms):
                    later.append(moment)
                elif may_claim(task, actor):
                    tasks[id] = apply_claim(task, actor, lambda: ()).with_times(task)
                    return ClaimAttempt(TaskChange(task, tasks[id]))
            return ClaimAttempt(None, min(later, default=0))

    async def create(self, make_task: Callable[[str], Task], blockers: Sequence[str] = ()) -> Task:
        async with self.table.transaction(self) as tasks:
            for id in blockers:
                _get(tasks, id)
            self.table.highest += 1
            task = make_task(str(self.table.highest)).with_times(None)
            tasks[task.id] = task
            _add_edges(tasks, [(blocker, task.id) for blocker in blockers])
            return task

    async def remove(self, id: str, require_allowed: Callable[[Task], None]) -> TaskChange:
        async with self.table.transaction(self) as tasks:
            gone = _get(tasks, id)
            require_allowed(gone)
            waited = gone.copy_with(blocks=tuple(sort_ids({*gone.blocks, *_dependents(tasks, id)})))
            del tasks[id]
            touched: dict[str, Task] = {}
            for other in sort_ids({*gone.blocked_by, *waited.blocks} & tasks.keys()):
                task = tasks[other]
                tasks[other] = touched[other] = task.copy_with(
                    blocks=remove_id(task.blocks, id), blocked_by=remove_id(task.blocked_by, id)
                ).with_times(task)
            return TaskChange(gone, gone, touched, _unblocked(tasks, waited) if _is_open(gone) else ())

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
        follower = MemoryTaskFollower(self, lambda _change: None, lambda id: on_change([id]))
        self.table.followers.append(follower)
        return follower.close

    def follow(self, on_outside: OnExternalChange) -> MemoryTaskFollower:
        follower = MemoryTaskFollower(self, on_outside)
        self.table.followers.append(follower)
        return follower

    def _drafts(self, creator: str) -> Iterable[Task]:
        return [task for task in self.table.tasks.values() if task.draft is not None and task.draft.by == creator]


class MemoryTaskFollower:
    """A subscription to the changes of other stores; see TaskFollower."""

    def __init__(
        self, store: MemoryTaskStore, on_outside: OnExternalChange, notify: Callable[[str], None] = lambda _id: None
    ) -> None:
        self.store = store
        self._on_outside = on_outside
        self._notify = notify
        self._changes: list[ExternalTaskChange] = []

    def note(self, id: str, before: Task | None, after: Task | None) -> None:
        """Record a change by another store."""
        self._changes.append(ExternalTaskChange(before, after))
        self._notify(id)

    async def check_files(self, names: Collection[str] | None = None) -> Mapping[str, DamagedTask]:
        """See TaskFollower. Nothing in memory is damaged."""
        changes, self._changes = self._changes, []
        for change in changes:
            self._on_outside(change)
        return {}

    def close(self) -> None:
        if self in self.store.table.followers:
            self.store.table.followers.remove(self)


def _get(tasks: Mapping[str, Task], id: str) -> Task:
    if id not in tasks:
        raise not_found_error(id)
    return tasks[id]


def _is_open(task: Task) -> bool:
    return not task.is_finished


def _open_blockers(tasks: Mapping[str, Task], task: Task, more: Sequence[str] = ()) -> list[str]:
    return [id for id in sort_ids((*task.blocked_by, *more)) if id in tasks and _is_open(tasks[id])]


def _dependents(tasks: Mapping[str, Task], id: str) -> list[str]:
    return [task.id for task in tasks.values() if id in task.blocked_by]


def _unblocked(tasks: Mapping[str, Task], done: Task) -> tuple[Task, ...]:
    near = [tasks[id] for id in sort_ids((*done.blocks, *_dependents(tasks, done.id))) if id in tasks]
    pending = [task for task in near if task.status is TaskStatus.PENDING and not task.is_internal]
    return tuple(task for task in pending if not _open_blockers(tasks, task))


def _refuse_edges(tasks: Mapping[str, Task], edges: Sequence[Edge]) -> None:
    for id in sort_ids(id for edge in edges for id in edge):
        _get(tasks, id)
    refuse_cycles(edges, lambda id: {*tasks[id].blocks, *_dependents(tasks, id)} if id in tasks else ())


def _add_edges(tasks: dict[str, Task], edges: Sequence[Edge]) -> dict[str, Task]:
    """Write both sides of each edge. Return the tasks that changed, by id."""
    touched: dict[str, Task] = {}
    for blocker, blocked in edges:
        for id, changes in (
            (blocker, {"blocks": add_ids(tasks[blocker].blocks, [blocked])}),
            (blocked, {"blocked_by": add_ids(tasks[blocked].blocked_by, [blocker])}),
        ):
            after = tasks[id].copy_with(**changes)
            if after != tasks[id]:
                tasks[id] = touched[id] = after.with_times(tasks[id])
    return touched
