"""All sub-agents of a session: start, wait, move to the background, send, stop and resume.

Each runs in a separate task, so that interrupting its caller affects no background run. An end is on disk before any
notice, and every end in the background causes one notice to its owner. Agents are built and owners notified through
ports.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.agent.agent import Agent, to_user_message
from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.conversation import UserMessage
from teamwright.agent.fork_origin import fork_prompt
from teamwright.agent.spawn_limits import SpawnLimits
from teamwright.protocol.errors import LimitExceeded, TeamRefused, TeamwrightError
from teamwright.protocol.events import Emit
from teamwright.protocol.ids import now_ms, run_id
from teamwright.protocol.messages import text_block
from teamwright.protocol.program_log import log_failure
from teamwright.protocol.runtime_tags import TaskEnd
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.asyncio_task import start_task
from teamwright.subagents.journal import (
    SubagentRuns,
    has_prompt,
    restore_counts,
    restore_spec,
    show_to_readers,
    stored_spec,
)
from teamwright.subagents.reports import (
    OutputFile,
    end_notice,
    is_running_error,
    prompt_block,
    subagent_event,
)
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.subagents.subagent_settings import CallRef, OwnerNotifier, SubagentBuilder, SubagentSettings

if TYPE_CHECKING:
    from teamwright.subagents.run_loop import RunningKind
    from teamwright.team_records.spawn_spec import SpawnSpec

SESSION_ENDED = "the session was left"
"""The cause of a stop at the end of the session."""

INTERRUPTED = "the agent that waited for it was interrupted"
"""The cause of a stop in the foreground."""

GRACE_S = 5.0
"""Seconds that a stopped sub-agent may take to end."""


class Subagents(SubagentRuns):
    """The sub-agents of one session. `session` is its directory; the notifier of owners is set before the first end."""

    def __init__(
        self,
        session: Path,
        builder: SubagentBuilder,
        jobs: BackgroundJobs,
        limits: SpawnLimits,
        emit: Emit,
        settings: SubagentSettings,
    ) -> None:
        super().__init__(session, builder.transcript_path)
        self.settings = settings
        self.builder = builder
        self.notifier: OwnerNotifier | None = None
        self._jobs = jobs
        self._limits = limits
        self._emit = emit
        self._starting = 0
        self._closed = False

    # ── start ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def runs_in_background(self, requested: bool) -> bool:
        """Return True when a run with this request runs in the background."""
        return bool(self.settings.background) and (requested or self.settings.always_background)

    async def start(
        self,
        spec: SpawnSpec,
        owner: str,
        call: CallRef,
        *,
        background: bool,
        before_first_turn: Callable[[Agent], None] | None = None,
    ) -> SubagentRun:
        """Start a run; `before_first_turn` receives its agent.

        Raises TeamwrightError for a limit, an unknown type or model; nothing runs then.
        """
        spec = self.builder.resolve(spec)
        self._check_limit()
        while (id := run_id()) in self.runs or os.path.exists(transcript := self.builder.transcript_path(id)):
            pass
        run = SubagentRun(
            id,
            owner,
            self._scratch / f"{id}.output",
            transcript,
            stored_spec(spec),
            spec.name,
            call.tool_use_id,
            call.key,
        )
        own = spec.definition is not None and spec.definition.background
        run.background = bool(self.settings.background) and (background or own)
        agent = await self._build_agent(spec, owner, run)
        if before_first_turn is not None:
            before_first_turn(agent)
        words = fork_prompt(agent.tags, run.fork_job(spec.prompt)) if spec.fork else spec.prompt
        agent.conversation.queue(f"prompt:{run.id}", [text_block(words)])
        show_to_readers(run, owner if owner in self.runs else "")
        return self._start_run(run, agent)

    async def resume(
        self, run: SubagentRun, prompt: str, owner: str, call: CallRef, *, background: bool, id: str = ""
    ) -> SubagentRun:
        """Resume an ended run with its whole conversation and the new text. Its id stays.

        Without a text it continues where a kill interrupted it. `id` names the message of the text, which is delivered
        once. Raises as `start`, and TeamRefused for a running one.
        """
        async with run.lock:
            return await self._resume(run, prompt, owner, call, background=background, id=id)

    async def _resume(
        self, run: SubagentRun, prompt: str, owner: str, call: CallRef, *, background: bool, id: str
    ) -> SubagentRun:
        from teamwright.subagents.run_loop import queue_lost_notices

        if run.is_running and run.task is not None:
            raise is_running_error(run)
        if run.task is not None:
            await asyncio.wait({run.task})  # its earlier generation ends first, with its own notice
        self._check_limit()
        spec = self.builder.resolve(restore_spec(run, prompt))
        before = run.call, run.key
        run.call, run.key = (call.tool_use_id, call.key) if prompt else before
        try:
            agent = await self._build_agent(spec, owner, run, resumed=True)
        except BaseException:
            run.call, run.key = before
            raise
        talk = agent.conversation
        if run.task is None and run.state == "killed" and run.owner == owner:
            self.withdraw(owner, run.notice_key)  # a kill ended it, and it runs again before the notice
        queue_lost_notices(run, talk, self._jobs, self)
        words = prompt_block(owner if id else run.owner, run, talk.tags, prompt)
        run.owner = owner
        run.background = background
        if not prompt and run.usage is None:
            restore_counts(run)
        if prompt:
            run.next_generation(talk.answer_count)
            talk.queue(id or f"prompt:{call.key or run_id()}-{run.generation}", [words])
        return self._start_run(run, agent)

    def _start_run(self, run: SubagentRun, agent: Agent) -> SubagentRun:
        """Start the run's task. The text is in the transcript already, so that no kill loses it."""
        for id, blocks in agent.conversation.queued.items():
            run.queue.put("lead", blocks, id)
        commands = run.queue.texts_in_order()
        run.queue.remove(commands)
        opening = to_user_message(commands) if commands else None
        run.reset()
        run.agent = agent
        run.transcript = agent.conversation.path
        run.started_ms = now_ms()
        file = OutputFile(run.output_file)
        if run.background:
            run.released.set()
        self.runs.pop(run.id, None)
        self.runs[run.id] = self._running[run.id] = run
        self._journal.record_start(run)
        file.write_head(run)
        self._emit(subagent_event(run))
        run.task = start_task(self._run(run, agent, opening, file), f"sub-agent {run.id}")
        return run

    async def _build_agent(self, spec: SpawnSpec, owner: str, run: SubagentRun, *, resumed: bool = False) -> Agent:
        """Build the agent of a run: it counts during the build, and is released when the session has
        ended in between.
        """
        from teamwright.subagents.run_loop import RunEvents

        self._starting += 1
        try:
            agent = await self.builder.build_subagent(spec, owner, run, RunEvents(run, self._emit), resumed=resumed)
        finally:
            self._starting -= 1
        if self._closed:
            agent.conversation.close()
            self._check_limit()
        return agent

    def _check_limit(self) -> None:
        if self._closed:
            raise LimitExceeded("limit", "the session has ended", note="nothing was started")
        self._limits.check_subagents(len(self.running_runs()) + self._starting)

    # ── one run ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self, run: SubagentRun, agent: Agent, opening: UserMessage | None, file: OutputFile) -> None:
        from teamwright.subagents.run_loop import run_subagent

        started = time.monotonic()
        begun = agent.conversation.message_count
        outcome = "cancelled"
        try:
            end = await run_subagent(run, agent, opening, lambda: self._running_kind(run.id), self.settings.jobs_wait_s)
            outcome = end.stop
            run.record_turn_end(end)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()  # the cancellation is handled here: the next steps are completed
            by_us = run.cause or self._closed
            run.state = "killed" if by_us else "failed"
            run.failure_reason = run.cause or (SESSION_ENDED if self._closed else "it was cancelled from inside")
            run.text = agent.conversation.text_since(begun)
        except Exception as problem:
            outcome = "failed"
            run.state = "failed"
            run.error = problem
            if not isinstance(problem, TeamwrightError):
                log_failure(f"the sub-agent {run.id} failed", problem)
            run.failure_reason = (
                problem.what if isinstance(problem, TeamwrightError) else f"{type(problem).__name__}: {problem}"
            )
            run.text = agent.conversation.text_since(begun)
        run.duration_ms += int((time.monotonic() - started) * 1000)
        await self._end_run(run, agent, outcome, file)

    def _running_kind(self, id: str) -> RunningKind:
        jobs = any(job.state == "running" for job in self._jobs.list(id))
        return "agents" if self.running_runs(id) else "jobs" if jobs else ""

    async def _end_run(self, run: SubagentRun, agent: Agent, outcome: str, file: OutputFile) -> None:
        """End a run: write the end to disk, then release the waiting caller, then stop what the run left."""
        from teamwright.subagents.run_loop import release_agent

        run.unread_messages = len(run.queue)
        run.queue.remove(run.queue.texts_in_order())
        agent.conversation.close()
        if "worktree" in run.spec_fields:
            await self._stop_children(run)  # what they write last is still reported, and no directory goes from them
        await self.builder.end_subagent(run)
        agent.hooks.note_end(outcome, run.failure_reason, run.text)
        file.write_end(run)
        self._journal.record_end(run)
        self._running.pop(run.id, None)
        release_agent(run, agent)
        run.set_ended()
        if (above := self.runs.get(run.owner)) is not None:
            above.input_arrived.set()
        self._emit(subagent_event(run))
        await self._stop_children(run)
        if self.notifier is None:
            return
        heard = (
            run.result_read
            or not run.background
            or self._closed
            or self.notifier.notify(run.owner, end_notice(run), run.notice_key)
        )
        if not heard:
            self._journal.record_reported(run)
        self.notifier.notify_change()

    async def _stop_children(self, run: SubagentRun) -> None:
        with suppress(ExceptionGroup, OSError):
            await self._jobs.stop_all(run.id)
        if self.running_runs(run.id):
            await self.stop_all(run.id, "the agent that started it has ended")

    # ── wait ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def wait_in_foreground(self, run: SubagentRun) -> bool:
        """Wait for the end; False when the run moved to the background.

        Cancelling stops a foreground run, and is re-raised.
        """
        try:
            async with time_limit(self.settings.background_after_s if self.settings.background else None):
                await run.released.wait()
        except TimeoutError:
            self.move_to_background(run)
        except asyncio.CancelledError:
            if not run.background:
                await self.stop(run, INTERRUPTED)
            raise
        return not run.background

    def move_to_background(self, run: SubagentRun) -> bool:
        """Move the run to the background without loss; its caller continues at once. False: it is not in the
        foreground.
        """
        if run.background or not run.is_running or not self.settings.background:
            return False
        run.move_to_background()
        self._journal.record_move(run)
        self._emit(subagent_event(run))
        return True

    async def wait(self, run: SubagentRun, timeout_s: float) -> bool:
        """Wait for the end, at most `timeout_s` seconds. Returns True when it has ended."""
        with suppress(TimeoutError):
            async with time_limit(timeout_s):
                await run.ended.wait()
        return run.ended.is_set()

    def mark_read(self, run: SubagentRun) -> None:
        """Record that its owner read the end in a call: a notice would repeat it."""
        run.result_read = True
        self.withdraw(run.owner, run.notice_key)
        self._journal.record_reported(run)

    def withdraw(self, owner: str, key: str) -> bool:
        """Withdraw an undelivered notice. Returns True when there was one."""
        return self.notifier is not None and self.notifier.withdraw(owner, key)

    # ── send ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def send(self, run: SubagentRun, text: str, sender: str, call: CallRef) -> bool:
        """Send a text to the run: a running one has it in its transcript at once, an ended one resumes with it.

        Returns whether it was running. Raises as `start`, StorageError.
        """
        id = f"prompt:{call.key or run_id()}"
        async with run.lock:
            agent = run.agent
            if call.is_rerun and await asyncio.to_thread(has_prompt, run.transcript, id):
                if run.state == "killed":
                    await self._resume(run, "", sender, call, background=True, id="")
                return run.is_running
            if run.is_running and agent is not None and not run.ended.is_set():
                words = prompt_block(sender, run, agent.tags, text)
                agent.conversation.queue(id, [words])
                run.queue.put("lead", (words,), id)
                run.input_arrived.set()
                return True
            if not self.settings.background:
                raise TeamRefused(
                    "team-refused",
                    f"{run.id} has ended, and nothing runs in the background here",
                    do=[f'Agent with resume "{run.id}" continues it.'],
                    note="nothing was sent",
                )
            await self._resume(run, text, sender, call, background=True, id=id)
            return False

    def notify_run(self, id: str, notice: str | TaskEnd, key: str) -> bool:
        """Notify a sub-agent of the end of one of its jobs. False when it does not run."""
        run = self.runs.get(id)
        if run is None or not run.is_running or run.agent is None:
            return False
        run.queue.put_notice(run.agent.tags, notice, key)
        run.input_arrived.set()
        return True

    # ── end ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def stop(self, run: SubagentRun, cause: str) -> None:
        """Stop the run: its text so far stays, and goes into a notice when no caller waits. A run that is starting is
        stopped then.
        """
        if run.is_resuming and not self._closed:
            async with run.lock:
                pass
        task = run.task
        if task is None or task.done():
            return
        if run.is_running and not run.ended.is_set():
            run.cause = run.cause or cause
            task.cancel()
        await asyncio.wait({task}, timeout=GRACE_S)

    async def stop_all(self, owner: str, cause: str) -> None:
        """Stop all runs of one owner."""
        await asyncio.gather(*(self.stop(run, cause) for run in self.running_runs(owner)))

    async def end_owned(self, owner: str) -> None:
        """End the sub-agents and the background commands of an agent that has ended."""
        await self.stop_all(owner, "the agent that started it has ended")
        await self._jobs.stop_all(owner)

    async def end_background(self) -> None:
        """End the background runs and prevent new starts; the other runs end with their waiting callers."""
        self._closed = True
        await asyncio.gather(*(self.stop(run, SESSION_ENDED) for run in self.running_runs(background=True)))

    async def close(self) -> None:
        """End everything without notices; owners are notified when the session resumes. May be called twice."""
        await self.end_background()
        tasks = [run.task for run in self.runs.values() if run.task is not None and not run.task.done()]
        await asyncio.gather(*(self.stop(run, SESSION_ENDED) for run in self.running_runs()))
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)
        self._journal.close()
