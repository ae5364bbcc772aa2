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
from teamwright.protocol.roster import Member
from teamwright.protocol.values import dataclass
from teamwright.teams.plans.awaited import Awaited

OUTSIDE: Final = "outside"
"""The member of an event whose doer is another program that nobody can name."""


class Followed(Protocol):
    """A member that another program runs and this process started: it is told what that program's files say."""

    def active(self, now: bool, /) -> None:
        """Its entry says whether it is in a turn."""
        ...

    def idles(self, notice: IdleNotification, /) -> None:
        """It told its lead that it is idle."""
        ...

    def waits_for(self, what: str, /) -> None:
        """It asked its lead for a permission."""
        ...

    def got_answer(self) -> None:
        """Its request was answered."""
        ...

    def given(self, mode: str, /) -> None:
        """It was told to go on in this permission mode."""
        ...

    def handed_in(self, plan: Awaited, /) -> None:
        """It handed in a plan; one that is not open: its plan was answered."""
        ...

    def agreed(self) -> None:
        """It agreed to its open request to stop, and ends by itself."""
        ...

    def objected(self) -> None:
        """It objected to being stopped, and goes on."""
        ...


TOLD_MOST = 8
"""States of one task that are remembered as told by members' processes."""

TOLD_TASKS = 256
"""Tasks whose states are remembered so: those that were changed last."""


SETTLE_MS = 2_000
"""How long a task's file must not have changed before an idle member claims it, where another program leads."""


@dataclass(slots=True)
class Outside:
    """`shared_list`: the task list that the team uses in the place of its own; several sessions may.

    `strangers` are members that other programs run, in lower case, and of those `followed` the ones that this process
    started; `entries` are those of our own members as we wrote them; `removed` says that another program removed the
    team's files, `listless` that its task list went along, so that the session's own stands in.
    """

    shared_list: str = ""
    strangers: set[str] = field(default_factory=set[str])
    followed: dict[str, Followed] = field(default_factory=dict[str, Followed])
    entries: dict[str, Member] = field(default_factory=dict[str, Member])
    processes: set[str] = field(default_factory=set[str])
    """Members that have, or had, a process of ours, in lower case: what they do is told by themselves."""
    told: dict[str, deque[TaskInfo]] = field(default_factory=dict[str, "deque[TaskInfo]"])
    """The newest states of each task that members' processes made, by its id: no other program did that."""
    removed: bool = False
    listless: bool = False
    led_outside: bool = False
    """Whether another program leads the team: its lead marks no drafts of tasks."""
    on_asked: Callable[[str, PermissionRequest], None] | None = None
    """Called when a member that another program runs asks its lead for a permission."""
    on_planned: Callable[[str, PlanApprovalRequest], None] | None = None
    """Called when such a member hands in a plan."""
    on_over: Callable[[str, str], None] | None = None
    """Called with one that this process did not start, and why it counts as ended: it is seen off."""
    on_moved: Callable[[], None] | None = None
    """Called when the team's files are others now: it was made, or is no more."""
    on_met: list[Callable[[str], None]] = field(default_factory=list["Callable[[str], None]"])
    """Called when such a member is known from now on: what it asked before is taken up."""
    on_parted: list[Callable[[str], None]] = field(default_factory=list["Callable[[str], None]"])
    """Called when one is over."""

    @property
    def settle_ms(self) -> int:
        """How long a task's file must not have changed before an idle member of ours claims it."""
        return SETTLE_MS if self.led_outside else 0

    def meet(self, name: str, followed: Followed | None = None) -> None:
        """Another program runs the member of this name."""
        self.strangers.add(name.lower())
        if followed is not None:
            self.followed[name.lower()] = followed
        for told in self.on_met:
            told(name)

    def part(self, name: str) -> None:
        """It is over; harmless for one that is not known."""
        self.followed.pop(name.lower(), None)
        if name.lower() in self.strangers:
            self.strangers.discard(name.lower())
            for told in self.on_parted:
                told(name)

    def note_told(self, task: TaskInfo) -> None:
        """A member's process made this of a task."""
        states = self.told.pop(task.id, None) or deque[TaskInfo](maxlen=TOLD_MOST)
        states.append(task)
        self.told[task.id] = states
        if len(self.told) > TOLD_TASKS:
            del self.told[next(iter(self.told))]

    def moved(self) -> None:
        """The team was made, or is no more."""
        for name in list(self.strangers):
            self.part(name)
        self.entries.clear()
        self.processes.clear()
        self.told.clear()
        self.removed = self.listless = False
        if self.on_moved is not None:
            self.on_moved()
