"""What a team knows of other programs on its files, and of what is shared with them.

Filled by the scribe, which watches, and by whoever starts members; read where mail is sent and tasks are kept. Plain
values: refuses to know how any of it was noticed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Final, Protocol

from teamwright.protocol.events import TaskInfo
from teamwright.protocol.mail import IdleNotification, PermissionRequest, PlanApprovalRequest
from teamwright.protocol.roster import RosterMember
from teamwright.protocol.values import dataclass
from teamwright.teams.plan_requests import PendingPlan

UNKNOWN_PROGRAM: Final = "outside"
"""The member of an event whose doer is another program that nobody can name."""


class ExternalMemberListener(Protocol):
    """A member that another program runs and this process started: it is told what that program's files say."""

    def note_active(self, active: bool, /) -> None:
        """Its entry says whether it is in a turn."""
        ...

    def note_idle(self, notice: IdleNotification, /) -> None:
        """It told its lead that it is idle."""
        ...

    def note_waiting(self, what: str, /) -> None:
        """It asked its lead for a permission."""
        ...

    def note_answered(self) -> None:
        """Its request was answered."""
        ...

    def note_mode(self, mode: str, /) -> None:
        """It was told to go on in this permission mode."""
        ...

    def note_plan(self, plan: PendingPlan, /) -> None:
        """It handed in a plan; one that is not open: its plan was answered."""
        ...

    def note_agreement(self) -> None:
        """It agreed to its open request to stop, and ends by itself."""
        ...

    def note_objection(self) -> None:
        """It objected to being stopped, and goes on."""
        ...


MAX_REPORTED_STATES = 8
"""States of one task that are remembered as told by members' processes."""

MAX_REPORTED_TASKS = 256
"""Tasks whose states are remembered so: those that were changed last."""


SETTLE_MS = 2_000
"""How long a task's file must not have changed before an idle member claims it, where another program leads."""


@dataclass(slots=True)
class ExternalParticipants:
    """`shared_list`: the task list that the team uses in the place of its own; several sessions may.

    `strangers` are members that other programs run, in lower case, and of those `followed` the ones that this process
    started; `entries` are those of our own members as we wrote them; `removed` says that another program removed the
    team's files, `listless` that its task list went along, so that the session's own stands in.
    """

    shared_list: str = ""
    external_names: set[str] = field(default_factory=set[str])
    listeners: dict[str, ExternalMemberListener] = field(default_factory=dict[str, ExternalMemberListener])
    own_entries: dict[str, RosterMember] = field(default_factory=dict[str, RosterMember])
    process_names: set[str] = field(default_factory=set[str])
    """Members that have, or had, a process of ours, in lower case: what they do is told by themselves."""
    reported_tasks: dict[str, deque[TaskInfo]] = field(default_factory=dict[str, "deque[TaskInfo]"])
    """The newest states of each task that members' processes made, by its id: no other program did that."""
    files_removed: bool = False
    task_list_removed: bool = False
    led_externally: bool = False
    """Whether another program leads the team: its lead marks no drafts of tasks."""
    on_permission_request: Callable[[str, PermissionRequest], None] | None = None
    """Called when a member that another program runs asks its lead for a permission."""
    on_plan: Callable[[str, PlanApprovalRequest], None] | None = None
    """Called when such a member hands in a plan."""
    on_ended: Callable[[str, str], None] | None = None
    """Called with one that this process did not start, and why it counts as ended: it is seen off."""
    on_files_changed: Callable[[], None] | None = None
    """Called when the team's files are others now: it was made, or is no more."""
    on_joined: list[Callable[[str], None]] = field(default_factory=list["Callable[[str], None]"])
    """Called when such a member is known from now on: what it asked before is taken up."""
    on_left: list[Callable[[str], None]] = field(default_factory=list["Callable[[str], None]"])
    """Called when one is over."""

    @property
    def settle_ms(self) -> int:
        """How long a task's file must not have changed before an idle member of ours claims it."""
        return SETTLE_MS if self.led_externally else 0

    def add_member(self, name: str, listener: ExternalMemberListener | None = None) -> None:
        """Another program runs the member of this name."""
        self.external_names.add(name.lower())
        if listener is not None:
            self.listeners[name.lower()] = listener
        for told in self.on_joined:
            told(name)

    def remove_member(self, name: str) -> None:
        """It is over; harmless for one that is not known."""
        self.listeners.pop(name.lower(), None)
        if name.lower() in self.external_names:
            self.external_names.discard(name.lower())
            for told in self.on_left:
                told(name)

    def note_reported_task(self, task: TaskInfo) -> None:
        """A member's process made this of a task."""
        states = self.reported_tasks.pop(task.id, None) or deque[TaskInfo](maxlen=MAX_REPORTED_STATES)
        states.append(task)
        self.reported_tasks[task.id] = states
        if len(self.reported_tasks) > MAX_REPORTED_TASKS:
            del self.reported_tasks[next(iter(self.reported_tasks))]

    def reset(self) -> None:
        """The team was made, or is no more."""
        for name in list(self.external_names):
            self.remove_member(name)
        self.own_entries.clear()
        self.process_names.clear()
        self.reported_tasks.clear()
        self.files_removed = self.task_list_removed = False
        if self.on_files_changed is not None:
            self.on_files_changed()
