"""The access of a member of this process to its team: tasks, roster, notices and its end.

Depends on the team and its parts.
"""

from __future__ import annotations

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import IdleNotification
from teamwright.protocol.task import Task, TaskStatus
from teamwright.team_records.roster import KnownRoster
from teamwright.teams.outgoing_mail import send_protocol
from teamwright.teams.shutdown import process_end
from teamwright.teams.shutdown_requests import is_stop_request_open
from teamwright.teams.team import SessionTeam


class LocalTeamAccess:
    """The team operations of a teammate in this process."""

    def __init__(self, team: SessionTeam) -> None:
        self._team = team

    async def claim_next_task(self, name: str, tools: frozenset[str]) -> Task | None:
        """Claim the lowest free task for this member; it is woken when a draft task becomes free."""
        tasks = self._team.tasks
        settle_ms = self._team.external.settle_ms
        task = await tasks.claim_next(name, tools, settle_ms)
        if task is None:
            self._team.wake_idle_at(tasks.next_claim_at)
        return task

    async def roster_note(self, name: str, known_roster: KnownRoster) -> str:
        """Return the roster changes; empty while the roster cannot be read."""
        try:
            return await known_roster.describe_changes(self._team.roster, name)
        except TeamwrightError:
            return ""

    async def finish_turn(self, name: str) -> None:
        """Make the tasks that the member added claimable."""
        await self._team.tasks.finish_drafts(name)

    async def tasks_in_progress(self, name: str) -> list[Task]:
        """Return the tasks that this member has in progress."""
        tasks = await self._team.tasks.all()
        return [t for t in tasks if t.status is TaskStatus.IN_PROGRESS and (t.owner or "").lower() == name.lower()]

    async def notify_lead(self, name: str, notice: IdleNotification, id: str, *, is_rerun: bool = False) -> None:
        """Put the idle notice into the lead's inbox. A failure never ends the member."""
        try:
            if not (is_rerun and await self._team.mailbox(LEAD).contains(id)):
                await send_protocol(self._team, name, LEAD, notice, id=id)
        except TeamwrightError as problem:
            text = f"the lead did not receive an idle notice of {name} ({problem.what}); its text is in the event log"
            self._team.emit(Notice(member=name, text=text, level="warning"))

    def is_stop_request_open(self, name: str, request_id: str) -> bool:
        """Return True when that request is open and meant for this incarnation of the member."""
        return is_stop_request_open(self._team, name, request_id)

    async def process_end(self, name: str, cause: str, agreed_to: str | None) -> None:
        """Process the end of the member."""
        over = self._team.ports.report_end
        await (process_end(self._team, name, cause, agreed_to) if over is None else over(name, cause, agreed_to))
