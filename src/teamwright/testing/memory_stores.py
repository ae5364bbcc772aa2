"""The stores and the teams of one home in memory, for tests of whole teams without files.

Documents, mailboxes and the integration queue are here, task lists in `memory_tasks`. Several objects on one
`MemoryHome` act like several processes on one home. A session whose lead was recorded counts as alive until another
takes over. Depends on the ports of a team's stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.mail.inbox_layout import MAX_RUNTIME_UNREAD, MAX_UNREAD
from teamwright.mail.mailbox import OnArrival, OnLoss
from teamwright.mail.message_size import check_text_size
from teamwright.mail.unread_quota import MAX_RUNTIME_BYTES, MAX_UNREAD_BYTES, inbox_full_error
from teamwright.models.endpoint import Endpoint
from teamwright.models.rate_limit.rate_limiter import RateLimiter
from teamwright.protocol.errors import StorageError, TeamwrightError
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import IdleNotification, InboxEntry, parse_protocol
from teamwright.protocol.roster import TeamConfig
from teamwright.protocol.timestamps import iso_time
from teamwright.storage.file_lease import process_exists
from teamwright.storage.file_watcher import Watcher
from teamwright.team_records.roster import OnRestored
from teamwright.team_records.stored_teams import StoredTeam, StoredTeams
from teamwright.team_records.team_state_file import LeadLease, TeamFile
from teamwright.testing.memory_tasks import MemoryTaskStore, MemoryTaskTable
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
        """See Mailbox."""
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
        """See Mailbox."""
        await asyncio.sleep(0)
        unread = self._unread()
        fresh = [one for one in unread if one.msg_id not in self._own and one.msg_id not in self._known]
        self._known.update(one.msg_id for one in fresh if one.msg_id)
        if fresh and self._on_arrival is not None:
            self._on_arrival(fresh)
        return unread

    async def mark_delivered(self, ids: Collection[str]) -> bool:
        """See Mailbox."""
        async with self.table.lock:
            await asyncio.sleep(0)
            for id in ids:
                if id in self.table.entries:
                    self.table.entries[id] = replace(self.table.entries[id], read=True)
        return False

    async def contains(self, msg_id: str) -> bool:
        """See Mailbox."""
        await asyncio.sleep(0)
        return msg_id in self.table.entries

    def entries(self) -> list[InboxEntry]:
        """See FollowedMailbox."""
        return list(self.table.entries.values())

    def mark(self) -> None:
        """See FollowedMailbox."""

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
        """See Document."""
        return self._place

    async def read(self) -> T | None:
        """See Document."""
        await asyncio.sleep(0)
        return self._cell.value

    async def change(self, change: Callable[[T], T]) -> T:
        """See Document."""
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

    def mark(self) -> None:
        """See Document."""

    def follow(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """See Document. The watcher, which watches files, is not used."""
        self._cell.followers.append(followed := (self, on_change))
        return lambda: self._cell.followers.remove(followed)


class MemoryRoster(MemoryDocument[TeamConfig]):
    """A roster in memory; see RosterDocument. Nothing damages it, so that nothing is restored."""

    @property
    def exists(self) -> bool:
        """See RosterDocument."""
        return self._cell.value is not None

    async def read(self) -> TeamConfig:
        """See RosterDocument."""
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
        """See TeamTable."""
        await asyncio.sleep(0)
        found: list[StoredTeam] = []
        for directory, cell in sorted(self._states.items()):
            roster = self._rosters.get(directory)
            if cell.value is not None and roster is not None and roster.value is not None:
                found.append(StoredTeam(directory, roster.value, cell.value, process_exists(cell.value.lead.pid)))
        return found

    async def add(self, directory: str, config: TeamConfig, file: TeamFile) -> bool:
        """See TeamTable."""
        await asyncio.sleep(0)
        roster = self._rosters.setdefault(directory, MemoryCell())
        if roster.value is not None:
            return False
        roster.value = config
        self._states.setdefault(directory, MemoryCell()).value = file
        return True

    async def take_lead(self, directory: str, lead: LeadLease, log: str) -> TeamFile:
        """See TeamTable."""
        await asyncio.sleep(0)
        cell = self._states.get(directory)
        if cell is None or cell.value is None:
            raise StorageError("damaged-file", f"there is no team {directory}")
        cell.value = replace(cell.value, lead=lead, log=log or cell.value.log)
        return cell.value

    async def adopt_open_tasks(self, list: str, other: str) -> None:
        """See TeamTable."""
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
        """See TeamStores."""
        content = self._content
        table = MemoryTeams(content.rosters, content.states, content.tasks, content.mail, content.integration)
        return StoredTeams(table, self)

    def tasks(self, name: str) -> MemoryTaskStore:
        """See TeamStores."""
        return MemoryTaskStore(self._content.tasks.setdefault(name, MemoryTaskTable()))

    def mailbox(self, directory: str, name: str) -> MemoryMailbox:
        """See TeamStores."""
        return MemoryMailbox(self._content.mail.setdefault((directory, name.lower()), MemoryMailTable(name)))

    def roster(self, directory: str, on_restored: OnRestored | None = None) -> MemoryRoster:
        """See TeamStores. Nothing in memory is damaged, so nothing is restored."""
        return MemoryRoster(self._content.rosters.setdefault(directory, MemoryCell()), directory)

    def state(self, directory: str) -> MemoryDocument[TeamFile]:
        """See TeamStores."""
        return MemoryDocument(self._content.states.setdefault(directory, MemoryCell()), directory)

    def integration(self, directory: str) -> MemoryIntegrationStore:
        """See TeamStores."""
        return MemoryIntegrationStore(self._content.integration.setdefault(directory, {}))

    async def mailbox_names(self, directory: str) -> list[str]:
        """See TeamStores."""
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
        """See IntegrationStore."""
        return self._table.setdefault(entry.id, entry) is entry

    async def get(self, id: str) -> IntegrationEntry | None:
        """See IntegrationStore."""
        return self._table.get(id)

    async def entries(self) -> list[IntegrationEntry]:
        """See IntegrationStore."""
        return sorted(self._table.values(), key=lambda entry: (entry.order, entry.id))

    async def change(self, id: str, change: ChangeEntry) -> IntegrationEntry:
        """See IntegrationStore."""
        self._table[id] = change(self._table[id])
        return self._table[id]
