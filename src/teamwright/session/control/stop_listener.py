"""The lead's listener for requests of the user's other processes while a session runs.

Opens the doorbells of members, handles stop requests, and has questions answered. Depends on the team and its files.
The user interface ends the process, through `end`; the watcher reports other files that the user changed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.time_limit import time_limit
from teamwright.requests.request_store import (
    LeadProcess,
    RequestStore,
    StopRequest,
    acknowledge,
    open_stops,
    stop_answer,
)
from teamwright.storage.doorbell import TeamDoorbells
from teamwright.storage.file_watcher import Watcher
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.life_cycle import USER_CAUSE
from teamwright.teams.shutdown_deadlines import ShutdownDeadlines
from teamwright.teams.team import SessionTeam
from teamwright.teams.teammate import Teammate

if TYPE_CHECKING:
    from teamwright.session.control.question_listener import QuestionListener

ELSEWHERE = "user (another terminal)"
CAUSE = f"{USER_CAUSE} from another terminal"
SLACK_S = 10.0
"""Seconds that an answer may take beyond the members' deadline."""


class _EndingTeam(Struct):
    """The team at the time of the user's stop request, reported when it has ended."""

    box: RequestStore
    tasks: TaskList
    names: tuple[str, ...]
    owned: set[str] = field(default_factory=set[str])


class StopListener(Struct):
    """The handler of stop requests. `deadlines` bound the wait for a member; `end` ends this process as SIGTERM would.

    Only user interfaces that own the process have an `end`. `gentle`: the user asked for a shutdown with requests to
    members, not for an immediate one.
    """

    team: SessionTeam
    emit: Emit
    watcher: Watcher
    deadlines: ShutdownDeadlines
    end: Callable[[], None] | None = None
    gentle: bool = False
    on_ring: Callable[[], None] | None = None
    """Called on each ring of the lead's doorbell, and on changes of the team's requests."""
    ask: Callable[[str, str], Awaitable[str]] | None = None
    """Returns the answer of an agent, which is named second, to a question."""
    _questions: QuestionListener | None = None
    _hurried: asyncio.Event = field(default_factory=asyncio.Event)
    _bells: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _dealing: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    _telling: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])
    _leaving: _EndingTeam | None = None

    # ── doorbells ─────────────────────────────────────────────────────────────────────────────────────────────

    def open_doorbell(self, name: str, look: Callable[[], None]) -> Callable[[], None]:
        """Open the doorbell of a member, or of the lead; a ring calls `look`. Return the function that closes it."""

        def rung() -> None:
            if name == LEAD:
                self._look_for_requests()
            look()

        ways = [TeamDoorbells(self.team.home, self.team.directory).listen(name, rung)]
        if name == LEAD:
            ways.append(self.watcher.follow(self.team.requests.directory, self._look_for_requests))
            self._look_for_requests()

        def take_down() -> None:
            if take_down in self._bells:
                self._bells.remove(take_down)
            while ways:
                ways.pop()()

        self._bells.append(take_down)
        return take_down

    # ── stop requests ─────────────────────────────────────────────────────────────────────────────────────────

    def _look_for_requests(self) -> None:
        if not self.team.exists:
            return
        if self.on_ring is not None:
            self.on_ring()
        box = self.team.requests
        with contextlib.suppress(TeamwrightError):
            for request in open_stops(box):
                if request.id not in self._dealing:
                    task = self._dealing[request.id] = asyncio.create_task(self._handle(box, request))
                    self._telling.add(task)
                    task.add_done_callback(self._telling.discard)
            self._look_for_questions(box)

    async def _handle(self, box: RequestStore, request: StopRequest) -> None:
        """Carry out the request and answer it. The requester is also notified of a failure."""
        try:
            if request.lead != self._lead_process():
                _answer(box, request, stop_answer(False, "the session was resumed since; ask again"))
            elif request.whole_team:
                await self._end_team(box, request)
            else:
                _answer(box, request, await self._end_member(box, request))
        except TeamwrightError as problem:
            _answer(box, request, stop_answer(False, problem.what))
        finally:
            if not request.whole_team:
                self._dealing.pop(request.id, None)

    def _lead_process(self) -> LeadProcess:
        return LeadProcess.from_lease(self.team.session, Path(self.team.lease))

    def _look_for_questions(self, box: RequestStore) -> None:
        if self._questions is None and self.ask is not None and box.has_questions():
            from teamwright.session.control.question_listener import QuestionListener

            self._questions = QuestionListener(self.team, ELSEWHERE, self.ask)
        if self._questions is not None:
            self._questions.look()

    # ── one member ────────────────────────────────────────────────────────────────────────────────────────────

    async def _end_member(self, box: RequestStore, request: StopRequest) -> dict[str, Any]:
        from teamwright.teams.shutdown import kill, remove_crashed
        from teamwright.teams.spawn import START_S

        name = request.target
        settings = self.team.settings
        granted = settings.cancel_grace_s + (0.0 if request.now else settings.shutdown_objection_s) + SLACK_S
        acknowledge(box, request.id, granted + (START_S if name in self.team.starting_names else 0.0))
        teammate = await self._find_member(name)
        if teammate is None:
            removed = await remove_crashed(self.team, name, CAUSE)
            return stop_answer(True, CAUSE if removed else f"{name} is not running", ended=[name] if removed else [])
        if request.incarnation is not None and request.incarnation < teammate.incarnation:
            return stop_answer(False, f"that run of {name} has ended, and another has begun; ask again")
        owned = await _open_tasks(self.team.tasks, [teammate.name])
        tasks = self.team.tasks
        if request.now:
            self._say(f"{ELSEWHERE} stops {teammate.name} at once")
            await kill(self.team, teammate, CAUSE)
            while not teammate.end_processed:
                self.team.changed.clear()
                if not teammate.end_processed:
                    await self.team.changed.wait()
        else:
            self._say(f"{ELSEWHERE} asks {teammate.name} to stop")
            objection = await self._ask(box, teammate)
            if objection:
                return stop_answer(False, f"{teammate.name} objects: {objection}")
        return stop_answer(
            True,
            teammate.end_cause or CAUSE,
            ended=[teammate.name],
            handed_back=await _released_tasks(tasks, owned, [teammate.name]),
        )

    async def _find_member(self, name: str) -> Teammate | None:
        """Find the member. A member that is starting is returned once it runs."""
        from teamwright.teams.spawn import START_S

        with contextlib.suppress(TimeoutError):
            async with time_limit(START_S):
                while (teammate := self.team.find(name)) is None and (
                    name.lower() in {one.lower() for one in self.team.starting_names}
                ):
                    self.team.changed.clear()
                    await self.team.changed.wait()
                return teammate
        return None

    async def _ask(self, box: RequestStore, teammate: Teammate) -> str:
        """Ask a member to stop and wait for its end. Return its objection, or an empty text. A second request joins
        the first. A member that waits for an answer could not read the request, so it ends at once.
        """
        from teamwright.teams.shutdown import kill

        request_id = teammate.stop_request_id or await self.deadlines.request_stop(
            self.team, teammate.name, "The user asks you to stop."
        )
        while not teammate.end_processed:
            self.team.changed.clear()
            answer = box.get_answer(request_id)
            if answer is not None and answer.get("approve") is not True:
                return str(answer.get("reason") or "no reason was given")
            if teammate.waits_for_answer:
                await kill(self.team, teammate, f"{CAUSE} while it waited for an answer")
            if not teammate.end_processed:
                await self.team.changed.wait()
        return ""

    # ── the whole team ────────────────────────────────────────────────────────────────────────────────────────

    async def _end_team(self, box: RequestStore, request: StopRequest) -> None:
        """End this process as SIGTERM would, with shutdown requests unless `now`; answered after the end."""
        if self.end is None:
            raise TeamwrightError("team-refused", "a program leads this team: it ends where it runs")
        granted = (
            self.team.settings.cancel_grace_s
            + SLACK_S
            + (0.0 if request.now else self.team.settings.shutdown_timeout_s)
        )
        acknowledge(box, request.id, granted)
        self.gentle = self.gentle or not request.now
        if request.now:
            self.hurry()
        if self._leaving is None:
            self._say(f"{ELSEWHERE} ends the team" + (" at once" if request.now else ""))
            names = tuple(teammate.name for teammate in self.team.running_members)
            self._leaving = leaving = _EndingTeam(box, self.team.tasks, names)
            leaving.owned = await _open_tasks(leaving.tasks, names)
            self.end()

    def hurry(self) -> None:
        """Stop waiting for shutdown answers, because the user asked again or for an immediate end."""
        self._hurried.set()

    async def wait_until_idle(self) -> None:
        """Wait until no agent works, at most `shutdown_timeout_s`, if the user asked for that."""
        if not self.gentle:
            return
        quiet = asyncio.ensure_future(self._wait_until_quiet())
        hurried = asyncio.ensure_future(self._hurried.wait())
        try:
            limit = self.team.settings.shutdown_timeout_s
            await asyncio.wait({quiet, hurried}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            quiet.cancel()
            hurried.cancel()
            await asyncio.gather(quiet, hurried, return_exceptions=True)

    async def _wait_until_quiet(self) -> None:
        while self._is_working():
            self.team.changed.clear()
            if self._is_working():
                await self.team.changed.wait()

    def _is_working(self) -> bool:
        """Return True when a member works. One that waits for an answer does nothing, and a resume asks again."""
        return any(not teammate.waits_for_answer for teammate in self.team.busy_members())

    # ── closing ───────────────────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """Answer open requests after all agents have ended, and close the doorbells. May be called twice."""
        if self._questions is not None:
            await self._questions.close()
        if (leaving := self._leaving) is not None:
            with contextlib.suppress(TeamwrightError):
                handed = await _released_tasks(leaving.tasks, leaving.owned, leaving.names)
                answer = stop_answer(True, "the team has ended", ended=leaving.names, handed_back=handed)
                for request in open_stops(leaving.box):
                    if request.whole_team and request.lead == self._lead_process():
                        _answer(leaving.box, request, answer)
            self._leaving = None
        for take_down in list(self._bells):
            take_down()
        if self._telling:
            await asyncio.wait(self._telling, timeout=1.0)
        for task in self._telling:
            task.cancel()

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────

    def _say(self, text: str) -> None:
        self.emit(Notice(member="system", text=text))


def _answer(box: RequestStore, request: StopRequest, body: dict[str, Any]) -> None:
    with contextlib.suppress(TeamwrightError):  # the requester no longer waits
        box.answer(request.id, body)


async def _open_tasks(tasks: TaskList, names: Iterable[str]) -> set[str]:
    """Return the numbers of the open tasks that these members own."""
    owners = set(names)
    return {task.id for task in await tasks.all() if task.owner in owners and task.status != "completed"}


async def _released_tasks(tasks: TaskList, owned: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return those of the tasks that are open and have no owner or another one now."""
    mine = set(owned)
    owners = set(names)
    return [t.id for t in await tasks.all() if t.id in mine and t.owner not in owners and t.status != "completed"]
