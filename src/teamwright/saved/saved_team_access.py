"""Access of a person's command to saved teams: the home in which it reads them, and the changes that it makes to them.

A team in files and a team in a database are accessed through one port; the database has its implementation in
`saved.database_access`. Depends on stores, leases and doorbells.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from teamwright.processes.orphans import end_orphans
from teamwright.processes.pid_watch import ProcessInfo, WatchedProcess, kill_all
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.pending_request import PendingRequest
from teamwright.saved.orphaned_members import EndedOrphans, stop_orphan_members
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.file_lease import lease_holder
from teamwright.storage.paths import Home
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.team_state_file import TeamFile

if TYPE_CHECKING:
    from teamwright.tasks.task_store import FollowedTaskStore
    from teamwright.worktrees.integration_store import IntegrationStore

TERMINATE_S = 5.0
"""Seconds for the lead's process to save and exit after SIGTERM."""

KILLED_S = 5.0
"""Seconds after SIGKILL until all its processes must have exited."""


class LeadProcessWatch(Protocol):
    """A watch on the process that leads a team."""

    @property
    def pid(self) -> int:
        """Its pid on its machine."""
        ...

    @property
    def is_alive(self) -> bool:
        """True while it runs."""
        ...

    def on_end(self, callback: Callable[[], None]) -> Callable[[], object]:
        """Call back once it has ended; return the function that removes the callback."""
        ...

    async def wait_for_end(self, within_s: float) -> bool:
        """Return True when it has ended within that many seconds."""
        ...

    async def force_end(self) -> str:
        """End the process, which does not answer. Return how: `ended`, `killed`, or `fenced` (see StopResult).

        Raises TeamwrightError (`failed`) when a process would not end.
        """
        ...

    def close(self) -> None:
        """End the watch."""
        ...


class SavedTeamAccess(Protocol):
    """The access to saved teams. Every change raises StorageError, LockTimeout."""

    @property
    def home(self) -> Home:
        """The home with the teams' files; of a database, a private copy of them."""
        ...

    @property
    def is_local(self) -> bool:
        """True when the processes of the teams run on this machine."""
        ...

    async def send_mail(self, directory: str, name: str, entry: InboxEntry) -> str:
        """Store a message in the mailbox of a member, and wake the member. Return the id of the message.

        Raises TeamRefused, without a trace, for a team that was deleted.
        """
        ...

    def tasks(self, name: str) -> FollowedTaskStore:
        """Return the task list of this name."""
        ...

    async def deliver_answer(self, request: PendingRequest) -> bool:
        """Give the answer that was written beside a request to the process that asked. Return True when it counts.

        Raises TeamwrightError (`failed`) when that process does not confirm it.
        """
        ...

    def integration(self, directory: str) -> IntegrationStore:
        """Return the integration queue of a team."""
        ...

    def watch_lead(self, file: TeamFile) -> LeadProcessWatch | None:
        """Return a watch on the process that leads a team; None without one, or when it is uncertain."""
        ...

    async def stop_orphans(self, file: TeamFile, names: Collection[str]) -> EndedOrphans:
        """End the processes of these members (empty: all) of a team without a lead. They keep their places."""
        ...


class LocalLead:
    """The process of a lead on this machine; see LeadProcessWatch. `session` is the directory of its session."""

    def __init__(self, process: WatchedProcess, session: Path) -> None:
        self._process = process
        self._session = session

    @property
    def pid(self) -> int:
        """See LeadProcessWatch."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """See LeadProcessWatch."""
        return self._process.is_alive

    def on_end(self, callback: Callable[[], None]) -> Callable[[], object]:
        """See LeadProcessWatch."""
        return self._process.on_end(callback)

    async def wait_for_end(self, within_s: float) -> bool:
        """See LeadProcessWatch."""
        return await self._process.wait_for_end(within_s)

    async def force_end(self) -> str:
        """See LeadProcessWatch: send SIGTERM, then SIGKILL to the lead and its child processes.

        The session's directory lists the processes that it started.
        """
        lead = self._process
        offspring = lead.descendants()
        lead.signal(signal.SIGTERM)
        lead.signal(signal.SIGCONT)  # a stopped process handles SIGTERM only after SIGCONT
        killed = not await lead.wait_for_end(TERMINATE_S)
        if killed:
            offspring |= lead.descendants()
            lead.signal(signal.SIGKILL)
        left: set[ProcessInfo] = await kill_all(offspring, KILLED_S)
        if (killed and not await lead.wait_for_end(KILLED_S)) or left:
            numbers = ", ".join(str(row.pid) for row in sorted(left, key=lambda row: row.pid)) or str(lead.pid)
            raise TeamwrightError("failed", f"some processes would not end: {numbers}", note="nothing was lost")
        await asyncio.to_thread(end_orphans, self._session, 0.0)
        return "killed" if killed else "ended"

    def close(self) -> None:
        """See LeadProcessWatch."""
        self._process.close()


class FileAccess(Struct, frozen=True):
    """The access to the teams of a home; see SavedTeamAccess."""

    home: Home
    is_local: bool = True

    async def send_mail(self, directory: str, name: str, entry: InboxEntry) -> str:
        """See SavedTeamAccess."""
        stores = FileStores(self.home)
        inbox = stores.mailbox(directory, name)
        sent = await inbox.put(entry)
        if not stores.roster(directory).exists:
            for left in (inbox.path, inbox.path.parent, self.home.team(directory)):
                with contextlib.suppress(OSError):  # removes only directories that the send itself created
                    os.rmdir(left) if left.is_dir() else os.unlink(left)
            raise TeamRefused("team-refused", f'the team "{directory}" was deleted', note="no member will read it")
        TeamDoorbells(self.home, directory).ring(name)
        return sent

    def tasks(self, name: str) -> FollowedTaskStore:
        """See SavedTeamAccess."""
        return FileStores(self.home).tasks(name)

    def integration(self, directory: str) -> IntegrationStore:
        """See SavedTeamAccess."""
        return FileStores(self.home).integration(directory)

    async def deliver_answer(self, request: PendingRequest) -> bool:
        """See SavedTeamAccess. The process reads the same file, and the first one counts."""
        return True

    def watch_lead(self, file: TeamFile) -> LocalLead | None:
        """See SavedTeamAccess.

        The lease file has the pid, the lease is held, and the process has the file open (where that can be checked):
        another process with the same pid does not match.
        """
        if not file.lead.lease:
            return None
        lease = Path(file.lead.lease)
        process = WatchedProcess.open(lease_holder(lease))
        if process is None:
            return None
        if lease_holder(lease) != process.pid or process.has_open(lease) is False:
            process.close()
            return None
        return LocalLead(process, lease.parent)

    async def stop_orphans(self, file: TeamFile, names: Collection[str]) -> EndedOrphans:
        """See SavedTeamAccess."""
        return await stop_orphan_members(self.home, file, names)
