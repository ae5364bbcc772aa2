"""The team of one session: only the lead at first, then the spawned members.

It contains the live objects; the files are the truth of everything else. Sending is in `outgoing_mail`, starting in
`spawn`, ending in `shutdown`: their functions receive this object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from msgspec import Struct, field

from teamwright.agent.spawn_limits import SpawnLimits
from teamwright.permissions.permission_decision import Policy
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import Emit, MemberChanged, TaskChanged, TeamChanged
from teamwright.protocol.ids import LEAD, MemberName, SessionId, known_name, now_ms, session_list_name
from teamwright.protocol.members import MemberState
from teamwright.protocol.setting_types import Seconds, Setting, Switch
from teamwright.protocol.task import Reviewer, Task
from teamwright.requests.request_store import RequestStore
from teamwright.storage.paths import Home
from teamwright.tasks.task_list import TaskList
from teamwright.tasks.task_rules import task_info
from teamwright.team_records.life_cycle import BUSY_STATES, ENDED_STATES
from teamwright.team_records.team_status import TeamStatus
from teamwright.teams.external_members import ExternalParticipants, restored_roster_notice
from teamwright.teams.team_ports import TeamLead, TeamPorts
from teamwright.teams.teammate import Teammate, Teammates

if TYPE_CHECKING:
    from teamwright.agent.agent import Agent
    from teamwright.mail.mailbox import FollowedMailbox
    from teamwright.subagents.registry import Subagents
    from teamwright.tasks.completion_conditions import CheckRunner, MemberWorktrees
    from teamwright.team_records.atomic_record import AtomicRecord
    from teamwright.team_records.roster import Roster
    from teamwright.team_records.spawn_spec import PreparedAgent, SpawnSpec
    from teamwright.team_records.team_state import Incarnation, TeamFile
    from teamwright.team_records.team_stores import TeamCatalogue, TeamStores
    from teamwright.teams.backend_teammate import TeammateLauncher
    from teamwright.teams.incoming_mail import IncomingMail
    from teamwright.teams.local_teammate import LocalTeammate


class TeamSettings(Struct, frozen=True):
    """The settings of a team."""

    shutdown_objection_s: Annotated[
        Seconds,
        Setting("shutdown_objection_s", "How long a member may take to answer a shutdown request."),
    ] = 60.0
    cancel_grace_s: Annotated[Seconds, Setting("cancel_grace_s", "How long a cancelled turn may take to end.")] = 5.0
    shutdown_timeout_s: Annotated[
        Seconds,
        Setting("shutdown_timeout_s", "How long the end of a session waits for running turns of members."),
    ] = 10.0
    dedupe_names: Annotated[Switch, Setting("dedupe_names", "Whether a name that is in use becomes name-2.")] = False

    review: Reviewer | None = None
    """The least review of every new task."""

    ping_pong: int = 20
    """Messages between two members without a task change before they no longer wake each other."""


class AgentBuilder(Protocol):
    """The port that builds agents, implemented in `session`, from tools, models and settings."""

    async def prepare(self, spec: SpawnSpec) -> PreparedAgent:
        """Complete the spec by its role and agent type, and check that the agent can start.

        Raises UsageError for an unknown agent type, and TeamwrightError for a model that cannot be used.
        """
        ...

    async def build_teammate(self, spec: SpawnSpec, team: SessionTeam, incarnation: Incarnation) -> Agent:
        """Return an agent, new or resumed, with the transcript of this incarnation. Raises TeamwrightError."""
        ...


class SessionTeam(Struct):
    """One session's team. `directory` is empty until there is one; the session's own task list exists at once."""

    home: Home
    stores: TeamStores
    session: SessionId
    cwd: Path
    emit: Emit
    builder: AgentBuilder
    limits: SpawnLimits
    settings: TeamSettings = field(default_factory=TeamSettings)
    lead_model: str = ""
    lead_effort: str = ""
    lead_policy: Policy = field(default_factory=Policy)
    """The policy that no member may exceed; the lead's restriction to coordination does not concern members."""
    lease: str = ""
    """The lease file of the lead's process, and the session's event log: both go into team.json."""
    log: str = ""
    name: str = ""
    directory: str = ""
    implicit: bool = False
    members: Teammates = field(default_factory=Teammates)
    lead: TeamLead | None = None
    """The lead of this process; None in a member's own process."""
    lead_mail: IncomingMail | None = None
    held_senders: frozenset[str] = frozenset()
    """In a member's own process: the senders whose mail the lead's process holds."""
    message_counts: dict[frozenset[str], int] = field(default_factory=dict[frozenset[str], int])
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    status: TeamStatus = field(default_factory=TeamStatus)
    """The state folded from the session's events."""
    starting: list[str] = field(default_factory=list[str])
    """Names of members that are starting: they count as alive for limits and for deleting."""
    resuming: set[str] = field(default_factory=set[str])
    """Names, in lower case, of members that are being resumed and not ready yet: they can receive messages."""
    closing: bool = False
    """True while all members are being ended: no new one starts."""
    plan_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A lock for finding and sending a message about a plan: after a kill two tasks may want to send the same."""
    forming_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A lock for creating and removing the team."""
    external: ExternalParticipants = field(default_factory=ExternalParticipants)
    ports: TeamPorts = field(default_factory=TeamPorts)
    """The functions of the session that owns the team."""
    check: CheckRunner | None = None
    """Runs the checks of tasks."""
    work: MemberWorktrees | None = None
    """The work of members in worktrees."""
    output: Path | None = None
    """The session's directory for long outputs, which its agents may read."""
    secrets: frozenset[str] = frozenset()
    """Values that are masked in messages."""
    subagents: Subagents | None = None
    """The sub-agents of all members."""
    _tasks: TaskList | None = None
    _tasks_name: str = ""
    _roster: Roster | None = None
    _mailboxes: dict[str, FollowedMailbox] = field(default_factory=dict[str, "FollowedMailbox"])
    _claim_timer: asyncio.TimerHandle | None = None
    """Wakes idle members when the next task becomes claimable."""

    # ── properties ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def exists(self) -> bool:
        """True when there is a team on disk."""
        return bool(self.directory)

    def recipient(self, text: str, note: str = "nothing was done") -> MemberName:
        """Return the text of a `to` field as a member's name. Raises UnknownMember with the members and the nearest."""
        members = [LEAD, *(one.name for one in self.running_members)]
        where = f"team {self.name}" if self.exists else "the team"
        return known_name(text, self.names, members, where, note)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that may follow the `@` of a member's id in this team."""
        return tuple(name for name in (self.name, self.directory, self.session_list_name) if name)

    @property
    def session_list_name(self) -> str:
        """The directory of the session's own task list, and of the implicit team."""
        return session_list_name(self.session)

    @property
    def teams(self) -> TeamCatalogue:
        """All teams of the stores."""
        return self.stores.teams

    @property
    def roster(self) -> Roster:
        """The team's roster. Raises TeamRefused when there is no team."""
        from teamwright.team_records.roster import Roster

        self.require_team()
        if self._roster is None:
            on_restored = self.note_restored_roster if self.lead is not None else None
            self._roster = Roster(self.stores.roster(self.directory, on_restored))
        return self._roster

    @property
    def state(self) -> AtomicRecord[TeamFile]:
        """The state of the team that our processes share: incarnations, ends, the lead."""
        return self.stores.state(self.directory)

    @property
    def requests(self) -> RequestStore:
        self.require_team()
        return RequestStore.of_team(self.home, self.directory)

    @property
    def tasks(self) -> TaskList:
        """The list of all members: one that sessions share, else the team's, else the session's own."""
        name = self._task_list_name
        if self._tasks is None or self._tasks_name != name:
            self._tasks_name = name
            self._tasks = TaskList(
                self.stores.tasks(name),
                on_change=self._on_task_changed,
                realm=self.session_list_name if self.external.shared_list else "",
                check=self.check,
                work=self.work,
                review=self.settings.review,
            )
        return self._tasks

    @property
    def _task_list_name(self) -> str:
        shared = self.external.shared_list
        return shared or ("" if self.external.task_list_removed else self.directory) or self.session_list_name

    @property
    def launcher(self) -> TeammateLauncher | None:
        """The launcher of members in separate processes; None: all members run in this one."""
        return self.ports.launcher_for(self) if self.ports.launcher_for is not None else None

    def require_team(self) -> None:
        """Raise TeamRefused when there is no team."""
        if not self.directory:
            raise TeamRefused(
                "team-refused",
                "there is no team yet",
                do=["TeamCreate makes one; so does Agent with a name."],
                note="nothing was done",
            )

    def mailbox(self, name: str) -> FollowedMailbox:
        """Return the mailbox of a member."""
        if name not in self._mailboxes:
            self._mailboxes[name] = self.stores.mailbox(self.directory, name)
        return self._mailboxes[name]

    @property
    def running_members(self) -> list[Teammate]:
        """Members that are alive, in the order of joining."""
        return [m for m in self.members.values() if m.state not in ENDED_STATES]

    @property
    def has_members(self) -> bool:
        """True when there are members, also ended ones, or a team that may get some."""
        return bool(self.members or self.starting or self.exists)

    def hold_mail(self, senders: frozenset[str]) -> None:
        """Hold the mail of these senders alone: it does not wake the member of this process."""
        self.held_senders = senders

    def refuse_members(self) -> None:
        """Let no member start from now on: the session is ending."""
        self.closing = True

    @property
    def starting_names(self) -> list[str]:
        """Names of starting members that have no object yet."""
        alive = {m.name for m in self.running_members}
        return [name for name in self.starting if name not in alive]

    def find(self, name: str) -> Teammate | None:
        """Return the live member of that name, without regard to case."""
        found = self.members.get(name)
        if name == LEAD or (found is not None and found.state not in ENDED_STATES):
            return found  # the usual spelling: the other names are not searched
        found = self.members.find_any_case(name)
        return None if found is None or found.state in ENDED_STATES else found

    def find_in_process(self, name: str) -> LocalTeammate | None:
        """Return the live member of that name, if it runs in this process."""
        from teamwright.teams.local_teammate import LocalTeammate

        teammate = self.find(name)
        return teammate if isinstance(teammate, LocalTeammate) else None

    @property
    def in_process_members(self) -> list[LocalTeammate]:
        """Those of them that run in this process."""
        return [teammate for one in self.running_members if (teammate := self.find_in_process(one.name)) is not None]

    def is_quiet(self) -> bool:
        """Return True when no agent works or is about to: every live member rests with mail and tasks handled, no task
        is about to become claimable, no sub-agent runs in the background, and no finished work awaits its integration.
        """
        rests = all(
            m.is_resting and not m.wake_target.wake_pending and not m.pending_plan.needs_user
            for m in self.running_members
        )
        behind = (self.subagents is not None and self.subagents.has_background_runs()) or (
            self.running_members and self._claim_timer is not None
        )
        busy = self.has_pending_end or self.starting or self.ports.is_integrating()
        return rests and not behind and not busy

    @property
    def has_pending_end(self) -> bool:
        """True while the lead has not been notified of a member's end."""
        return any(m.state in ENDED_STATES and not m.end_processed for m in self.members.values())

    def busy_members(self) -> list[Teammate]:
        """Return the members that are working or about to."""
        return [
            m for m in self.running_members if m.state in BUSY_STATES or not m.is_resting or m.wake_target.wake_pending
        ]

    def set_lead_model(self, model: str, effort: str) -> None:
        """Set the model and the effort of the lead, as shown to people and stored in team.json."""
        self.lead_model = model
        self.lead_effort = effort

    # ── creation and removal ──────────────────────────────────────────────────────────────────────────────────────────

    def adopt(self, name: str, directory: str, *, implicit: bool, change: str = "created") -> None:
        """Adopt the team in that directory as this session's; `team_creation` creates or finds it."""
        self.name = name
        self.directory = directory
        self.implicit = implicit
        self._forget_files()
        self.external.reset()
        if self.lead is not None:
            self.lead.open_mailbox()
        self.emit(TeamChanged(member=LEAD, team=name, directory=directory, change=change))
        self.emit(
            MemberChanged(
                member=LEAD,
                state=MemberState.WORKING,
                detail=f'team "{name}" {change}',
                model=self.lead_model,
                effort=self.lead_effort,
            )
        )

    def forget(self) -> None:
        """Forget the removed team: the session continues without one."""
        if self.directory:
            self.emit(TeamChanged(member=LEAD, team=self.name, directory=self.directory, change="deleted"))
        if self.lead is not None:
            self.lead.close_mailbox()
        self.name = self.directory = ""
        self.implicit = False
        self.members.clear()
        self.message_counts.clear()
        self._forget_files()
        self.lead_mail = None
        self.external.reset()

    def _forget_files(self) -> None:
        """Forget the cached files, because the team's directory changes."""
        self._tasks = self._roster = None
        self._mailboxes.clear()

    # ── notifications ─────────────────────────────────────────────────────────────────────────────────────────────────

    def wake(self, name: str) -> None:
        """Wake the named member, or the lead: something may be new for it."""
        if name == LEAD and self.lead_mail is not None:
            self.lead_mail.wake()
        elif (member := self.find(name)) is not None:
            member.wake_target.wake()
        elif self.ports.wake_other_process is not None:
            self.ports.wake_other_process(name)
        self.changed.set()

    def deliver_late_answer(self, owner: str, text: str) -> None:
        """Deliver an approval that came after the owner's request had ended: a notice only, nothing runs."""
        if owner == LEAD:
            if self.lead is not None:
                self.lead.add_late_answer(text)
        elif (member := self.find(owner)) is not None:
            member.deliver_late_answer(text)

    def note_restored_roster(self, path: str, copy: str, source: str) -> None:
        """Emit a notice that the roster at this path was restored; `copy` has the damaged bytes."""
        self.emit(restored_roster_notice(path, copy, source))

    def watch_inbox(self, name: str, incoming: IncomingMail) -> Callable[[], None]:
        """Watch this inbox for other writers: our processes ring the doorbell, the watcher reports other programs.

        Returns a function that stops this.
        """

        def look() -> None:
            incoming.wake()
            self.changed.set()

        return self.ports.watch_inbox(name, look)

    def wake_idle(self) -> None:
        """Wake all idle members: a task may have become free.

        The state of a member in another process arrives late: it is woken in any state, and reports when it has looked.
        """
        from teamwright.teams.backend_teammate import ProcessTeammateBase

        for member in self.running_members:
            if member.state is MemberState.IDLE or isinstance(member, ProcessTeammateBase):
                member.wake_target.wake()
        self.changed.set()

    def wake_idle_at(self, moment: int) -> None:
        """Wake all idle members at that moment (ms since 1970), and no longer at an earlier named one; 0: at none."""
        if self._claim_timer is not None:
            self._claim_timer.cancel()
            self._claim_timer = None
        if not moment:
            self.changed.set()
            return
        delay = max(0, moment - now_ms()) / 1000
        self._claim_timer = asyncio.get_running_loop().call_later(delay, self._on_claim_time)

    def _on_claim_time(self) -> None:
        self._claim_timer = None
        self.wake_idle()

    def emit_task(self, task: Task, change: str, by: str) -> None:
        """Emit an event for a task that one of our members or another program changed."""
        info = task_info(task, deleted=change == "deleted")
        file = self.tasks.store.mark(task.id)
        self.emit(TaskChanged(member=by, task=info, change=change, file=file))

    def _on_task_changed(self, task: Task, change: str, by: str) -> None:
        if self.message_counts:
            self.message_counts.clear()
            self.wake_idle()  # held mail may wake its reader again
        self.emit_task(task, change, by)
        member = self.find(by)
        if member is not None:
            member.last_active_ms = now_ms()
            if change == "completed":
                member.turn_notes.completed = task.id
        if change != "claimed":
            self.wake_idle()
