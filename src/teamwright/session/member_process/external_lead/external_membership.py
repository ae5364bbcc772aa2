"""One member's stay in a team that another program leads: how it begins to end, and how it is seen out.

Follows what the member does, so that its place on the roster says it and its lead is known to be there. Knows the parts
of the process; does not know how they were made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MemberChanged, MessageSent, Notice, TeamEvent
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import IdleNotification
from teamwright.protocol.values import dataclass
from teamwright.session.factory.agent_factory import AgentFactory
from teamwright.session.member_process.member_end import MemberEnd, MemberLifetime
from teamwright.storage.event_log import EventLog
from teamwright.tasks.external_changes import ExternalChanges
from teamwright.teams.external.external_lead import LeadPresence
from teamwright.teams.external.membership import (
    RESUMABLE_ENDS,
    DepartingMember,
    Departure,
    MembershipRecord,
    OwnRosterEntry,
    leave_team,
)
from teamwright.teams.lifecycle import BUSY_STATES, MemberState
from teamwright.teams.team import SessionTeam


@dataclass(slots=True)
class ExternalMembership(MemberLifetime):
    """One member that lives in this process. `room` is its directory, `pane` where its lead surely started it."""

    name: str
    team: SessionTeam
    maker: AgentFactory
    log: EventLog
    room: Path
    record: MembershipRecord
    place: OwnRosterEntry
    presence: LeadPresence
    pane: str = ""
    warnings: tuple[str, ...] = ()
    _deserted: bool = False
    _tasks_changed: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────

    def record_event(self, _number: int, event: TeamEvent) -> None:
        """Something happened here: its lead reads on the roster whether it is in a turn."""
        if isinstance(event, MemberChanged) and event.member == self.name:
            active = event.state in BUSY_STATES and event.state != MemberState.PENDING
            self.place.set_active(active)
            if active:
                self.presence.note_work()
        elif isinstance(event, MessageSent) and event.wire == IdleNotification.TYPE and event.to == LEAD:
            self.presence.note_sent(event.message_id)

    def check_mail(self) -> None:
        """Its inbox changed: what answers a call is taken at once, also in the middle of a turn."""
        if self.team.find_in_process(self.name) is None:
            return  # what the lead asks is for a life: it is looked at when there is one
        self.team.wake(self.name)
        self._begin(self.team.inbox(self.name).unread())

    def check_tasks(self, known: ExternalChanges, names: Iterable[str] | None) -> None:
        """Files of the task list changed: one may have become free."""
        self._begin(known.check_files(names), self._ring_idle)

    def _ring_idle(self) -> None:
        self._tasks_changed.set()
        if self.mate is not None and self.mate.state is MemberState.IDLE:
            self.mate.incoming.wake()

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
        """Tell people of something."""
        self.team.emit(Notice(member=self.name, text=text, level=level))

    # ── ending ────────────────────────────────────────────────────────────────────────────────────────────────

    def lead_is_gone(self, why: str) -> None:
        """There is no lead any more."""
        self._deserted = True
        self.end("suspended", why)

    def save_record(self, **changes: Any) -> None:
        """The next process of the member goes by this. A disk that refuses is told of."""
        self.record = replace(self.record, **changes)
        try:
            self.record.write(self.room)
        except TeamwrightError as problem:
            self.say(f"a new start may not go on from here: {problem.what}", "warning")

    async def finish(self) -> MemberEnd:
        """Whatever it still does ends, its lead hears of it, and its place is given up."""
        self.end("suspended", "its process was ended")
        ended = await self.wait_until_ended()
        if self.mate is not None and self.mate.run_task is not None:
            await asyncio.wait({self.mate.run_task}, timeout=self.team.settings.cancel_grace_s)
        await self.maker.kit.jobs.close()
        self.presence.close()
        departure = self.record.departure or Departure(ended.how, ended.cause, ended.agreed_to or "", message_id())
        stays = departure.how in RESUMABLE_ENDS
        if not stays:
            self.save_record(departure=departure)
        await leave_team(self.team, self._leaver(), departure, self.say)
        if not stays:
            self.save_record(is_over=True)
        return ended

    def _leaver(self) -> DepartingMember:
        record = self.record
        parts = (self.name, record.life.incarnation, self.place, self.pane, record.found, self._tasks_changed)
        return DepartingMember(*parts, lead_gone=self._deserted)

    async def close(self) -> None:
        """Look no more."""
        for task in list(self._looking):
            task.cancel()
        if self._looking:
            await asyncio.wait(self._looking)
