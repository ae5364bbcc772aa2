"""Ports of a team: its constructor's functions, the lead that it notifies, and the access of a teammate.

Depends on inboxes and on the states of members. `session` implements the functions, `Lead` the lead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

from teamwright.protocol.events import always_false
from teamwright.protocol.members import MemberState
from teamwright.protocol.runtime_tags import TaskEnd
from teamwright.protocol.task import Task

if TYPE_CHECKING:
    from teamwright.protocol.mail import IdleNotification, InboxEntry
    from teamwright.team_records.roster import KnownRoster
    from teamwright.teams.backend_teammate import TeammateLauncher
    from teamwright.worktrees.session_worktrees import SessionWorktrees

ReportEnd: TypeAlias = Callable[[str, str, str | None], Awaitable[None]]
"""Receives a member's name, the cause of its end, and the request to stop to which it agreed."""


class TeamLead(Protocol):
    """The lead of this process, as its team notifies it."""

    def open_mailbox(self) -> None:
        """Open the lead's inbox, because a team exists now."""

    def close_mailbox(self) -> None:
        """Stop watching the lead's inbox, because the team was removed."""

    def queue_unread_mail(self, entries: Sequence[InboxEntry]) -> None:
        """Queue the unread mail of a team that was removed, for delivery."""

    def notify(self, notice: str | TaskEnd, key: str = "", *, wakes: bool = True) -> None:
        """Notify the lead; a note that does not wake it is delivered with its next input."""

    def add_late_answer(self, text: str) -> None:
        """Deliver an answer to a request that is gone: the lead is notified, and nothing runs."""


class TeamAccess(Protocol):
    """The team operations that a teammate needs."""

    async def claim_next_task(self, name: str, tools: frozenset[str]) -> Task | None:
        """Claim the next free task for this member and return it, or None."""
        ...

    async def roster_note(self, name: str, known_roster: KnownRoster) -> str:
        """Return the roster changes since the member's last note; empty when there are none."""
        ...

    async def finish_turn(self, name: str) -> None:
        """Handle the end of a turn of this member, with any result."""

    async def tasks_in_progress(self, name: str) -> list[Task]:
        """Return the tasks that this member has in progress."""
        ...

    async def notify_lead(self, name: str, notice: IdleNotification, id: str, *, is_rerun: bool = False) -> None:
        """Send the member's idle notice under `id`; with `is_rerun` it may be there already."""

    def is_stop_request_open(self, name: str, request_id: str) -> bool:
        """Return True when this incarnation of the member has an open shutdown request of that id."""
        ...

    async def process_end(self, name: str, cause: str, agreed_to: str | None) -> None:
        """Handle the end of the member: hand its tasks back, notify the lead once, free its place unless it failed."""


class TeamPorts(Struct, frozen=True):
    """The functions that a team receives from its session."""

    on_plan: Callable[[Mapping[str, Any]], None] | None = None
    """Called with each plan that waits for an answer, again after a resume: it ensures an answer in time."""
    watch_mailbox: Callable[[str, Callable[[], None]], Callable[[], None]] | None = None
    """Calls back when another program changes a member's mailbox. Returns a function that stops this."""
    watch_file: Callable[[Path, Callable[[], None]], Callable[[], None]] | None = None
    """In the lead's process: calls back when a file changes. Returns a function that stops this."""
    open_doorbell: Callable[[str, Callable[[], None]], Callable[[], None]] | None = None
    """Opens a member's doorbell, which our other processes ring after they wrote. Returns a function that closes it."""
    report_end: ReportEnd | None = None
    """In a member's own process: reports its end to the lead's process, which handles all effects."""
    wake_other_process: Callable[[str], object] | None = None
    """In a member's own process: wakes a member of another one."""
    worktrees: Callable[[], SessionWorktrees] | None = None
    """In the lead's process: returns the worktrees of members. None where members cannot have one."""
    work_directory: Path | None = None
    """The directory of members without a worktree, where it is not the session's."""
    is_integrating: Callable[[], bool] = always_false
    """In the lead's process: returns True while finished work awaits its integration."""
    launcher_for: Callable[[Any], TeammateLauncher] | None = None
    """Receives the `SessionTeam`, and returns the launcher of its members in separate processes."""
    remote_state: Callable[[str], MemberState | None] | None = None
    """In a member's own process: returns the state of a member of another one; None when it has ended."""

    def watch_inbox(self, name: str, look: Callable[[], None]) -> Callable[[], None]:
        """Call back when another process writes to a member's inbox. Returns a function that stops this."""
        starts = (self.watch_mailbox, self.open_doorbell)
        ways = [start(name, look) for start in starts if start is not None]

        def stop() -> None:
            while ways:
                ways.pop()()

        return stop
