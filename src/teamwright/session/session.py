"""A running session: one lead, its team and its log. Prompts go in; events and a result come out.

`open_session` connects its ports. After its block no member, job, timer or lock of the session remains, also after an
exception inside.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent import TurnEnd
from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.compaction_state import CompactResult
from teamwright.approvals.request_queue import RequestQueue
from teamwright.protocol.errors import ModelFailed, TeamRefused, TeamwrightError
from teamwright.protocol.events import (
    FALLBACK,
    LimitReached,
    MemberChanged,
    MessageDelivered,
    MessageSent,
    ModelCallEnded,
    ModelChanged,
    Notice,
    RunEnded,
    TaskChanged,
    TeamEvent,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD, SessionId
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import Block
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.usage import Usage
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.agents.model_sources import SessionModels
from teamwright.session.control.stop_listener import StopListener
from teamwright.session.modes_and_grants import SessionModes
from teamwright.session.options import Options
from teamwright.session.reload_config import ConfigReloader
from teamwright.session.result import MemberResult, Result, Stop, TaskResult, judged, task_results
from teamwright.session.wiring.integration import SessionIntegration
from teamwright.session.wiring.team_factory import take_tasks
from teamwright.storage.event_log import EventLog
from teamwright.storage.file_lease import Lease
from teamwright.storage.paths import command_with_home
from teamwright.subagents.registry import Subagents
from teamwright.team_records.life_cycle import ENDED_STATES, FAILED_STATES, USER_CAUSE
from teamwright.teams.external_members import UNKNOWN_PROGRAM
from teamwright.teams.lead_agent import NEXT_STEP_TEXT, CommandWait, Lead
from teamwright.teams.outgoing_mail import has_held_mail
from teamwright.teams.resume_result import ResumeResult
from teamwright.teams.shutdown_deadlines import ShutdownDeadlines
from teamwright.teams.team import SessionTeam

if TYPE_CHECKING:
    from teamwright.config.settings.settings import Settings
    from teamwright.session.control.side_call_caps import SideCallCaps
    from teamwright.session.structured_output import ReadOutput
    from teamwright.session.wiring.member_processes import MemberProcesses


EARLY_MOST = 1_000
"""The most messages that are remembered as delivered before they were sent. First prompts have no sent event."""


class RunCounts(Struct):
    """The counts of a run that no file has, from its events. Model calls are the lead's.

    Notices without content are no messages.
    """

    model_calls: int = 0
    api_s: float = 0.0
    """Duration of all model calls, in seconds; parallel calls add up."""
    sent: int = 0
    seen: int = 0
    calls: int = 0
    states: dict[str, MemberState] = field(default_factory=dict[str, MemberState])
    models: dict[str, str] = field(default_factory=dict[str, str])
    fallbacks: list[ModelChanged] = field(default_factory=list[ModelChanged])
    """The changes to fallback models."""
    waiting: set[str] = field(default_factory=set[str])
    early: dict[str, None] = field(default_factory=dict[str, None])
    """Messages that were delivered before their sent event: a reader may be faster than the writer's event. The
    newest are kept.
    """
    capped: set[str] = field(default_factory=set[str])
    """Members whose last turn ended at a cap: they are idle, and not done."""
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """The reason why a member's last turn or its process failed; a later successful turn removes it."""
    failed_in_run: set[str] = field(default_factory=set[str])
    """Names of members whose turn or process failed since the former run was judged: also before this one began."""
    judged: set[str] = field(default_factory=set[str])
    """Those of them by which a run was judged; the next run forgets them."""
    ended: dict[str, str] = field(default_factory=dict[str, str])
    """The reason why a member failed, crashed or was stopped. A resume removes it."""
    stopped_at_work: set[str] = field(default_factory=set[str])
    """Members that were working when a crash, an error or a person ended them."""
    tasks: set[str] = field(default_factory=set[str])
    """Tasks that a member of this session created or changed."""

    def count(self, event: TeamEvent) -> None:
        """Count an event."""
        match event:
            case MessageSent():
                self._sent(event)
            case MessageDelivered():
                known = self.waiting.intersection(event.message_ids)
                self.seen += len(known)
                self.waiting -= known
                self.early |= dict.fromkeys(id for id in event.message_ids if id not in known)
                while len(self.early) > EARLY_MOST:
                    del self.early[next(iter(self.early))]
            case ModelCallEnded(member=member, aside=aside, seconds=seconds):
                self.model_calls += member == LEAD and not aside
                self.api_s += seconds
            case ToolCalled():
                self.calls += 1
            case TaskChanged(member=member) if member != UNKNOWN_PROGRAM and "@" not in member:
                self.tasks.add(event.task.id)
            case TurnEnded(member=member):
                (self.capped.add if event.stop == "limit" else self.capped.discard)(member)
                if event.stop == "failed":
                    self._failed(member, event.detail or "its turn failed")
                else:
                    self.failed.pop(member, None)
            case MemberChanged() if event.member != LEAD:
                self._changed(event)
                self._note_model(event)
            case ModelChanged():
                self._note_model(event)
            case _:
                pass

    def end_cause(self, name: str, *, cut_off: bool) -> str:
        """Return why a member failed, crashed or was stopped; empty for a member that ended otherwise."""
        return self.ended.get(name, "") if name in self.stopped_at_work or not cut_off else ""

    def _note_model(self, event: MemberChanged | ModelChanged) -> None:
        if event.member != LEAD:
            self.models[event.member] = event.model or self.models.get(event.member, "")
        if isinstance(event, ModelChanged) and event.by == FALLBACK:
            self.fallbacks.append(event)

    def _failed(self, name: str, why: str) -> None:
        self.failed[name] = why
        self.failed_in_run.add(name)
        self.judged.discard(name)

    def _changed(self, event: MemberChanged) -> None:
        name = event.member
        before = self.states.get(name)
        self.states[name] = event.state
        if event.state in FAILED_STATES:
            self._failed(name, event.detail or event.state)
        if event.state not in {*FAILED_STATES, MemberState.KILLED}:
            self.ended.pop(name, None)
            self.stopped_at_work.discard(name)
            return
        self.ended[name] = event.detail or event.state
        is_unplanned = event.state in FAILED_STATES or event.detail.startswith(USER_CAUSE)
        if is_unplanned and before != MemberState.IDLE:
            self.stopped_at_work.add(name)

    def _sent(self, event: MessageSent) -> None:
        if event.wire == "mode_changed" or (event.wire == "idle_notification" and event.summary == "idle"):
            return  # such a message may stay unread
        self.sent += 1
        if event.message_id in self.early:
            del self.early[event.message_id]
            self.seen += 1
        else:
            self.waiting.add(event.message_id)


_BEFORE_CAP_S = 0.001
"""Seconds before the cap on time at which requests are left open: the cap itself cancels the call that waits."""


_START_SLUGS = frozenset({"wrong-key", "no-access", "unknown-model", "no-network"})
"""Failures that prevent a start when they come before the first answer; later the run has failed."""


class Session(Struct):
    """One session. `run` carries out a prompt; `close` ends everything. Created by `open_session`."""

    id: SessionId
    options: Options
    lead: Lead
    team: SessionTeam
    agent_factory: AgentFactory
    models: SessionModels
    log: EventLog
    lease: Lease
    requests: RequestQueue
    deadlines: ShutdownDeadlines
    jobs: BackgroundJobs
    outside: StopListener
    reloading: ConfigReloader
    """The reloader of the session's configuration."""
    integration: SessionIntegration
    warnings: tuple[str, ...] = ()
    processes: MemberProcesses | None = None
    pruning: asyncio.Task[None] | None = None
    """The task that removes old sessions."""
    tally: RunCounts = field(default_factory=RunCounts)
    resumed: ResumeResult = field(default_factory=ResumeResult)
    cut_off: list[str] = field(default_factory=list[str])
    compactions: set[asyncio.Task[CompactResult]] = field(default_factory=set["asyncio.Task[CompactResult]"])
    side_questions: set[asyncio.Task[str]] = field(default_factory=set["asyncio.Task[str]"])
    """Compactions that a person requested."""
    started: float = field(default_factory=time.monotonic)
    _side_call_caps: SideCallCaps | None = None

    async def run(self, prompt: Sequence[Block], uuid: str = "") -> Result:
        """Carry out a prompt until the team is done, or a cap is reached. Members remain afterwards.

        `uuid` is the id of the prompt in the transcript; empty for a new one.

        Cancellation is up to the caller: `cancelled` returns the result of a cancelled run.
        """
        # The answer to an earlier prompt does not count for this one; without a prompt it is the only text.
        self.tally.failed_in_run -= self.tally.judged
        self.lead.begin_run("" if prompt else self.lead.agent.conversation.text_since(0))
        if (form := self.options.output) is not None:
            from teamwright.session.structured_output import with_request  # loaded only for runs with a schema

            prompt = with_request(self.lead, prompt, form)
        if prompt:
            self.lead.add_prompt(prompt, uuid)
        return await self._run_until_done()

    async def _run_until_done(self, commands: CommandWait | None = None) -> Result:
        """Run turns until the team is done, and with `commands` until these have ended; return the result."""
        begun = self.lead.agent.conversation.message_count
        form = self.options.output
        output: ReadOutput | None = None
        minutes = self.agent_factory.budget_tracker.budget.minutes
        cap: asyncio.Timeout | None = None
        try:
            spent_s = self._elapsed() + (self.options.spent.minutes or 0) * 60
            left_s = None if minutes is None else max(0.0, minutes * 60 - spent_s)
            async with time_limit(left_s) as cap:
                with self._requests_left_open_at(left_s):
                    end = await self.lead.run_until_done(self.has_open_tasks, commands)
                if form is not None:
                    from teamwright.session.structured_output import read_output

                    output = await read_output(self.lead, self.has_open_tasks, end, form)
                    end = output.end
        except TimeoutError:
            if cap is None or not cap.expired():
                raise  # raised by a program's model: no cap was reached
            self.agent_factory.budget_tracker.out_of_time()
            end = TurnEnd("limit", self.lead.last_end.text, limit="time")
        except TeamwrightError as problem:
            problem.replace_advice([*problem.do, self.resume_command])
            return await self.result("failed", self.lead.last_end.text, error=problem)
        if self.lead.refusal_reason:
            refused = TeamRefused("hook-refused", f"a hook refused the prompt: {self.lead.refusal_reason}")
            return await self.result("failed", end.text, error=refused)
        if end.stop == "limit" and not end.text:  # the text before that turn is the partial answer
            end = replace(end, text=self.lead.agent.conversation.text_since(begun))
        if output is not None and output.error is not None:
            output.error.replace_advice([self.resume_command])
            return await self.result("failed", end.text, error=output.error)
        return replace(await self.result_of_turn(end), output=None if output is None else output.value)

    @property
    def side_call_caps(self) -> SideCallCaps:
        """The caps on side calls that no person asks for."""
        if self._side_call_caps is None:
            from teamwright.session.control.side_call_caps import SideCallCaps  # most sessions make no such call

            tracker = self.agent_factory.budget_tracker
            self._side_call_caps = SideCallCaps(self.settings.side_calls, tracker, self.log.emit)
        return self._side_call_caps

    @property
    def settings(self) -> Settings:
        """The settings in use."""
        return self.reloading.context.settings

    async def result_of_turn(self, end: TurnEnd) -> Result:
        """Return the result for the ending of the lead's last turn."""
        if end.stop == "limit":
            detail = end.reason.removeprefix("budget_exceeded: ") or f"the cap on {end.limit} is spent"
            self.log.emit(LimitReached(member=LEAD, limit=end.limit, detail=detail))
            return replace(await self.result("limit", end.text, limit=end.limit), limit_detail=detail)
        if (failure := end.failure) is not None:
            slug = failure.slug if failure.before_first_reply or failure.slug not in _START_SLUGS else "model-failed"
            error = ModelFailed(slug, failure.what, looked_at=failure.looked_at, do=[*failure.do, self.resume_command])
            return replace(await self.result("failed", end.text, error=error), api_status=failure.http_status)
        return await self.result("done", end.text)

    async def result(self, stop: Stop, text: str, *, limit: str = "", error: TeamwrightError | None = None) -> Result:
        """Return the result of a run, from usage, the task list and the counts."""
        figures = await self._figures()
        result = Result(
            text=text,
            stop=stop,
            denials=tuple(one.as_json() for one in self.agent_factory.denials),
            resume_command=self.resume_command,
            session_id=self.id,
            team=self.team.name,
            turns=self.tally.model_calls,
            limit=limit,
            end=self.lead.last_end.answer_end,
            error=error,
            **figures,
        )
        self._emit_end(self.judged_run(result))
        return result

    def _emit_end(self, result: Result) -> None:
        detail = result.limit or (result.error.what if result.error is not None else "")
        self.log.emit(RunEnded(member=LEAD, stop=result.stop, text=result.text, usage=result.usage, detail=detail))

    def judged_run(self, result: Result) -> Result:
        """Return the result of one of several runs with its final ending, by what failed since the former run."""
        self.tally.judged = set(self.tally.failed_in_run)
        return judged(result) if self.tally.failed_in_run or result.cut_off else result

    async def end_members(self, result: Result) -> Result:
        """Wait for background commands, then end the members; return the result with what was cut off at work.

        A run that is done waits for the background commands of the lead and the members, up to `agents.jobs_wait_s`
        after the last turn. Those that still run are cut off, and so are those of any other run.
        After a run that is done members end, unless a task is open, the ping-pong guard keeps mail, or a member owes a
        turn that its model's service refused. After any other run they keep their places, without shutdown requests.
        While a task is open, a member that crashed or was stopped at work counts as cut off too.
        """
        if result.stop == "done" and (running := self.running_commands()):
            patience_s = self.agents.settings.jobs_wait_s
            text = f"waiting for background commands, {patience_s:g} s at most: {'; '.join(running)}"
            self.log.emit(Notice(member=LEAD, text=text))
            result = await self._run_until_done(CommandWait(self.running_commands, patience_s))
        self.note_cut_off_commands()
        if result.stop == "done":
            owes = any(teammate.owes_turn for teammate in self.team.running_members)
            await self.finish(keep=owes or await has_held_mail(self.team) or await self.has_open_tasks())
        else:
            await self.stop_members(keep=True)
        if self.tally.stopped_at_work and await self.has_open_tasks():
            self.cut_off += sorted(self.tally.stopped_at_work - set(self.cut_off))
        ended = judged(replace(result, **await self._figures()))
        if ended.stop != self.judged_run(result).stop:
            self._emit_end(ended)  # the event before it said how the lead's last turn ended
        return ended

    def note_cut_off_commands(self) -> None:
        """Note that the run ends while these background commands are at work."""
        self.cut_off += self.running_commands()

    def running_commands(self) -> tuple[str, ...]:
        """Return a line for each background command of the lead, its members and their sub-agents that runs."""
        elsewhere = (line for teammate in self.team.running_members for line in teammate.process_commands)
        return (*self.jobs.running_lines(), *elsewhere)

    async def _figures(self) -> dict[str, Any]:
        """Return the fields of a result that change until the members have ended."""
        budget_tracker = self.agent_factory.budget_tracker
        return {
            "usage": budget_tracker.total,
            "by_member": dict(budget_tracker.by_member),
            "tasks": await self.task_lines(),
            "members": self._member_lines(),
            "duration_ms": int(self._elapsed() * 1000),
            "api_ms": round(self.tally.api_s * 1000),
            "cut_off": tuple(self.cut_off),
            "messages_sent": self.tally.sent,
            "messages_seen": self.tally.seen,
            "fallbacks": tuple(self.tally.fallbacks),
            "messages_undelivered": len(self.tally.waiting),
        }

    async def has_open_tasks(self) -> bool:
        """Return True when a task of this session is open: not completed, or not integrated yet."""
        return any(task.is_open and not task.others for task in await self.task_lines())

    async def resume_team(self, directory: str, why: str) -> None:
        """Lead the team in that directory and resume its members; the lead is notified with its next prompt.

        Raises TeamRefused while another process leads it, StorageError, LockTimeout.
        """
        from teamwright.teams.team_creation import attach_team
        from teamwright.teams.team_resume import resume_members

        await attach_team(self.team, directory)
        await take_tasks(self.agent_factory.budget_tracker, self.team)
        if not self.lead.owes_answer:
            await self.team.tasks.finish_drafts(LEAD)  # a turn of the former lead has ended, at the latest by a kill
        repaired = len(self.lead.agent.conversation.unanswered_calls())
        self.requests.close_abandoned()  # before members continue: their open calls are asked about again
        back = await resume_members(self.team, self.deadlines.timers)
        self.resumed = replace(back, repaired=back.repaired + repaired)
        await self.integration.resume(self.team)
        gone = ", ".join(self.resumed.gone)
        failed = ", ".join(self.resumed.not_resumed)
        lines = [
            why,
            *([f"No longer in the team: {gone}."] if gone else []),
            *([f"Not resumed: {failed}. Agent with the name and its next job tries again."] if failed else []),
            *await self.lead.status_lines(),
            NEXT_STEP_TEXT,
        ]
        self.lead.add_note("\n".join(lines))

    async def has_work(self) -> bool:
        """Return True when there is work without a prompt: an owed answer, members, mail."""
        desk = self.team.lead_mail
        waits = self.lead.owes_answer or bool(self.team.running_members) or bool(self.lead.queue)
        return waits or (desk is not None and bool(await desk.next_mail()))

    async def task_lines(self) -> tuple[TaskResult, ...]:
        """Return the tasks of the present list."""
        tasks = self.team.tasks
        shared = bool(self.team.external.shared_list)
        found = await tasks.snapshot()
        others = {t.id for t in found.tasks if shared and (t.id not in self.tally.tasks or "@" in (t.owner or ""))}
        return task_results(tasks, found, others)

    async def stop_members(self, cause: str = "the run has ended", *, keep: bool = False) -> list[str]:
        """Stop all members; return those that were cut off at work. With `keep` a resume continues them.

        Without persistence there is no resume, so no member keeps its place.
        """
        keep = keep and self.options.persists
        self.deadlines.cancel()
        is_spent = self.agent_factory.budget_tracker.spent_cap
        running = [teammate.name for teammate in self.team.running_members] if is_spent else []
        capped = [name for name in running if name in self.tally.capped]
        cut = list[str]()
        if keep:
            self.leave_requests_open()
        self.team.refuse_members()
        if self.team.has_members:
            from teamwright.teams.shutdown import end_all, suspend_all

            cut = await (suspend_all if keep else end_all)(self.team, cause)
        cut += [name for name in capped if name not in cut]  # the run's cap ended their turns before this stop
        self.cut_off += cut
        return cut

    async def suspend(self) -> None:
        """Stop all agents where a resume continues them; open requests stay open.

        No model call starts from now on. Running calls of tools and models get up to `shutdown_timeout_s`. The caller
        then ends the lead's run and leaves the session.
        """
        changed = self.team.changed
        self.agent_factory.budget_tracker.suspend(changed.set)
        self.requests.suspend(changed.set)
        self.deadlines.cancel()
        self.team.refuse_members()
        try:
            async with time_limit(self.team.settings.shutdown_timeout_s):
                while self._working_agents() or self.integration.is_working:
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            pass
        finally:
            self.leave_requests_open()

    def leave_requests_open(self) -> None:
        """Leave open what waits for an answer now, as a kill does: a resume asks again.

        Called before the agents are cancelled, at every end that a resume continues. The calls that wait stay without
        a result, because they never ran.
        """
        if not self.options.persists:
            return
        self.requests.suspend(self.team.changed.set)
        waiting = self.requests.waiting_owners | set(self.agent_factory.budget_tracker.held.values())
        for name, agent in self.agent_factory.living.items():
            inherited = self.agent_factory.inheritances.get(name)
            owner = name if inherited is None else inherited.root
            agent.conversation.keeps_calls_open = owner in waiting

    @contextmanager
    def _requests_left_open_at(self, left_s: float | None) -> Generator[None]:
        """Leave requests open just before the cap on time cancels the lead's turn in the block.

        Only in a headless run, which ends there: a program may continue with its members.
        """
        if left_s is None or not self.options.headless:
            yield
            return
        timer = asyncio.get_running_loop().call_later(left_s - _BEFORE_CAP_S, self.leave_requests_open)
        try:
            yield
        finally:
            timer.cancel()

    def _working_agents(self) -> list[str]:
        """Return the lead and the members that work and do not wait for a model call or an answer."""
        parked = self.requests.waiting_owners | set(self.agent_factory.budget_tracker.held.values())
        busy = [*([LEAD] if self.lead.busy else []), *(teammate.name for teammate in self.team.busy_members())]
        return [name for name in busy if name not in parked]

    async def finish(self, *, keep: bool = False) -> list[str]:
        """Wait up to `shutdown_timeout_s` for running turns, then stop all members; return those that were cut off.

        With `keep` all members keep their places, and a resume continues them: leaving a session is no reason for
        shutdown requests.
        """
        with suppress(TimeoutError):
            async with time_limit(self.team.settings.shutdown_timeout_s):
                while self.team.busy_members() or self.agents.has_background_runs() or self.integration.is_working:
                    self.team.changed.clear()
                    await self.team.changed.wait()
        return await self.stop_members(keep=keep)

    @property
    def agents(self) -> Subagents:
        """The sub-agents of the session."""
        return self.agent_factory.toolset.agents

    @property
    def permission_mode(self) -> str:
        """The lead's permission mode."""
        return str(self.modes.mode)

    @property
    def modes(self) -> SessionModes:
        """The modes of the lead and of its members."""
        return SessionModes(self.agent_factory, self.team, self.lead.agent, self._directory)

    async def close(self) -> None:
        """End everything that this session started; remaining members keep their places for a resume.

        May be called twice.
        """
        await self.agent_factory.plans.close()
        for task in (*self.compactions, *self.side_questions):
            task.cancel()
        await asyncio.gather(*self.side_questions, return_exceptions=True)
        await self.agents.end_background()
        self.requests.close("the session has ended")
        await self.stop_members("the session has ended", keep=True)
        reason = "prompt_input_exit" if self.options.interactive else "other"
        await self.agent_factory.toolset.hooking.fire_end(reason, self.permission_mode)
        await self.outside.close()
        await self.integration.close()
        if self.processes is not None:
            await self.processes.close()
        if self.requests.external_members is not None:
            await self.requests.external_members.close()
        await self.agents.close()
        await self.agent_factory.toolset.serving.close()
        await self.jobs.close()
        if self.team.exists and self.team.implicit:
            await self._leave_implicit()
        await self.agent_factory.close_worktrees(self.team)
        self.lead.agent.conversation.close()
        await self.models.aclose()
        if self.pruning is not None:
            await asyncio.wait({self.pruning})  # waits, because it logs the removed sessions
        self.log.close()
        self.lease.release()

    async def archive_team(self, name: str) -> None:
        """Archive a team of that name without a lead, also with open tasks."""
        for directory in await self.find_archivable_teams(name):
            await self.team.teams.archive(directory)

    async def find_archivable_teams(self, name: str) -> list[str]:
        """Return the directories of the teams of that name without a lead."""
        return await self.team.teams.find_without_lead(name)

    @property
    def _directory(self) -> Path:
        return self.agent_factory.session_directory

    def remove_files(self) -> None:
        """Remove the files of a session whose purpose could not begin. Only after `close`."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self.agent_factory.home.transcript(self.agent_factory.cwd, self.id).unlink(missing_ok=True)

    async def _leave_implicit(self) -> None:
        """Archive the session's own team when it has no member and no open task; without persistence in any case."""
        from teamwright.teams.incoming_mail import starts_turn

        external = self.team.external
        if external.files_removed:
            return
        if not self.options.persists and not external.external_names:
            await self._archive_own()
            return
        if (await self.team.roster.read()).teammates:
            return
        shared = self.team.external.shared_list
        found = await self.team.tasks.snapshot()
        still_open = not shared and (found.damaged or any(not task.is_finished for task in found.tasks))
        unread = await self.team.mailbox(LEAD).unread()
        if not still_open and not any(starts_turn(entry) for entry in unread):
            await self._archive_own()

    async def _archive_own(self) -> None:
        await self.team.teams.archive(self.team.directory)
        self.team.forget()

    @property
    def resume_command(self) -> str:
        """The command that resumes this session: by the name of its team, where members keep their places."""
        if not self.options.persists:
            return ""
        team = self.team
        members = team.members.values()
        present = any(m.state not in ENDED_STATES or m.state is MemberState.SUSPENDED or m.keeps_place for m in members)
        by_name = present and not team.implicit and not team.name.startswith("-")
        return command_with_home(f"teamwright resume {quote(team.name) if by_name else self.id[:8]}", self.options.home)

    def warn(self, text: str) -> None:
        """Emit a warning that belongs to no member."""
        self.log.emit(Notice(member=LEAD, text=text, level="warning"))

    def _elapsed(self) -> float:
        return time.monotonic() - self.started

    def _member_lines(self) -> tuple[MemberResult, ...]:
        budget_tracker = self.agent_factory.budget_tracker
        failed = self.tally.failed
        used = budget_tracker.with_subagents
        lead = MemberResult(
            LEAD,
            MemberState.LEADING,
            self.lead.agent.model.card.name,
            used.get(LEAD, Usage()),
            self.lead.turns,
            budget_tracker.context.get(LEAD, 0),
        )
        others = [
            MemberResult(
                name,
                MemberState.FAILED if state is MemberState.COMPLETED and name in failed else state,
                self.tally.models.get(name, ""),
                used.get(name, Usage()),
                context=budget_tracker.context.get(name, 0),
                error=failed.get(name, ""),
                ended=self.tally.end_cause(name, cut_off=name in self.cut_off),
            )
            for name, state in self.tally.states.items()
        ]
        return (lead, *others)
