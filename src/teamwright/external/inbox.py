"""Inboxes of a team that another program leads: its file format, and patience with its locks.

A message of a model is either in the file or an error; a message of the runtime waits until the file can be written,
with a warning. No mail to this process is lost while another program has the lock: it is read later, or without the
lock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from teamwright.mail.inbox import Inbox, read_entries
from teamwright.mail.mailbox import Mailbox
from teamwright.mail.message_size import fit_text
from teamwright.protocol.errors import InboxFull, LockLost, LockTimeout, StorageError
from teamwright.protocol.ids import LEAD, iso_time, keyed_id, message_id
from teamwright.protocol.mail import IdleNotification, InboxEntry, PlanApprovalRequest, fence_protocol, parse_protocol
from teamwright.protocol.members import TeamConfig
from teamwright.storage.file_watcher import Watcher
from teamwright.storage.paths import Home
from teamwright.team_records.home_stores import HomeStores
from teamwright.teams.outgoing_mail import default_summary
from teamwright.teams.plan_requests import PendingPlan

_LEAD_PROCESS_KEY = "leadProcess"
"""A key of the roster that only the newer format has."""


_WAITING_SENTENCE = f"It waits for {PendingPlan('-', LEAD).description}."
"""A sentence that a lead with the plan does not need."""


class ExternalMailFormat(Struct):
    """The lead's mail format: the older one until the files show the newer one."""

    newer: bool = False

    def note_roster(self, config: TeamConfig) -> None:
        """Detect the format from the roster."""
        self.newer = self.newer or _LEAD_PROCESS_KEY in config.extra

    def note_mail(self, entries: Iterable[InboxEntry]) -> None:
        """Detect the format from mail."""
        self.newer = self.newer or any("msgV" in entry.extra for entry in entries)

    def encode_entries(self, entry: InboxEntry) -> list[InboxEntry]:
        """Return the entry as the lead's program would write it: one entry, or its text and a notice, with the same id
        and time.
        """
        message = parse_protocol(entry.text)
        entries = [entry]
        if isinstance(message, IdleNotification):
            entries = self._encode_idle(entry, message)
        elif isinstance(message, PlanApprovalRequest):
            entries = [replace(entry, color=None, timestamp=message.timestamp)]
        if not self.newer:
            return entries
        return [replace(one, extra={**one.extra, "msgV": 1, "type": "message"}) for one in entries]

    def _encode_idle(self, entry: InboxEntry, notice: IdleNotification) -> list[InboxEntry]:
        words = (notice.result or "").removesuffix(_WAITING_SENTENCE).strip()
        if notice.failure_reason:
            words = f"My turn failed: {notice.failure_reason}"
        bare = replace(notice, completed_task_id=None, completed_status=None, failure_reason=None, result=None)
        if self.newer:
            return [replace(entry, text=replace(bare, result=words or None).encode())]
        idle_entry = replace(entry, text=bare.encode())
        if not words:
            return [idle_entry]
        id = keyed_id("words", entry.msg_id)
        return [replace(entry, text=fence_protocol(words), summary=default_summary(words), msg_id=id), idle_entry]


RETRY_S = 2.0
"""Seconds until a file that could not be written, or read whole, is tried again."""


class MailReader(Protocol):
    """The member that reads its own inbox."""

    async def filter_entries(self, inbox: Mailbox, entries: Sequence[InboxEntry]) -> list[InboxEntry]:
        """Return the entries that are for the model."""
        ...


class InboxContext(Struct):
    """The shared state of all inboxes of one member process. `report` shows a message to people, by level; `was_sent`
    knows ids of earlier processes.
    """

    dialect: ExternalMailFormat
    report: Callable[[str, str], None]
    was_sent: Callable[[str], bool]
    reader: MailReader | None = None

    def attach(self, reader: MailReader) -> None:
        """Pass our own mail to this reader from now on; without one all entries are for the model."""
        self.reader = reader


class ExternalTeamInbox(Inbox):
    """The inbox of any member of the team. It keeps what it cannot write or read now, and so outlasts no lock."""

    def __init__(self, path: Path, guard: Path, archive: Path, postal: InboxContext) -> None:
        super().__init__(path, guard, archive, outlasts_locks=False)
        self._context = postal
        self._unsent: deque[InboxEntry] = deque()
        self._send_task: asyncio.Task[None] | None = None

    async def put(self, entry: InboxEntry, *, runtime: bool = False) -> str:
        """See `Inbox`. A message of the runtime that cannot be written now is sent later."""
        id = entry.msg_id or message_id()
        whole = replace(entry, msg_id=id, timestamp=entry.timestamp or iso_time())
        for letter in self._context.dialect.encode_entries(whole):
            if runtime:  # the other product's format may be longer than ours
                await self._send_or_queue(replace(letter, text=fit_text(letter.text)))
            else:
                await super().put(letter)
        return id

    async def contains(self, msg_id: str) -> bool:
        """See `Inbox`; also True for queued messages, and for those of an earlier process that the reader has removed
        since.
        """
        waits = any(letter.msg_id == msg_id for letter in self._unsent)
        return waits or await super().contains(msg_id) or self._context.was_sent(msg_id)

    async def wait_until_sent(self, timeout_s: float) -> int:
        """Wait at most this many seconds and return the number of queued messages of the runtime."""
        if self._send_task is not None:
            await asyncio.wait({self._send_task}, timeout=timeout_s)
            self._send_task.cancel()
        return len(self._unsent)

    async def _send_or_queue(self, entry: InboxEntry) -> None:
        if not self._unsent:
            try:
                await super().put(entry, runtime=True)
            except (LockTimeout, LockLost, InboxFull) as problem:
                self._context.report(f"mail to {self.path.stem} waits: {problem.what}", "warning")
            else:
                return
        self._unsent.append(entry)
        if self._send_task is None or self._send_task.done():
            self._send_task = asyncio.create_task(self._send_queued(), name=f"mail to {self.path.stem}")

    async def _send_queued(self) -> None:
        """Send the queued messages in order until all are written."""
        while self._unsent:
            await asyncio.sleep(RETRY_S)
            letter = self._unsent[0]
            with suppress(LockTimeout, LockLost, InboxFull):
                if not await super().contains(letter.msg_id or ""):  # it may have been written before
                    await super().put(letter, runtime=True)
                self._unsent.popleft()
        self._context.report(f"mail to {self.path.stem} that waited is there now", "info")


class OwnInbox(ExternalTeamInbox):
    """The member's own inbox."""

    _is_locked_out = False
    _retry_timer: asyncio.TimerHandle | None = None
    _followers: tuple[Callable[[], None], ...] = ()

    def watch(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """See `Inbox`. Also calls back when the inbox is to be read again, because another program had locked it."""
        unwatch = super().watch(watcher, on_change)
        self._followers = (*self._followers, on_change)

        def end() -> None:
            unwatch()
            self._followers = tuple(one for one in self._followers if one is not on_change)

        return end

    async def unread(self) -> list[InboxEntry]:
        """See `Inbox`. While another program has the lock: the entries that need none of our ids."""
        try:
            entries = await super().unread()
            self._note_unlocked()
        except LockTimeout as problem:
            self._note_locked(problem)
            found: Sequence[InboxEntry] = ()
            with suppress(StorageError):  # another program is writing it
                found = read_entries(self.path)
            entries = [self.signer.check(entry) for entry in found if entry.msg_id and not entry.read]
        self._context.dialect.note_mail(entries)
        reader = self._context.reader
        return entries if reader is None else await reader.filter_entries(self, entries)

    async def mark_delivered(self, ids: Collection[str]) -> bool:
        """See `Inbox`. An entry that cannot be flagged now is known from the transcript, and flagged later."""
        try:
            more = await super().mark_delivered(ids)
            self._note_unlocked()
        except LockTimeout as problem:
            self._note_locked(problem)
            return False
        return more

    def _note_locked(self, problem: LockTimeout) -> None:
        if not self._is_locked_out:
            self._is_locked_out = True
            self._context.report(f"mail may come late: {problem.what}", "warning")
        if self._retry_timer is None:
            self._retry_timer = asyncio.get_running_loop().call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        for follower in self._followers:
            follower()

    def _note_unlocked(self) -> None:
        if self._is_locked_out:
            self._is_locked_out = False
            self._context.report("mail comes as usual again", "info")


class ExternalTeamStores(HomeStores):
    """The stores of a team that another program leads, for its member of this name."""

    def __init__(self, home: Home, name: str, context: InboxContext) -> None:
        super().__init__(home)
        self._name = name
        self._context = context

    def mailbox(self, directory: str, name: str) -> Inbox:
        paths = self.inbox_paths(directory, name)
        own = paths[0] == self.inbox_paths(directory, self._name)[0]
        return (OwnInbox if own else ExternalTeamInbox)(*paths, self._context)
