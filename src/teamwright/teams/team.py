"""The team of one session: nobody but the lead at first, members as they are spawned.

Holds what is alive; the files are the truth of everything else. Sending is in `post`, starting in `spawning`,
ending in `ending`: each is handed this object. Knows rosters, task lists, desks; knows no tool and no screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from teamwright.agent.agent import Agent
from teamwright.agent.limits import SpawnLimits
from teamwright.mail.inbox import Inbox, inbox_for
from teamwright.mail.requests import RequestBox
from teamwright.permissions.decide import Policy
from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import Emit, MemberChanged, TaskChanged, TaskInfo, TeamChanged
from teamwright.protocol.ids import LEAD, SessionId
from teamwright.protocol.mail import Entry
from teamwright.protocol.task import Task
from teamwright.protocol.values import dataclass
from teamwright.storage.marks import mark_of
from teamwright.storage.paths import Home
from teamwright.tasks.check import Check
from teamwright.tasks.task_list import TaskList
from teamwright.teams.agents.book import Agents
from teamwright.teams.catalogue import Teams
from teamwright.teams.health.standing import Standing
from teamwright.teams.incarnation import Life
from teamwright.teams.lifecycle import BUSY, GONE, State
from teamwright.teams.mailing.desk import Desk
from teamwright.teams.member.away import Away
from teamwright.teams.member.elsewhere import Elsewhere
from teamwright.teams.member.index import Members
from teamwright.teams.member.mate import Mate
from teamwright.teams.member.settings import TeamSettings
from teamwright.teams.outside import Outside
from teamwright.teams.roster import Roster
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.teammate import Teammate


class Builder(Protocol):
    """The port that makes agents: filled in `app`, which knows tools, models and settings."""

    async def teammate(self, spec: SpawnSpec, team: Team, life: Life) -> Agent:
        """An agent with the transcript of this life: a new one, or the one that is there, to go on with.

        Raises TeamwrightError when it cannot be made.
        """
        ...

    async def wire_model(self, spec: SpawnSpec) -> str:
        """The model that the agent will really use, as the roster shows it. Raises TeamwrightError."""
        ...

    def resolved(self, spec: SpawnSpec) -> SpawnSpec:
        """The spec with everything that its role says. Raises UsageError for a kind of agent that nobody knows."""
        ...


@dataclass(slots=True)
class Team:
    """One session's team. `directory` is empty until there is one; the session's own task list is there at once."""

    home: Home
    session: SessionId
    cwd: Path
    emit: Emit
    builder: Builder
    limits: SpawnLimits
    settings: TeamSettings = field(default_factory=TeamSettings)
    lead_model: str = ""
    lead_effort: str = ""
    lead_policy: Policy = field(default_factory=Policy)
    """What the lead's members may not exceed; whether it only coordinates is no matter of theirs."""
    lease: str = ""
    """The lease file that the lead's process holds, and the session's event log: both go into team.json."""
    log: str = ""
    name: str = ""
    directory: str = ""
    implicit: bool = False
    members: Members = field(default_factory=Members)
    lead_desk: Desk | None = None
    lead_unfollow: Callable[[], None] | None = None
    on_created: Callable[[], None] | None = None
    on_left: Callable[[str], Awaitable[None]] | None = None
    """Called when a member has ended: its background jobs end with it."""
    watch: Callable[[Path, Callable[[], None]], Callable[[], None]] | None = None
    """Calls back when a file changes: how strangers' mail is noticed. Returns how to stop."""
    hang: Callable[[str, Callable[[], None]], Callable[[], None]] | None = None
    """Hangs up a member's bell, which other processes of ours ring after they wrote. Returns how to take it down."""
    talk: dict[frozenset[str], int] = field(default_factory=dict[frozenset[str], int])
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    standing: Standing = field(default_factory=Standing)
    """What the events of the session add up to."""
    starting: list[str] = field(default_factory=list[str])
    """Names whose start is under way: they count as alive for limits and for deleting."""
    coming_back: set[str] = field(default_factory=set[str])
    """Names, in lower case, of members that are being resumed and not there yet: they can be written to."""
    closing: bool = False
    """Whether everybody is being ended: nobody starts any more."""
    planning: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a message about a plan is looked for and sent: after a kill two may want to send the same."""
    forming: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the team is made or removed."""
    on_plan: Callable[[Mapping[str, Any]], None] | None = None
    """Called with each plan that waits for an answer, again after a resume: it sees that there is one in time."""
    on_late: Callable[[str], None] | None = None
    """Tells the lead of a yes that came when its request was over."""
    on_unseen: Callable[[Sequence[Entry]], None] | None = None
    """Takes what the lead had not seen yet when its team was removed."""
    outside: Outside = field(default_factory=Outside)
    elsewhere: Elsewhere | None = None
    """Has members in processes of their own; None: everybody lives in this one."""
    departed: Callable[[str, str, str | None], Awaitable[None]] | None = None
    """In a member's own process: tells the lead's that it is over, which sees to all that follows from it."""
    far: Callable[[str], None] | None = None
    """In a member's own process: rings whoever lives in another one."""
    reached: Callable[[str], State | None] | None = None
    """In a member's own process: how a member that lives in another one stands; None: it is no more."""
    inboxes: Callable[[Path, Path, Path], Inbox] = inbox_for
    """Opens an inbox by its file, guard and archive."""
    check: Check | None = None
    """Runs the checks of tasks."""
    secrets: frozenset[str] = frozenset()
    """Values that are masked in messages."""
    agents: Agents | None = None
    """The sub-agents of everybody."""
    _tasks: TaskList | None = None
    _tasks_of: str = ""
    _roster: Roster | None = None
    _inboxes: dict[str, Inbox] = field(default_factory=dict[str, Inbox])
    _claim_timer: asyncio.TimerHandle | None = None
    """Wakes idle members when the next task becomes claimable."""

    # ── what is there ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def exists(self) -> bool:
        """Whether there is a team on disk."""
        return bool(self.directory)

    @property
    def names(self) -> tuple[str, ...]:
        """What may stand behind the `@` of a member's id in this team."""
        return tuple(name for name in (self.name, self.directory, self.session_list) if name)

    @property
    def session_list(self) -> str:
        """Directory of the session's own task list, and of the implicit team."""
        return f"session-{self.session[:8]}"

    @property
    def teams(self) -> Teams:
        """All teams of this home."""
        return Teams(self.home)

    @property
    def roster(self) -> Roster:
        """The team's roster. Raises TeamRefused when there is no team."""
        self.require()
        if self._roster is None:
            self._roster = Roster(self.home, self.directory)
        return self._roster

    @property
    def requests(self) -> RequestBox:
        """The team's requests."""
        self.require()
        return RequestBox(self.home.requests(self.directory))

    @property
    def tasks(self) -> TaskList:
        """The list that all members share: the team's, or the session's own without a team.

        A list that several sessions share stands for both; there the session tells its members from others'.
        """
        shared = self.outside.shared_list
        directory = shared or ("" if self.outside.listless else self.directory) or self.session_list
        if self._tasks is None or self._tasks_of != directory:
            path, realm = self.home.tasks(directory), self.session_list if shared else ""
            self._tasks = TaskList(path, self.home.guard, on_change=self._task_changed, realm=realm, check=self.check)
            self._tasks_of = directory
        return self._tasks

    def require(self) -> None:
        """Raises TeamRefused when there is no team."""
        if not self.directory:
            raise TeamRefused(
                "team-refused",
                "there is no team yet",
                do=["TeamCreate makes one; so does Agent with a name."],
                note="nothing was done",
            )

    def inbox(self, name: str) -> Inbox:
        """The inbox of a member."""
        if name not in self._inboxes:
            path = self.home.inbox(self.directory, name)
            archive = self.home.inbox_archive(self.directory, name)
            self._inboxes[name] = self.inboxes(path, self.home.guard(path), archive)
        return self._inboxes[name]

    @property
    def live(self) -> list[Mate]:
        """Members that are alive, in the order of joining."""
        return [m for m in self.members.values() if m.state not in GONE]

    @property
    def not_yet_alive(self) -> list[str]:
        """Names whose start has not made a member yet."""
        alive = {m.name for m in self.live}
        return [name for name in self.starting if name not in alive]

    def find(self, name: str) -> Mate | None:
        """The live member of that name, without regard to case."""
        found = self.members.get(name)
        if name == LEAD or (found is not None and found.state not in GONE):
            return found  # as nearly everybody writes it: nobody else is looked at
        found = self.members.nearest(name)
        return None if found is None or found.state in GONE else found

    def own(self, name: str) -> Teammate | None:
        """The live member of that name, if it runs in this process."""
        mate = self.find(name)
        return mate if isinstance(mate, Teammate) else None

    @property
    def own_live(self) -> list[Teammate]:
        """Those of them that run in this process."""
        return [mate for mate in self.live if isinstance(mate, Teammate)]

    def quiet(self) -> bool:
        """Whether nobody works and nobody is about to: every live member rests, its mail and the list looked at, no
        task is about to become claimable, and no sub-agent runs in the background."""
        rests = all(m.resting and not m.door.rung and not m.plan.of_person for m in self.live)
        behind = (self.agents is not None and self.agents.pending()) or (self.live and self._claim_timer is not None)
        return rests and not behind and not self.parting and not self.starting

    @property
    def parting(self) -> bool:
        """Whether somebody is gone of whom the lead has not been told yet."""
        return any(m.state in GONE and not m.parted for m in self.members.values())

    def busy(self) -> list[Mate]:
        """Members that are at work or on their way to it."""
        return [m for m in self.live if m.state in BUSY or not m.resting or m.door.rung]

    # ── being one ─────────────────────────────────────────────────────────────────────────────────────────────

    def adopt(self, name: str, directory: str, *, implicit: bool, change: str = "created") -> None:
        """The team in that directory is this session's from now on; `forming` makes or finds it."""
        self.name, self.directory, self.implicit = name, directory, implicit
        self._forget_files()
        self.outside.moved()
        if self.on_created is not None:
            self.on_created()
        self.emit(TeamChanged(member=LEAD, team=name, directory=directory, change=change))
        detail, effort = f'team "{name}" {change}', self.lead_effort
        self.emit(MemberChanged(member=LEAD, state="working", detail=detail, model=self.lead_model, effort=effort))

    def forget(self) -> None:
        """The team is no more: the session goes on without one."""
        if self.directory:
            self.emit(TeamChanged(member=LEAD, team=self.name, directory=self.directory, change="deleted"))
        if self.lead_unfollow is not None:
            self.lead_unfollow()
            self.lead_unfollow = None
        self.name = self.directory = ""
        self.implicit = False
        self.members.clear()
        self.talk.clear()
        self._forget_files()
        self.lead_desk = None
        self.outside.moved()

    def _forget_files(self) -> None:
        """Another directory is the team's from now on, or none."""
        self._tasks = self._roster = None
        self._inboxes.clear()

    # ── what others must notice ───────────────────────────────────────────────────────────────────────────────

    def ring(self, name: str) -> None:
        """Wake the named member, or the lead: something may be new for it."""
        if name == LEAD:
            if self.lead_desk is not None:
                self.lead_desk.ring()
            elif self.far is not None:
                self.far(name)
        elif (member := self.find(name)) is not None:
            member.door.ring()
        elif self.far is not None:
            self.far(name)
        self.changed.set()

    def late(self, owner: str, text: str) -> None:
        """A yes came when the owner's request was over: it is told, and nothing runs because of it."""
        if owner == LEAD:
            if self.on_late is not None:
                self.on_late(text)
        elif (member := self.find(owner)) is not None:
            member.late(text)

    def follow(self, name: str, desk: Desk) -> Callable[[], None]:
        """Notice what others write into this inbox: processes of ours ring, the watcher tells of strangers.

        Returns how to stop.
        """
        ways: list[Callable[[], None]] = []

        def look() -> None:
            desk.ring()
            self.changed.set()

        if self.watch is not None:
            ways.append(self.watch(self.home.inbox(self.directory, name), look))
        if self.hang is not None:
            ways.append(self.hang(name, look))

        def stop() -> None:
            while ways:
                ways.pop()()

        return stop

    def ring_idle(self) -> None:
        """Wake everybody who is idle: a task may have become free.

        How a member of another process stands is heard late: it is rung in any state, and says when it has looked.
        """
        for member in self.live:
            if member.state is State.IDLE or isinstance(member, Away):
                member.door.ring()
        self.changed.set()

    def ring_idle_at(self, moment: int) -> None:
        """Wake everybody who is idle at that moment (ms since 1970)."""
        if self._claim_timer is not None:
            self._claim_timer.cancel()
        delay = max(0, moment - now_ms()) / 1000
        self._claim_timer = asyncio.get_running_loop().call_later(delay, self._claim_time)

    def _claim_time(self) -> None:
        self._claim_timer = None
        self.ring_idle()

    def tell_of_task(self, task: Task, change: str, by: str) -> None:
        """A task was changed, by one of ours or by somebody outside."""
        info = task_info(task, deleted=change == "deleted")
        file = mark_of(self.home, f"{self.tasks.directory}/{task.id}.json")
        self.emit(TaskChanged(member=by, task=info, change=change, file=file))

    def _task_changed(self, task: Task, change: str, by: str) -> None:
        if self.talk:
            self.talk.clear()
            self.ring_idle()  # mail that was held may wake again
        self.tell_of_task(task, change, by)
        member = self.find(by)
        if member is not None:
            member.last_active_ms = now_ms()
            if change == "completed":
                member.notes.completed = task.id
        if change != "claimed":
            self.ring_idle()


def task_info(task: Task, *, deleted: bool = False) -> TaskInfo:
    """A task as events tell of it."""
    status = "deleted" if deleted else str(task.status)
    return TaskInfo(
        id=task.id,
        subject=task.subject,
        status=status,
        owner=task.owner,
        blocked_by=task.blocked_by,
        budget=task.budget,
    )


def blocking(team: Team, member: str) -> Callable[[str | None], None]:
    """A member that waits for an answer is blocked, and everybody can see on what."""

    def waiting(on: str | None) -> None:
        mate = team.own(member)
        if mate is None:
            return
        if on is None:
            mate.got_answer()
        else:
            mate.waits_for(on)

    return waiting
