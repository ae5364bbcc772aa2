"""The scribe: what the lead's process notices of other programs on the files of its live team becomes events.

One worker looks where the watcher says that something changed; an idle team costs it nothing. Below it: tasks, roster
and mail, each with a part of its own. Refuses to know why somebody else writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MemberChanged, ModeChanged, Notice, TeamEvent
from teamwright.storage.watch import Watcher
from teamwright.tasks.files import number_of
from teamwright.teams.outside import OUTSIDE
from teamwright.teams.scribe.mail import MailScribe
from teamwright.teams.scribe.roster import RosterScribe
from teamwright.teams.scribe.tasks import TaskScribe
from teamwright.teams.team import Team


class Scribe:
    """`async with Scribe(team, watcher):` the team's files are watched as long as the block lasts."""

    def __init__(self, team: Team, watcher: Watcher) -> None:
        self._team = team
        self._watcher = watcher
        self._something = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._unfollow: list[Callable[[], None]] = []
        self._complaint = ""
        self._tasks = TaskScribe(team, self._something.set)
        self._roster = RosterScribe(team, self._something.set)
        self._mail = MailScribe(team, self._something.set, self._roster.agreed)

    async def __aenter__(self) -> Scribe:
        self._team.watch = self.follow
        self._team.outside.on_moved = self._begin
        self._team.outside.on_over = self._roster.over
        self._team.outside.on_met.append(self._mail.met)
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._team.outside.on_moved = self._team.outside.on_over = None
        self._team.outside.on_met.remove(self._mail.met)
        self._end()
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        await self._tasks.close()

    def note(self, _number: int, event: TeamEvent) -> None:
        """Update the roster entry of a member that changed."""
        processes = self._team.outside.processes
        if isinstance(event, ModeChanged) or (isinstance(event, MemberChanged) and event.member.lower() in processes):
            self._roster.noticed()

    def follow(self, path: Path, ring: Callable[[], None]) -> Callable[[], None]:
        """Ring when another program changes this inbox of ours, and tell of the mail in it; ends when called."""
        self._mail.open(path.stem)
        self._roster.noticed()  # a member of ours stands in the roster from now on

        def changed() -> None:
            ring()
            self._mail.noticed(path.stem)

        unfollow = self._watcher.follow(path, changed)

        def close() -> None:
            unfollow()
            self._mail.close(path.stem)

        return close

    def _begin(self) -> None:
        """The team's files are these from now on: what is in them is known."""
        self._end()
        team = self._team
        if not (team.exists or team.outside.shared_list):
            return  # the session's own list: nobody else knows of it
        try:
            self._tasks.begin()
        except TeamwrightError as problem:
            self._complain(problem)
        follow = self._watcher.follow_directory
        self._unfollow.append(follow(team.tasks.directory, self._tasks.noticed, _is_task))
        if team.exists:
            self._roster.begin()
            for path in (team.home.config(team.directory), team.home.team_file(team.directory)):
                self._unfollow.append(self._watcher.follow(path, self._roster.noticed))
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work(), name="scribe")

    def _end(self) -> None:
        for unfollow in self._unfollow:
            unfollow()
        self._unfollow.clear()
        self._tasks.end()
        self._roster.end()
        self._mail.end()

    async def _work(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            for look in (self._roster.look, self._mail.look, self._tasks.look):
                try:
                    await look()
                except TeamwrightError as problem:
                    self._complain(problem)
                except Exception as problem:  # a mistake of ours: the rest is watched all the same
                    self._complain(problem)

    def _complain(self, problem: Exception) -> None:
        why = problem.what if isinstance(problem, TeamwrightError) else f"{type(problem).__name__}: {problem}"
        if why != self._complaint:
            self._complaint = why
            text = f"what other programs do to the team's files could not be followed: {why}"
            self._team.emit(Notice(member=OUTSIDE, text=text, level="warning"))


def _is_task(name: str) -> bool:
    return number_of(name) is not None
