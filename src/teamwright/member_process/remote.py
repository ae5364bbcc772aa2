"""The database side of a member process on another machine than its lead's: lease, stores, files and wire.

Imported only for a member whose spawn file names a database. Depends on the stores of `database`.
"""

from __future__ import annotations

import os
import signal
import socket
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.database.address import SECRET_VARIABLES, parse_address
from teamwright.database.connection import MOST_OF_MEMBER, Database
from teamwright.database.database_stores import DatabaseStores
from teamwright.database.mailbox import MailSettings
from teamwright.database.session_connection import SessionConnection
from teamwright.database.session_files import SessionFiles
from teamwright.database.session_shipper import SessionShipper
from teamwright.database.wire_tunnel import WireTunnel
from teamwright.database.worker_orders import StartOrders, member_lease
from teamwright.member_process.lead_connection import LeadConnection
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.events import TeamEvent
from teamwright.protocol.members import RosterMember
from teamwright.protocol.time_limit import time_limit
from teamwright.session.preparation import SessionContext
from teamwright.session.spawn_file import SpawnFile
from teamwright.session.wiring.worktree_factory import RemoteCommits, remote_record
from teamwright.storage.file_lease import Lease, lease_path, wait_for_lease
from teamwright.storage.paths import find_home
from teamwright.tasks.task_store import team_member
from teamwright.team_records.team_state import Incarnation

_FORMER_END_S = 5.0
"""Seconds that a member waits for the lease of a former process of the same name, which its lead has ended."""

_LOCAL_END_S = 30.0
"""Seconds that a former process on this machine may take from the loss of its lease until its end."""


class RemoteMember(Struct):
    """The database side of one member process. Its lease fences every write of an earlier process out."""

    database: Database
    connection: SessionConnection
    cwd: Path
    shipper: SessionShipper | None = None
    stores: DatabaseStores | None = None

    def add_stores(self, context: SessionContext) -> SessionContext:
        """Return the context with the stores of the team, and without the database for the agent's commands."""
        settings = context.settings
        mail = MailSettings(settings.database_durable_mail)
        stores = self.stores = DatabaseStores(self.database, self.connection, mail)
        hidden = replace(settings.bash, hidden=(*settings.bash.hidden, *SECRET_VARIABLES))
        options = replace(context.options, stores=stores)
        return replace(context, options=options, settings=replace(settings, bash=hidden))

    async def take_local_lease(self, directory: Path, owner: str) -> Lease:
        """Take the lease of the files here, once a former process has ended. Raises CannotStart, StorageError."""
        with suppress(TimeoutError):
            async with time_limit(_LOCAL_END_S):
                return await wait_for_lease(lease_path(directory), owner)
        return Lease.take(lease_path(directory), owner)

    async def fetch_files(self, context: SessionContext, spawn: SpawnFile, stem: str) -> None:
        """Bring the transcript of the member here if an earlier process has shipped it, and ship it from now on."""
        files = SessionFiles(context.home, spawn.session, self.cwd, stem)
        files.set_team(spawn.directory)
        await self.database.read(files.fetch)
        await self.database.write(lambda connection: files.begin(connection, str(self.cwd)))
        self.database.ship_with_writes(files)
        self.shipper = SessionShipper(self.database)

    def commits(self, spawn: SpawnFile, line: LeadConnection) -> RemoteCommits | None:
        """Return the way of the member's commits to its lead; None without a repository."""
        record = remote_record(self.cwd, spawn.team, spawn.directory, spawn.member, spawn.session)
        return RemoteCommits(record, line.call) if record is not None else None

    def place(self, context: SessionContext, incarnation: Incarnation) -> Incarnation:
        """Return the incarnation with the path of its transcript on this machine."""
        stem = Path(incarnation.transcript).stem
        path = context.home.agent_transcript(context.cwd, context.id, stem)
        return replace(incarnation, transcript=str(path))

    def place_entry(self, member: RosterMember) -> RosterMember:
        """Return the roster entry with the member's directory on this machine."""
        return replace(member, cwd=str(self.cwd), worktree_path=None)

    def note_event(self, _number: int, _event: TeamEvent) -> None:
        """Ship the files soon: an event was logged."""
        if self.shipper is not None:
            self.shipper.note_change()

    def set_pause(self, pause_s: float) -> None:
        """Collect changes of the files for so many seconds before they are shipped."""
        if self.shipper is not None:
            self.shipper.set_pause(pause_s)

    async def close(self) -> None:
        """Ship the rest."""
        if self.stores is not None:
            await self.stores.close()
        if self.shipper is not None:
            await self.shipper.close()


async def open_remote_member(spawn: SpawnFile, stack: AsyncExitStack) -> RemoteMember:
    """Take the lease of the member, and open the socket that leads to its lead. Raises CannotStart."""
    database = await Database.open(parse_address(spawn.database), MOST_OF_MEMBER)
    database.member = team_member(spawn.directory, spawn.member)
    stack.push_async_callback(database.close)
    connection = SessionConnection(database, lambda: _end_process(tunnel))
    tunnel = WireTunnel(database, connection, spawn.order, Path(spawn.wire), to_lead=True)
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    await connection.open(member_lease(spawn.directory, spawn.member), owner, _FORMER_END_S)
    stack.push_async_callback(connection.close)
    # Only now: the lease fences out a process whose order ends later.
    if not await StartOrders(database).is_open(spawn.order):
        raise CannotStart("backend", f"{spawn.member} is no longer wanted here", note="nothing was started")
    await tunnel.open()
    stack.push_async_callback(tunnel.close)
    find_home(spawn.home).prepare()
    member = RemoteMember(database, connection, Path(str(spawn.options["cwd"])))
    stack.push_async_callback(member.close)
    return member


def _end_process(tunnel: WireTunnel) -> None:
    """End this process as SIGTERM does: another process of the member has taken its lease."""
    tunnel.cut()  # its lead does not listen any more, so there is no answer to wait for
    os.kill(os.getpid(), signal.SIGTERM)
