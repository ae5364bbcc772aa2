"""The other programs that take part in a team, and the files shared with them.

The team watcher and the launchers write these values; mail and tasks read them. Plain values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct, field

from teamwright.protocol.events import Notice, TaskInfo
from teamwright.protocol.mail import IdleNotification, PermissionRequest, PlanApprovalRequest
from teamwright.protocol.members import RosterMember
from teamwright.teams.plan_requests import PendingPlan

UNKNOWN_PROGRAM: Final = "outside"
"""The member of an event caused by an unidentified program."""


def restored_roster_notice(path: str, copy: str, source: str) -> Notice:
    """Return the notice that the roster at this path was damaged and is restored; `copy` has the damaged bytes."""
    text = f"{path} was damaged and was restored from {source}. The damaged bytes are kept in {copy}."
    return Notice(member=UNKNOWN_PROGRAM, text=text, level="warning")


class ExternalMemberListener(Protocol):
    """A listener for one member that another program runs and this process started: it receives the signs in that
    program's files.
    """

    def note_active(self, active: bool, /) -> None:
        """Record whether its entry says that it is in a turn."""

    def note_idle(self, notice: IdleNotification, /) -> None:
        """Record its idle notice to its lead."""

    def note_waiting(self, what: str, /) -> None:
        """Record that it asked its lead for a permission."""

    def note_answered(self) -> None:
        """Record that its request was answered."""

    def note_mode(self, mode: str, /) -> None:
        """Record that its lead gave it this permission mode."""

    def note_plan(self, plan: PendingPlan, /) -> None:
        """Record its submitted plan; one that is not open means that its plan was answered."""

    def note_agreement(self) -> None:
        """Record that it agreed to its open request to stop, and will end."""

    def note_objection(self) -> None:
        """Record that it objected to being stopped, and continues."""


class ExternalRequestObserver(Protocol):
    """An approver of requests of external members."""

    def note_joined(self, name: str, /) -> None:
        """Note that an external member is known: its earlier requests are read."""

    def note_left(self, name: str, /) -> None:
        """Note that an external member has ended."""

    def note_request(self, name: str, request: PermissionRequest | PlanApprovalRequest, /) -> None:
        """Note that an external member asks its lead for a permission, or submits a plan."""


class ExternalMemberObserver(Protocol):
    """A watcher of the files that external members share with the team."""

    def note_joined(self, name: str, /) -> None:
        """Note that an external member is known."""

    def note_ended(self, name: str, why: str, /) -> None:
        """Note why a member that this process did not start counts as ended."""

    def note_files_changed(self) -> None:
        """Note that the team's files were created or removed."""


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
    _approvers: tuple[ExternalRequestObserver, ...] = ()
    _watchers: tuple[ExternalMemberObserver, ...] = ()

    def report_requests(self, approver: ExternalRequestObserver) -> None:
        """Report the requests of external members to this approver, as long as the team exists."""
        self._approvers = (*self._approvers, approver)

    def report_members(self, watcher: ExternalMemberObserver) -> Callable[[], None]:
        """Report external members to this watcher. Return the function that ends this."""
        self._watchers = (*self._watchers, watcher)

        def end() -> None:
            self._watchers = tuple(one for one in self._watchers if one is not watcher)

        return end

    @property
    def settle_ms(self) -> int:
        """The milliseconds that a task's file must be unchanged before one of our idle members claims it."""
        return SETTLE_MS if self.led_externally else 0

    def add_member(self, name: str, listener: ExternalMemberListener | None = None) -> None:
        self.external_names.add(name.lower())
        if listener is not None:
            self.listeners[name.lower()] = listener
        for observer in (*self._approvers, *self._watchers):
            observer.note_joined(name)

    def remove_member(self, name: str) -> None:
        """Remove an external member; harmless for an unknown one."""
        self.listeners.pop(name.lower(), None)
        if name.lower() in self.external_names:
            self.external_names.discard(name.lower())
            for approver in self._approvers:
                approver.note_left(name)

    def note_request(self, name: str, request: PermissionRequest | PlanApprovalRequest) -> None:
        """Report that an external member asks its lead for a permission, or submits a plan."""
        for approver in self._approvers:
            approver.note_request(name, request)

    def note_ended(self, name: str, why: str) -> None:
        """Report why an external member that this process did not start counts as ended."""
        for watcher in self._watchers:
            watcher.note_ended(name, why)

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
        for watcher in self._watchers:
            watcher.note_files_changed()
