"""Control of one member at its own terminal: messages, interrupts, stops and its requests.

The lead's process decides about stops and modes; all other actions run here, with the same parts as at the lead's
terminal. Depends on a member of this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from msgspec import Struct, field

from teamwright.agent.agent import Agent
from teamwright.agent.background_jobs import RunningCommand
from teamwright.agent.compaction import compact_now
from teamwright.agent.context_window import ContextView, agent_context
from teamwright.agent.side_question import ask_side_question
from teamwright.approvals.answer_from_outside import answer_in_process
from teamwright.approvals.request_files import RequestDirectory, open_requests_in
from teamwright.member_process.join_team import RunningMember
from teamwright.protocol.errors import TeamRefused, TeamwrightError
from teamwright.protocol.events import RequestAnswer, RequestClosed, RequestOpened
from teamwright.protocol.pending_request import PendingRequest
from teamwright.session.control.action_table import list_foreground, list_running, move_to_background, running_command
from teamwright.session.result import TaskResult, task_results
from teamwright.tasks.task_store import OnExternalChange
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.life_cycle import BUSY_STATES
from teamwright.teams.outgoing_mail import send_text

USER = "user"


class OwnTerminalControl(Struct):
    """The control of one member. `opened` and `closed` are called for its requests, which `follow` watches."""

    member: RunningMember
    opened: Callable[[RequestOpened], None]
    closed: Callable[[RequestClosed], None]
    _known: dict[str, PendingRequest] = field(default_factory=dict[str, PendingRequest])
    _running: set[asyncio.Task[object]] = field(default_factory=set["asyncio.Task[object]"])

    @property
    def agent(self) -> Agent:
        """The member's agent."""
        return self.member.teammate.agent

    @property
    def name(self) -> str:
        """The member's name."""
        return self.member.spawn.member

    @property
    def model(self) -> str:
        """The member's model."""
        return self.agent.model.card.name

    @property
    def mode(self) -> str:
        """The member's permission mode."""
        return self.member.teammate.mode

    @property
    def earlier_messages(self) -> int:
        """The number of messages in its conversation before this process; 0 for a new incarnation."""
        return len(self.agent.conversation.items) if self.member.spawn.resumed else 0

    @property
    def is_ended(self) -> bool:
        """True when the member has ended."""
        return self.member.led_member.ended is not None

    @property
    def is_working(self) -> bool:
        """True while the member is in a turn."""
        return self.member.teammate.state in BUSY_STATES

    @property
    def requests(self) -> int:
        """The number of requests of the member and its sub-agents that wait for a person."""
        return len(self._known)

    @property
    def is_lead_reachable(self) -> bool:
        """True when the lead's process answers."""
        return self.member.line.is_connected

    # ── control ────────────────────────────────────────────────────────────────────────────────────

    async def send(self, text: str) -> None:
        """Send a message from the user, which is in the inbox at return. Raises InboxFull, LockTimeout,
        StorageError.
        """
        await send_text(self.member.team, USER, self.name, text)

    def interrupt(self) -> bool:
        """Interrupt the turn. Return False without one."""
        return self.member.teammate.interrupt()

    async def stop(self) -> None:
        """Stop the member for good: its tasks are unowned again, its lead is notified. Raises TeamRefused without
        its lead.
        """
        self._require_lead("it cannot be ended for good")
        await self.member.line.call("stop")

    def leave(self) -> None:
        """Leave, because the terminal closes: the member keeps its place, and its lead is notified."""
        self.member.led_member.end("suspended", "its terminal was closed")

    async def set_mode(self, text: str) -> str:
        """Set the mode from the next call on, under the lead's rules. Return a sentence for people.

        Raises UsageError for an unknown mode, TeamRefused for a mode that may not be given, and without its lead.
        """
        self._require_lead("its mode stays as it is")
        return str((await self.member.line.call("mode", mode=text))["words"])

    def compact(self, keep: str) -> bool:
        """Compact the conversation. Return True when it is done before the next model call. Events have the result."""
        waits = self.agent.compaction.turn_lock.locked()
        self._run(compact_now(self.agent, keep))
        return waits

    def ask(self, question: str, show: Callable[[str], None]) -> None:
        """Ask the member in passing, also while it works; `show` receives the answer, or why there is none."""
        self._run(self._ask(question, show))

    async def _ask(self, question: str, show: Callable[[str], None]) -> None:
        try:
            show(await ask_side_question(self.agent, question, USER))
        except TeamwrightError as problem:
            show(problem.render())

    def foreground(self) -> list[str]:
        """Return what the member and its sub-agents wait for, a line each with its name first."""
        return list_foreground(self.member.agent_factory)

    def move_to_background(self, name: str = "") -> list[str]:
        """Move to the background what the member itself waits for, or what has that name. Return it for people."""
        return move_to_background(self.member.agent_factory, name, "" if name else self.name) or []

    # ── status ───────────────────────────────────────────────────────────────────────────────────────────────

    def context(self) -> ContextView:
        """Return the content of the context window."""
        return agent_context(self.agent)

    def running(self) -> list[str]:
        """Return the running sub-agents and commands, a line each."""
        return list_running(self.member.agent_factory, self.name)

    def running_command(self, agent: str) -> RunningCommand | None:
        """Return the newest command that an agent of this process waits for; None without one."""
        return running_command(self.member.agent_factory, agent)

    async def tasks(self) -> list[TaskResult]:
        """Return the team's task list. Raises StorageError."""
        tasks = self.member.team.tasks
        return list(task_results(tasks, await tasks.snapshot(), ()))

    # ── requests ──────────────────────────────────────────────────────────────────────────────────────────

    def follow(self, on_task: OnExternalChange) -> Callable[[], None]:
        """Watch the member's requests, which are files of the team. Return the function that stops it.

        `on_task` receives each change of the task list by another process, which the member reads anyway.
        """
        team = self.member.team
        watcher = self.member.watcher
        unfollow = watcher.follow_directory(team.requests.directory, self._look, lambda name: name.endswith(".json"))
        tasks = team.tasks.watch_external_changes(on_task)
        self._look(None)

        def stop() -> None:
            unfollow()
            tasks.close()

        return stop

    def _look(self, _names: Iterable[str] | None) -> None:
        there = {one.id: one for one in self._open()}
        for id in [id for id in self._known if id not in there]:
            del self._known[id]
            self.closed(RequestClosed(member=self.name, request=id, verdict="", by="surface"))
        for id in [id for id in there if id not in self._known]:
            self._known[id] = there[id]
            self.opened(there[id].as_event(self._answered))

    def _open(self) -> list[PendingRequest]:
        """Return the requests of this member and its sub-agents that wait for a person."""
        place = self._place()
        found = open_requests_in(place) if place is not None else []
        return [one for one in found if one.is_alive and one.target == USER and one.owner.lower() == self.name.lower()]

    def _place(self) -> RequestDirectory | None:
        team = self.member.team
        file = FileStores(team.home).read_state(team.directory)
        if file is None or not file.lead.lease:
            return None
        return RequestDirectory(team.requests.directory, Path(file.lead.lease), team.name, file.lead.session)

    async def _answered(self, id: str, answer: RequestAnswer) -> bool:
        outcome = await asyncio.to_thread(answer_in_process, self.member.team.home, id, answer)
        return outcome.counts

    def _require_lead(self, what: str) -> None:
        if not self.is_lead_reachable:
            raise TeamRefused(
                "team-refused",
                f"the lead of {self.name} is gone: {what}",
                do=["wait until its session is resumed, or close this terminal: it keeps its place"],
                note="nothing was changed",
            )

    def _run(self, work: Awaitable[object]) -> None:
        task: asyncio.Task[object] = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
