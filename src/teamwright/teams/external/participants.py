"""The other programs that take part in a team, and the files shared with them.

The team watcher and the launchers write these values; mail and tasks read them. Plain values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct, field

from teamwright.protocol.events import Notice, TaskInfo
from teamwright.protocol.mail import IdleNotification, PermissionRequest, PlanApprovalRequest
from teamwright.protocol.roster import RosterMember
from teamwright.teams.plan_requests import PendingPlan

UNKNOWN_PROGRAM: Final = "outside"
"""The member of an event caused by an unidentified program."""


def restored_roster_notice(path: Path, copy: Path, source: str) -> Notice:
    """Return the notice that the roster at this path was damaged and is restored; `copy` has the damaged bytes."""
    text = f"{path} was damaged and was restored from {source}. The damaged bytes are kept in {copy}."
    return Notice(member=UNKNOWN_PROGRAM, text=text, level="warning")


class ExternalMemberListener(Protocol):
    """A listener for one member that another program runs and this process started: it receives the signs in that
    program's files.
    """

    def note_active(self, active: bool, /) -> None:
        """Record whether its entry says that it is in a turn."""
        ...

    def note_idle(self, notice: IdleNotification, /) -> None:
        """Record its idle notice to its lead."""
        ...

    def note_waiting(self, what: str, /) -> None:
        """Record that it asked its lead for a permission."""
        ...

    def note_answered(self) -> None:
        """Record that its request was answered."""
        ...

    def note_mode(self, mode: str, /) -> None:
        """Record that its lead gave it this permission mode."""
        ...

    def note_plan(self, plan: PendingPlan, /) -> None:
        """Record its submitted plan; one that is not open means that its plan was answered."""
        ...

    def note_agreement(self) -> None:
        """Record that it agreed to its open request to stop, and will end."""
        ...

    def note_objection(self) -> None:
        """Record that it objected to being stopped, and continues."""
        ...


MAX_REPORTED_STATES = 8
"""States of one task that are remembered as reported by member processes."""

MAX_REPORTED_TASKS = 256
"""Tasks whose reported states are remembered: the last changed ones."""


SETTLE_MS = 2_000
"""Milliseconds that a task's file must be unchanged before an idle member claims it, when another program leads."""


class ExternalParticipants(Struct):
    """The external members and shared files of a team. `shared_list`: the task list that it uses instead of a private
    one; several sessions may.

    `external_names` are external members, in lower case, and `listeners` those of them that this process started;
    `own_entries` are the entries of our own members as we wrote them; `files_removed` says that another program removed
    the team's files, `task_list_removed` that its task list was removed too, so that the session's own is used.
    """

    shared_list: str = ""
    external_names: set[str] = field(default_factory=set[str])
    listeners: dict[str, ExternalMemberListener] = field(default_factory=dict[str, ExternalMemberListener])
    own_entries: dict[str, RosterMember] = field(default_factory=dict[str, RosterMember])
    process_names: set[str] = field(default_factory=set[str])
    """Members that have, or had, a process started by us, in lower case: that process reports their acts."""
    reported_tasks: dict[str, deque[TaskInfo]] = field(default_factory=dict[str, "deque[TaskInfo]"])
    """The newest states of each task that member processes produced, by its id: no other program caused these."""
    files_removed: bool = False
    task_list_removed: bool = False
    led_externally: bool = False
    """True when another program leads the team: its lead does not mark drafts of tasks."""
    on_permission_request: Callable[[str, PermissionRequest], None] | None = None
    """Called when an external member asks its lead for a permission."""
    on_plan: Callable[[str, PlanApprovalRequest], None] | None = None
    """Called when an external member submits a plan."""
    on_ended: Callable[[str, str], None] | None = None
    """Called with an external member that this process did not start, and the reason why it counts as ended."""
    on_files_changed: Callable[[], None] | None = None
    """Called when the team's files were created or removed."""
    on_joined: list[Callable[[str], None]] = field(default_factory=list["Callable[[str], None]"])
    """Called when an external member becomes known: its earlier requests are read."""
    on_left: list[Callable[[str], None]] = field(default_factory=list["Callable[[str], None]"])
    """Called when an external member has ended."""

    @property
    def settle_ms(self) -> int:
        """The milliseconds that a task's file must be unchanged before one of our idle members claims it."""
        return SETTLE_MS if self.led_externally else 0

    def add_member(self, name: str, listener: ExternalMemberListener | None = None) -> None:
        """Add an external member."""
        self.external_names.add(name.lower())
        if listener is not None:
            self.listeners[name.lower()] = listener
        for told in self.on_joined:
            told(name)

    def remove_member(self, name: str) -> None:
        """Remove an external member; harmless for an unknown one."""
        self.listeners.pop(name.lower(), None)
        if name.lower() in self.external_names:
            self.external_names.discard(name.lower())
            for told in self.on_left:
                told(name)

    def note_reported_task(self, task: TaskInfo) -> None:
        """Record the state of a task that a member's process reported."""
        states = self.reported_tasks.pop(task.id, None) or deque[TaskInfo](maxlen=MAX_REPORTED_STATES)
        states.append(task)
        self.reported_tasks[task.id] = states
        if len(self.reported_tasks) > MAX_REPORTED_TASKS:
            del self.reported_tasks[next(iter(self.reported_tasks))]

    def reset(self) -> None:
        """Reset everything: the team was created or removed."""
        for name in list(self.external_names):
            self.remove_member(name)
        self.own_entries.clear()
        self.process_names.clear()
        self.reported_tasks.clear()
        self.files_removed = self.task_list_removed = False
        if self.on_files_changed is not None:
            self.on_files_changed()
