"""The mailbox of one member as rows of the database.

The read flags and the transcript's new lines are written in one transaction, so that a member that continues on another
machine has exactly the conversation that its read flags imply. Depends on the database and the limits of mail.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from datetime import datetime
from typing import NamedTuple

from teamwright.database.connection import Database
from teamwright.database.driver import Connection
from teamwright.database.roster_and_state_rows import ROSTER
from teamwright.database.session_connection import SessionConnection
from teamwright.mail.inbox_file import MAX_RUNTIME_UNREAD, MAX_UNREAD
from teamwright.mail.inbox_writer import MAX_RUNTIME_BYTES, MAX_UNREAD_BYTES, inbox_full_error
from teamwright.mail.mailbox import OnArrival, OnLoss
from teamwright.mail.message_size import check_text_size
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.ids import inbox_stem, iso_time, message_id
from teamwright.protocol.mail import InboxEntry, is_contentless, parse_entry
from teamwright.storage.file_watcher import Watcher


class MailSettings(NamedTuple):
    """`is_durable`: a send returns once the server's disk has it, so that no crash of the server's machine loses it."""

    is_durable: bool = False


class DatabaseMailbox:
    """A mailbox; see FollowedMailbox. The name of the reader is compared in lower case, as inbox files are."""

    def __init__(
        self,
        database: Database,
        session: SessionConnection | None,
        address: tuple[str, str],
        settings: MailSettings,
    ) -> None:
        self._database = database
        self._session = session
        self._team, self._name = address[0], inbox_stem(address[1])
        self._reader = self._name.lower()
        self._settings = settings
        self._is_known = False
        self._on_arrival: OnArrival | None = None
        self._reported: set[str] = set()
        self._followed_at: datetime | None = None

    async def put(self, entry: InboxEntry, *, runtime: bool = False) -> str:
        """See Mailbox. An entry whose id is stored already is not stored again."""
        check_text_size(entry.text)
        id = entry.msg_id or message_id()
        whole = entry.copy_with(msg_id=id, timestamp=entry.timestamp or iso_time(), read=False)
        await self._database.write(
            lambda connection: self._store(connection, whole, runtime=runtime), durable=self._settings.is_durable
        )
        self._is_known = True
        return id

    async def _store(self, connection: Connection, entry: InboxEntry, *, runtime: bool) -> None:
        """Store the entry behind the quota; senders to one mailbox wait for each other."""
        here = (self._team, self._reader)
        body = entry.encode()
        quiet = is_contentless(entry.text)
        if self._session is None:
            await self._require_team(connection)
        await connection.execute("select pg_advisory_xact_lock(lease_key('mail/' || $1 || '/' || $2))", *here)
        if not self._is_known:
            await connection.execute(
                "insert into mailboxes (team, reader, shown_name) values ($1, $2, $3) on conflict do nothing",
                *(*here, self._name),
            )
        if quiet:  # a newer notice that says only idle replaces the older one of its sender
            await connection.execute(
                "delete from mail where team = $1 and reader = $2 and not is_read and is_contentless and sender = $3",
                *(*here, entry.sender),
            )
        row = await connection.fetchrow(
            "select count(*) as count, coalesce(sum(octet_length(body)), 0)::bigint as size from mail "
            "where team = $1 and reader = $2 and not is_read",
            *here,
        )
        count, size = (int(row["count"]), int(row["size"])) if row is not None else (0, 0)
        most = MAX_UNREAD + (MAX_RUNTIME_UNREAD if runtime else 0)
        most_bytes = MAX_UNREAD_BYTES + (MAX_RUNTIME_BYTES if runtime else 0)
        if count + 1 > most or size + len(body) > most_bytes:
            raise inbox_full_error(self._name, count, size)
        done = await connection.execute(
            "insert into mail (team, reader, msg_id, sender, body, is_contentless, stored_by) "
            "values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing",
            *(*here, entry.msg_id, entry.sender, body, quiet, self._database.origin),
        )
        if done.endswith(" 1"):
            await self._database.notify(connection, self._topic)

    async def _require_team(self, connection: Connection) -> None:
        """Let no process remove the team before this transaction ends. Raises TeamRefused for one that is removed."""
        there = await connection.fetchval(
            "select 1 from documents where team = $1 and kind = $2 for share", self._team, ROSTER.kind
        )
        if there is None:
            raise TeamRefused("team-refused", f'the team "{self._team}" was deleted', note="no member will read it")

    async def unread(self) -> list[InboxEntry]:
        """See Mailbox. Requests of which an entry speaks are here before the entry."""
        rows = await self._database.read(
            lambda connection: connection.fetch(
                "select body, stored_at, stored_by from mail where team = $1 and reader = $2 and not is_read "
                "order by number",
                *(self._team, self._reader),
            )
        )
        files = self._database.files
        if rows and files is not None and files.shares_requests:
            await self._database.read(files.fetch_requests)
        entries = [_parse(row["body"]) for row in rows]
        if self._on_arrival is not None:
            self._report(
                [
                    entry
                    for entry, row in zip(entries, rows, strict=True)
                    if row["stored_by"] != self._database.origin
                    and (self._followed_at is None or row["stored_at"] > self._followed_at)
                ]
            )
        return entries

    def _report(self, entries: list[InboxEntry]) -> None:
        """Report the entries of other processes that were not reported before."""
        fresh = [entry for entry in entries if entry.msg_id not in self._reported]
        self._reported = {entry.msg_id for entry in entries if entry.msg_id}
        if fresh and self._on_arrival is not None:
            self._on_arrival(fresh)

    async def mark_delivered(self, ids: Collection[str]) -> bool:
        if not ids:
            return False

        async def work(connection: Connection) -> None:
            await connection.execute(
                "update mail set is_read = true where team = $1 and reader = $2 and msg_id = any($3) and not is_read",
                *(self._team, self._reader, list(ids)),
            )

        await self._database.write(work, durable=self._settings.is_durable)
        return False

    async def contains(self, msg_id: str) -> bool:
        return await self._database.read(
            lambda connection: connection.fetchval(
                "select exists (select 1 from mail where team = $1 and reader = $2 and msg_id = $3)",
                *(self._team, self._reader, msg_id),
            )
        )

    def entries(self) -> list[InboxEntry]:
        """See FollowedMailbox. For entries that other programs write into files: a database has none of them."""
        return []

    def mark(self) -> None: ...

    def watch(self, watcher: Watcher, on_change: Callable[[], None]) -> Callable[[], None]:
        """See FollowedMailbox. The watcher, which watches files, is not used."""
        if self._session is None:
            return lambda: None
        return self._session.subscribe(self._topic, lambda _detail: on_change())

    def set_listeners(self, on_arrival: OnArrival | None, on_loss: OnLoss | None) -> None:
        """See FollowedMailbox. No other program removes an entry from a database, so nothing is ever lost."""
        self._on_arrival = on_arrival
        self._followed_at = self._database.now()
        self._reported = set()

    @property
    def _topic(self) -> str:
        return f"mail:{self._team}/{self._reader}"


def _parse(body: bytes) -> InboxEntry:
    return parse_entry(json.loads(body))
