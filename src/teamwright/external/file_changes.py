"""The team watcher: changes of other programs to the files of the live team become events of the lead's process.

A task checks the files when the file watcher reports a change; an idle team costs nothing. The watchers of tasks,
roster and mail are constructed with the team.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MemberChanged, ModeChanged, Notice, TeamEvent
from teamwright.storage.file_watcher import Watcher
from teamwright.teams.external_members import UNKNOWN_PROGRAM
from teamwright.teams.team import SessionTeam

if TYPE_CHECKING:
    from teamwright.external.mail_watcher import MailWatcher
    from teamwright.external.roster_watcher import RosterWatcher
    from teamwright.external.task_watcher import TaskWatcher


class _TeamFiles(Struct):
    """The watchers of a team's files."""

    tasks: TaskWatcher
    roster: RosterWatcher
    mail: MailWatcher


class TeamWatcher:
    """A watcher of the team's files: `async with TeamWatcher(team, watcher):` watches them while the block runs."""

    def __init__(self, team: SessionTeam, watcher: Watcher) -> None:
        self._team = team
        self._watcher = watcher
        self._changed = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._unfollow: list[Callable[[], None]] = []
        self._unfollow_members: Callable[[], None] = lambda: None
        self._complaint = ""
        self._files: _TeamFiles | None = None

    async def __aenter__(self) -> TeamWatcher:
        self._unfollow_members = self._team.external.report_members(self)
        self.note_files_changed()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unfollow_members()
        self._end()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        if self._files is not None:
            await self._files.tasks.close()

    def note_event(self, _number: int, event: TeamEvent) -> None:
        """Update the roster entry of a member that changed."""
        if self._files is None:
            return  # there is no team
        processes = self._team.external.process_names
        if isinstance(event, ModeChanged) or (isinstance(event, MemberChanged) and event.member.lower() in processes):
            self._files.roster.note_change()

    def _watchers(self) -> _TeamFiles:
        """Return the watchers of the team's files, constructed at the first use."""
        if self._files is None:
            from teamwright.external.mail_watcher import MailWatcher
            from teamwright.external.roster_watcher import RosterWatcher
            from teamwright.external.task_watcher import TaskWatcher

            team = self._team
            wake = self._changed.set
            roster = RosterWatcher(team, wake)
            mail = MailWatcher(team, wake, roster.note_agreement)
            self._files = _TeamFiles(TaskWatcher(team, wake), roster, mail)
        return self._files

    def note_ended(self, name: str, why: str, /) -> None:
        self._watchers().roster.note_ended(name, why)

    def note_joined(self, name: str, /) -> None:
        """Implement `ExternalMemberObserver.note_joined`: read the mail that waits for its reader."""
        self._watchers().mail.handle_waiting_mail(name)

    def follow(self, name: str, ring: Callable[[], None]) -> Callable[[], None]:
        """Call back when another program changes one of our inboxes, and report its mail; returns a function that stops
        this.
        """
        files = self._watchers()
        files.mail.open(name)
        files.roster.note_change()  # one of our members is on the roster from now on

        def changed() -> None:
            ring()
            files.mail.note_change(name)

        unfollow = self._team.mailbox(name).watch(self._watcher, changed)

        def close() -> None:
            unfollow()
            files.mail.close(name)

        return close

    def note_files_changed(self) -> None:
        """Implement `ExternalMemberObserver.note_files_changed`: begin with files whose present content is known."""
        self._end()
        team = self._team
        if not (team.exists or team.external.shared_list):
            return  # the session's own list: no other program knows it
        files = self._watchers()
        try:
            files.tasks.begin()
        except TeamwrightError as problem:
            self._complain(problem)
        self._unfollow.append(team.tasks.store.watch(self._watcher, files.tasks.note_change))
        if team.exists:
            files.roster.begin()
            for document in (team.roster.document, team.state):
                self._unfollow.append(document.follow(self._watcher, files.roster.note_change))
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work(), name="scribe")

    def _end(self) -> None:
        for unfollow in self._unfollow:
            unfollow()
        self._unfollow.clear()
        if self._files is not None:
            self._files.tasks.end()
            self._files.roster.end()
            self._files.mail.end()

    async def _work(self) -> None:
        files = self._watchers()
        while True:
            await self._changed.wait()
            self._changed.clear()
            for look in (files.roster.check, files.mail.check, files.tasks.check):
                try:
                    await look()
                except TeamwrightError as problem:
                    self._complain(problem)
                except Exception as problem:  # a bug in Teamwright: the other files are still watched
                    self._complain(problem)

    def _complain(self, problem: Exception) -> None:
        why = problem.what if isinstance(problem, TeamwrightError) else f"{type(problem).__name__}: {problem}"
        if why != self._complaint:
            self._complaint = why
            text = f"what other programs do to the team's files could not be followed: {why}"
            self._team.emit(Notice(member=UNKNOWN_PROGRAM, text=text, level="warning"))
