"""Access of a person's command to saved teams: lookup by address, and the changes that it makes to them.

A team in files and a team in a database are accessed through one port; the database has its implementation in
`saved.database_access`. Lookup reads without locks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Callable, Collection
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from teamwright.processes.pid_watch import ProcessInfo, WatchedProcess, kill_all
from teamwright.processes.process_records import end_orphans
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.events import MemberChanged
from teamwright.protocol.ids import LEAD, ended_member, known_name, parse_agent_id, unknown_member
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.members import IN_PROCESS, RosterMember, TeamConfig
from teamwright.protocol.pending_request import PendingRequest
from teamwright.saved.orphaned_members import EndedOrphans, stop_orphan_members
from teamwright.saved.teams import SavedTeam, all_teams, find_saved_team
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.event_log import parse_event
from teamwright.storage.file_lease import lease_holder
from teamwright.storage.json_lines import read_backward
from teamwright.storage.paths import Home
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.team_state import TeamFile, is_lead_alive

if TYPE_CHECKING:
    from teamwright.tasks.task_store import FollowedTaskStore
    from teamwright.worktrees.integration_store import IntegrationStore


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


class TeamAddress(Struct, frozen=True):
    """A saved team. `file` is None for another product's team."""

    access: SavedTeamAccess
    directory: str
    config: TeamConfig
    file: TeamFile | None

    @property
    def home(self) -> Home:
        """The home with the team's files; of a database, a private copy of them."""
        return self.access.home

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def member_names(self) -> list[str]:
        """The names of the members on the roster, the lead first."""
        return [one.name for one in self.config.members]

    @property
    def names(self) -> tuple[str, ...]:
        """The texts that may follow the `@` of a member's id in this team."""
        return self.name, self.directory

    @property
    def resume_command(self) -> str:
        """The command that resumes the team."""
        return self.home.name_in(f"teamwright resume {shlex.quote(self.name)}")

    @property
    def remove_command(self) -> str:
        """The command that removes the team."""
        return self.home.name_in(f"teamwright teams rm {shlex.quote(self.name)}")

    def is_led(self) -> bool:
        """Return True when a Teamwright process leads it now."""
        return self.file is not None and is_lead_alive(self.file.lead)

    def lead(self) -> LeadProcessWatch | None:
        """Return a watch on the process that leads it, which the caller closes; None without one, or when it is
        uncertain.
        """
        return self.access.watch_lead(self.file) if self.file is not None else None

    def member(self, name: str) -> RosterMember:
        """Return the member of that name, `lead` for the lead. Raises UnknownMember, also for an ended member."""
        recipient = known_name(name, self.names, self.member_names, f"team {self.name}")
        member = self.config.find(recipient)
        if member is not None:
            return member
        if self.has_ended(recipient):
            do = ["write to a present member: the lead can start another one"]
            raise ended_member(recipient, self.member_names, do=do)
        raise unknown_member(recipient, self.member_names, f"team {self.name}")

    def has_ended(self, name: str) -> bool:
        """Return True when a member of that name was in the team and has ended."""
        known = self.file is not None and name.lower() in self.file.incarnations
        return known and self.config.find(name) is None

    def state(self, name: str) -> str:
        """Return the member's state from the log: a state of the lifecycle, or empty when the log has none."""
        if self.file is None or not self.file.log:
            return ""
        mark = f'"member":"{name}"'.encode()
        for line in islice(read_backward(Path(self.file.log)), MOST_LINES):
            if b'"member_changed"' in line[:80] and mark in line[:200]:
                event = parse_event(line)
                if isinstance(event, MemberChanged) and event.member == name:
                    return event.state
        return ""


def find_address(access: SavedTeamAccess, address: str) -> tuple[TeamAddress, str]:
    """Return the team and the member's name in `NAME@TEAM`; an empty name when the address is only a team's.

    A team's name may contain an `@`, so the whole address is tried as a team first. Raises as `find_saved_team`, and
    StorageError for a team that cannot be read.
    """
    name, team = parse_agent_id(address)
    if name and team and all(one.name != address for one in all_teams(access.home)):
        return _address(access, find_saved_team(access.home, team)), name
    return _address(access, find_saved_team(access.home, address)), ""


def _address(access: SavedTeamAccess, team: SavedTeam) -> TeamAddress:
    config = team.config
    if config is None or (team.damaged and team.may_be_own):
        config = team.require_own()
    return TeamAddress(access, team.directory, config, team.file)


def runs_with_lead(target: TeamAddress, member: RosterMember) -> bool:
    """Return True when the lead's process runs or started the member. The lead of Teamwright's own team counts too."""
    begun = target.file is not None and member.name.lower() in target.file.incarnation_records
    return member.name == LEAD or member.backend_type == IN_PROCESS or begun


def external_error(target: TeamAddress, what: str) -> TeamwrightError:
    """Return the error for a team, or a member, that another product runs."""
    return TeamwrightError(
        "team-refused",
        f"{what} is run by another program",
        looked_at=[("team", str(target.home.team(target.directory)))],
        do=["end it where it runs"],
        note="nothing was done",
    )


class FileAccess(Struct, frozen=True):
    """The access to the teams of a home; see SavedTeamAccess."""

    home: Home
    is_local: bool = True

    async def send_mail(self, directory: str, name: str, entry: InboxEntry) -> str:
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
        return FileStores(self.home).tasks(name)

    def integration(self, directory: str) -> IntegrationStore:
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
        return await stop_orphan_members(self.home, file, names)


class LocalLead:
    """The process of a lead on this machine; see LeadProcessWatch. `session` is the directory of its session."""

    def __init__(self, process: WatchedProcess, session: Path) -> None:
        self._process = process
        self._session = session

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive

    def on_end(self, callback: Callable[[], None]) -> Callable[[], object]:
        return self._process.on_end(callback)

    async def wait_for_end(self, within_s: float) -> bool:
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
        self._process.close()


TERMINATE_S = 5.0
"""Seconds for the lead's process to save and exit after SIGTERM."""

KILLED_S = 5.0
"""Seconds after SIGKILL until all its processes must have exited."""


MOST_LINES = 20_000
"""Maximum lines of a log that are read backward for a member's state."""
