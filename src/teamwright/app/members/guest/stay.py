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

from teamwright.app.making.maker import Maker
from teamwright.app.members.ending import Ended, Ending
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MemberChanged, MessageSent, Notice, TeamEvent
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import IdleNotification
from teamwright.protocol.values import dataclass
from teamwright.storage.log import EventLog
from teamwright.tasks.outside import Outside
from teamwright.teams.guest.leaving import COMES_BACK, Leaver, leave
from teamwright.teams.guest.place import RosterPlace
from teamwright.teams.guest.presence import Presence
from teamwright.teams.guest.record import Farewell, GuestRecord
from teamwright.teams.lifecycle import BUSY, State
from teamwright.teams.team import Team


@dataclass(slots=True)
class Guest(Ending):
    """One member that lives in this process. `room` is its directory, `pane` where its lead surely started it."""

    name: str
    team: Team
    maker: Maker
    log: EventLog
    room: Path
    record: GuestRecord
    place: RosterPlace
    presence: Presence
    pane: str = ""
    warnings: tuple[str, ...] = ()
    _deserted: bool = False
    _tasks_changed: asyncio.Event = field(default_factory=asyncio.Event)
    _looking: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])

    # ── what happens ──────────────────────────────────────────────────────────────────────────────────────────

    def own(self, _number: int, event: TeamEvent) -> None:
        """Something happened here: its lead reads on the roster whether it is in a turn."""
        if isinstance(event, MemberChanged) and event.member == self.name:
            active = event.state in BUSY and event.state != State.PENDING
            self.place.at_work(active)
            if active:
                self.presence.at_work()
        elif isinstance(event, MessageSent) and event.wire == IdleNotification.TYPE and event.to == LEAD:
            self.presence.told(event.message_id)

    def look_at_mail(self) -> None:
        """Its inbox changed: what answers a call is taken at once, also in the middle of a turn."""
        if self.team.own(self.name) is None:
            return  # what the lead asks is for a life: it is looked at when there is one
        self.team.ring(self.name)
        self._begin(self.team.inbox(self.name).unread())

    def look_at_tasks(self, known: Outside, names: Iterable[str] | None) -> None:
        """Files of the task list changed: one may have become free."""
        self._begin(known.look(names), self._ring_idle)

    def _ring_idle(self) -> None:
        self._tasks_changed.set()
        if self.mate is not None and self.mate.state is State.IDLE:
            self.mate.desk.ring()

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

    def deserted(self, why: str) -> None:
        """There is no lead any more."""
        self._deserted = True
        self.end("suspended", why)

    def keep(self, **changes: Any) -> None:
        """The next process of the member goes by this. A disk that refuses is told of."""
        self.record = replace(self.record, **changes)
        try:
            self.record.write(self.room)
        except TeamwrightError as problem:
            self.say(f"a new start may not go on from here: {problem.what}", "warning")

    async def see_out(self) -> Ended:
        """Whatever it still does ends, its lead hears of it, and its place is given up."""
        self.end("suspended", "its process was ended")
        ended = await self.until_over()
        if self.mate is not None and self.mate.task is not None:
            await asyncio.wait({self.mate.task}, timeout=self.team.settings.cancel_grace_s)
        await self.maker.kit.jobs.close()
        self.presence.close()
        farewell = self.record.farewell or Farewell(ended.how, ended.cause, ended.agreed_to or "", message_id())
        stays = farewell.how in COMES_BACK
        if not stays:
            self.keep(farewell=farewell)
        await leave(self.team, self._leaver(), farewell, self.say)
        if not stays:
            self.keep(over=True)
        return ended

    def _leaver(self) -> Leaver:
        record = self.record
        parts = (self.name, record.life.incarnation, self.place, self.pane, record.found, self._tasks_changed)
        return Leaver(*parts, deserted=self._deserted)

    async def close(self) -> None:
        """Look no more."""
        for task in list(self._looking):
            task.cancel()
        if self._looking:
            await asyncio.wait(self._looking)
