"""The membership of one member in a team that another program leads: its incarnation, and its orderly end.

A lead that starts the name again replaces its roster entry, which begins a new incarnation. Otherwise the unfinished
one of an earlier process continues. Follows the member's activity, so that the roster shows it, and checks that the
lead runs. Depends on records and on the parts of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from teamwright.external.lead import LeadPresence
from teamwright.external.roster import (
    RESUMABLE_ENDS,
    DepartingMember,
    Departure,
    MembershipFile,
    MembershipRecord,
    OwnRosterEntry,
    leave_team,
    read_record,
)
from teamwright.member_process.member_lifetime import MemberEnd, MemberLifetime
from teamwright.member_process.team_search import ExternalTeam
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import MemberChanged, MessageSent, Notice, TeamEvent
from teamwright.protocol.ids import LEAD, agent_id, message_id
from teamwright.protocol.mail import IdleNotification
from teamwright.protocol.member_flags import MemberFlags
from teamwright.protocol.member_states import MemberState
from teamwright.protocol.roster import RosterMember
from teamwright.protocol.timestamps import now_ms
from teamwright.session.agents.agent_factory import AgentFactory
from teamwright.storage.event_log import EventLog
from teamwright.tasks.task_store import TaskFollower
from teamwright.team_records.incarnation import Incarnation, process_directory
from teamwright.team_records.life_cycle import BUSY_STATES
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.team import SessionTeam


class ExternalMembership(MemberLifetime):
    """One member that lives in this process. `file` has its record, `pane` is the pane in which its lead started it."""

    name: str
    team: SessionTeam
    agent_factory: AgentFactory
    log: EventLog
    file: MembershipFile
    place: OwnRosterEntry
    presence: LeadPresence
    pane: str = ""
    warnings: tuple[str, ...] = ()
    _deserted: bool = False
    _tasks_changed: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])

    @property
    def record(self) -> MembershipRecord:
        """The present record of the membership."""
        return self.file.record

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────

    def record_event(self, _number: int, event: TeamEvent) -> None:
        """Record an event: the lead reads on the roster whether the member is in a turn."""
        if isinstance(event, MemberChanged) and event.member == self.name:
            active = event.state in BUSY_STATES and event.state != MemberState.PENDING
            self.place.set_active(active)
            if active:
                self.presence.note_work()
        elif isinstance(event, MessageSent) and event.wire == IdleNotification.TYPE and event.to == LEAD:
            self.presence.note_sent(event.message_id)

    def check_mail(self) -> None:
        """Read the inbox after a change: answers to calls are taken at once, also during a turn."""
        if self.team.find_in_process(self.name) is None:
            return  # other requests of the lead wait for the incarnation
        self.team.wake(self.name)
        self._begin(self.team.mailbox(self.name).unread())

    def check_tasks(self, known: TaskFollower, names: Collection[str] | None) -> None:
        """Read changed files of the task list: a task may have become free."""
        self._begin(known.check_files(names), self._ring_idle)

    def _ring_idle(self) -> None:
        self._tasks_changed.set()
        if self.teammate is not None and self.teammate.state is MemberState.IDLE:
            self.teammate.incoming.wake()

    def _begin(self, looking: Any, then: Callable[[], None] = lambda: None) -> None:
        task = asyncio.ensure_future(looking)
        self._looking.add(task)

        def looked(done: asyncio.Task[Any]) -> None:
            self._looking.discard(done)
            problem = None if done.cancelled() else done.exception()
            if problem is not None:
                self.say(problem.what if isinstance(problem, TeamwrightError) else repr(problem), "warning")
            then()

        task.add_done_callback(looked)

    def say(self, text: str, level: str) -> None:
        """Emit a notice for people."""
        self.team.emit(Notice(member=self.name, text=text, level=level))

    # ── ending ────────────────────────────────────────────────────────────────────────────────────────────────

    def lead_is_gone(self, why: str) -> None:
        """End the member because its lead is gone."""
        self._deserted = True
        self.end("suspended", why)

    async def finish(self) -> MemberEnd:
        """End the member's work, notify its lead, and remove its roster entry."""
        self.end("suspended", "its process was ended")
        ended = await self.wait_until_ended()
        if self.teammate is not None and self.teammate.run_task is not None:
            await asyncio.wait({self.teammate.run_task}, timeout=self.team.settings.cancel_grace_s)
        await self.agent_factory.toolset.jobs.close()
        self.presence.close()
        departure = self.record.departure or Departure(ended.how, ended.cause, ended.agreed_to or "", message_id())
        stays = departure.how in RESUMABLE_ENDS
        if not stays:
            self.file.change(departure=departure)
        await leave_team(self.team, self._leaver(), departure, self.say)
        if not stays:
            self.file.change(is_over=True)
        return ended

    def _leaver(self) -> DepartingMember:
        record = self.record
        parts = (self.name, record.incarnation.incarnation, self.place, self.pane, record.found, self._tasks_changed)
        return DepartingMember(*parts, lead_gone=self._deserted)

    async def close(self) -> None:
        """Stop watching."""
        for task in list(self._looking):
            task.cancel()
        if self._looking:
            await asyncio.wait(self._looking)


GENERAL = "general-purpose"


class MemberIncarnation(Struct, frozen=True):
    """The transcript of this incarnation, and the record of an earlier process; None for a new incarnation."""

    transcript: Path
    record: MembershipRecord | None

    @property
    def room(self) -> Path:
        """The directory of its files."""
        return process_directory(self.transcript)


def find_incarnation(found: ExternalTeam, cwd: Path) -> MemberIncarnation:
    """Return the last incarnation of the name in that session, unless it ended; else a new one. Raises StorageError."""
    number, last = 1, None
    while True:
        stem = found.name if number == 1 else f"{found.name}-{number}"
        path = found.home.agent_transcript(cwd, found.session, stem)
        record = read_record(process_directory(path))
        if record is None and not path.exists():
            break
        if record is not None and record.entry.name == found.name:
            last = MemberIncarnation(path, record)
        number += 1
    if last is not None and last.record is not None and _is_resumable(last.record, found):
        return last
    return MemberIncarnation(path, None)


def _is_resumable(record: MembershipRecord, found: ExternalTeam) -> bool:
    if record.is_over or not record.is_for_team(found.directory, found.config.created_at):
        return False
    entry = found.config.find(found.name)
    return entry is None or entry.joined_at == record.entry.joined_at


def own_entry(found: ExternalTeam, flags: MemberFlags, model: str, cwd: Path) -> RosterMember:
    """Return the roster entry of a member that its lead did not add. It has no pane, which only the lead knows."""
    return RosterMember(
        agent_id=agent_id(found.name, found.config.name),
        name=found.name,
        agent_type=flags.agent_type or GENERAL,
        model=flags.model or model,
        prompt="",
        color=flags.agent_color or "blue",
        plan_mode_required=found.plans,
        joined_at=now_ms(),
        pane_id="",
        cwd=str(cwd),
        backend_type="detached",
    )


def new_incarnation(
    found: ExternalTeam, flags: MemberFlags, agent_factory: AgentFactory, transcript: Path
) -> tuple[SpawnSpec, Incarnation, list[str]]:
    """Return the spec and incarnation of a new member, and lines about what differs from the request.

    An unknown agent type becomes the general one, as in the other product. Raises UsageError.
    """
    differences: list[str] = []
    spec = SpawnSpec(prompt="", name=found.name, agent_type=flags.agent_type or GENERAL, plan_mode_required=found.plans)
    try:
        spec = agent_factory.resolve(spec)
    except UsageError as problem:
        if spec.agent_type == GENERAL:
            raise
        differences.append(f"{problem.what}: {found.name} is of the kind {GENERAL}")
        spec = agent_factory.resolve(
            SpawnSpec(prompt="", name=found.name, agent_type=GENERAL, plan_mode_required=found.plans)
        )
    incarnation = Incarnation(
        now_ms(),
        str(transcript),
        "",
        model=spec.model,
        max_turns=spec.max_turns,
        budget=spec.budget,
        bounds=spec.bounds,
        mode=spec.mode or "",
        effort=spec.effort,
    )
    return spec, incarnation, differences
