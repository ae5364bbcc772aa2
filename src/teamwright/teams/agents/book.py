"""All sub-agents of a session: started, waited for, moved to the background, written to, stopped, gone on with.

Each runs in a task of its own, so that interrupting whoever started it touches none that is in the background. The end
is on disk before anybody is told of it, and every end in the background is told once, to its owner. How an agent is
made is a port; who hears a notice is another. Knows no tool and no screen.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from teamwright.agent.agent import Agent
from teamwright.agent.background import BackgroundJobs
from teamwright.agent.commands import told
from teamwright.agent.conversation import Told
from teamwright.agent.forking.words import fork_words
from teamwright.agent.limits import SpawnLimits
from teamwright.protocol.blocks import text_block
from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import LimitExceeded, TeamRefused, TeamwrightError
from teamwright.protocol.events import Emit
from teamwright.protocol.ids import run_id
from teamwright.storage.started_task import start_task
from teamwright.teams.agents.journal import RunJournal, kept, spec_of
from teamwright.teams.agents.ledger import has_words, is_run_id, last_said, remembered
from teamwright.teams.agents.life import Pending, QueueSteering, let_go, lived, tell_lost_below, written
from teamwright.teams.agents.ports import AgentSettings, FromCall, SubagentBuilder, Teller
from teamwright.teams.agents.run import Run, find_run
from teamwright.teams.agents.words import RunFile, changed, it_runs, notification, words_from
from teamwright.teams.spec import SpawnSpec

LEFT = "the session was left"
"""Why one was stopped that ran when its session ended."""

INTERRUPTED = "the agent that waited for it was interrupted"
"""Why one was stopped in the foreground."""

GRACE_S = 5.0
"""How long a stopped sub-agent may take to wind up."""


class Agents:
    """The sub-agents of one session. `session` is its directory; `teller` is set before the first one ends."""

    def __init__(
        self,
        session: Path,
        builder: SubagentBuilder,
        jobs: BackgroundJobs,
        limits: SpawnLimits,
        emit: Emit,
        settings: AgentSettings,
    ) -> None:
        self.settings = settings
        self.builder = builder
        self.teller: Teller | None = None
        self._jobs = jobs
        self._limits = limits
        self._emit = emit
        self._scratch = session / "output"
        self._journal = RunJournal(session)
        self._live: dict[str, Run] = {}
        """Those that may run: what is asked with every start does not grow with those that ended."""
        self._starting = 0
        self._closed = False

    # ── what is there ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def runs(self) -> dict[str, Run]:
        """All runs of the session, of earlier lives too, oldest first."""
        return self._journal.runs

    def running(self, owner: str | None = None, *, background: bool | None = None) -> list[Run]:
        """Those that run, of one owner if given, in the background or in the foreground if said."""
        return [
            run
            for run in self._live.values()
            if run.running and owner in {None, run.owner} and (background is None or run.background is background)
        ]

    def pending(self) -> bool:
        """Whether any runs in the background: whoever waits for the end of all work waits for it."""
        return bool(self.running(background=True))

    def find(self, text: str) -> Run | None:
        """The run of that id or name; one that nothing but its transcript remembers is found by its id."""
        found = find_run(self.runs, text)
        if found is not None:
            return found
        id = text.strip()
        return remembered(id, self.builder.transcript_of(id), self._scratch / f"{id}.output") if is_run_id(id) else None

    def of_call(self, key: str) -> Run | None:
        """The run that a call began before a kill."""
        return next((run for run in self.runs.values() if run.key == key), None)

    def lost(self) -> list[Run]:
        """Runs of earlier lives whose owner may not know of their end, each with what it had said."""
        lost = self._journal.lost()
        for run in lost:
            run.text = run.text or last_said(run)
        return lost

    def settle(self, ids: Iterable[str]) -> None:
        """The owners of these know of their ends, or are no more."""
        for id in ids:
            self._journal.settle(self.runs[id])

    # ── beginning ─────────────────────────────────────────────────────────────────────────────────────────────

    def in_background(self, asked: bool) -> bool:
        """Whether one that is asked for in this way runs in the background."""
        return self.settings.background and (asked or self.settings.always)

    async def start(
        self,
        spec: SpawnSpec,
        owner: str,
        call: FromCall,
        *,
        background: bool,
        ready: Callable[[Agent], None] | None = None,
    ) -> Run:
        """Start one; `ready` is given the agent before its first turn.

        Raises TeamwrightError: a limit, a kind or a model that is not there; nothing runs then.
        """
        spec = self.builder.resolved(spec)
        self._check_room()
        id, transcript = self._new_id()
        run = Run(id, owner, self._scratch / f"{id}.output", transcript, kept(spec), spec.name, call.use, call.key)
        own = spec.definition is not None and spec.definition.background
        run.background = self.settings.background and (background or own)
        agent = await self._made(spec, owner, run)
        if ready is not None:
            ready(agent)
        words = fork_words(agent.tags, spec.prompt) if spec.fork else spec.prompt
        agent.conversation.queue(f"prompt:{run.id}", [text_block(words)])
        return self._begin(run, agent)

    async def go_on(self, run: Run, prompt: str, owner: str, call: FromCall, *, background: bool, id: str = "") -> Run:
        """Go on with one that has ended: all of its conversation, and the new words. Its id stays.

        Without words it goes on where a kill cut it off. `id` names the words of a message: they are told once. Raises
        as `start`, and TeamRefused for one that runs.
        """
        async with run.lock:
            return await self._go_on(run, prompt, owner, call, background=background, id=id)

    async def _go_on(self, run: Run, prompt: str, owner: str, call: FromCall, *, background: bool, id: str) -> Run:
        if run.running and run.task is not None:
            raise it_runs(run)
        if run.task is not None:
            await asyncio.wait({run.task})  # its former life ends what it left and tells of its end first
        self._check_room()
        spec = self.builder.resolved(spec_of(run, prompt))
        before = run.call, run.key
        run.call, run.key = (call.use, call.key) if prompt else before
        try:
            agent = await self._made(spec, owner, run, goes_on=True)
        except BaseException:
            run.call, run.key = before
            raise
        talk = agent.conversation
        if run.task is None and run.state == "killed" and run.owner == owner:
            self.withdraw(owner, run.notice_key)  # a kill ended it, and it runs again before that was told
        tell_lost_below(run, talk, self._jobs, self)
        words = words_from(owner if id else run.owner, run, talk.tags, prompt)
        run.owner, run.background = owner, background
        if prompt:
            run.generation, run.answers_before = run.generation + 1, talk.answers
            talk.queue(id or f"prompt:{call.key or run_id()}-{run.generation}", [words])
        return self._begin(run, agent)

    def _begin(self, run: Run, agent: Agent) -> Run:
        """Its words are in its transcript already: from here on a kill loses none of them."""
        for id, blocks in agent.conversation.queued.items():
            run.queue.put("lead", blocks, id)
        commands = run.queue.inline()
        run.queue.done(commands)
        opening = told(commands) if commands else None
        run.begins()
        run.agent, run.transcript, run.started_ms = agent, agent.conversation.path, now_ms()
        agent.steering = QueueSteering(run)
        file = RunFile(run.file)
        agent.emit = written(run, agent, file)
        if run.background:
            run.released.set()
        self.runs.pop(run.id, None)
        self.runs[run.id] = self._live[run.id] = run
        self._journal.begun(run)
        file.begin(run)
        self._emit(changed(run))
        run.task = start_task(self._life(run, agent, opening, file), f"sub-agent {run.id}")
        return run

    async def _made(self, spec: SpawnSpec, owner: str, run: Run, *, goes_on: bool = False) -> Agent:
        """The agent of a run: counted while it is made, and let go where the session has ended meanwhile."""
        self._starting += 1
        try:
            agent = await self.builder.subagent(spec, owner, run, goes_on=goes_on)
        finally:
            self._starting -= 1
        if self._closed:
            agent.conversation.close()
            self._check_room()
        return agent

    def _check_room(self) -> None:
        if self._closed:
            raise LimitExceeded("limit", "the session has ended", note="nothing was started")
        self._limits.check_agents(len(self.running()) + self._starting)

    def _new_id(self) -> tuple[str, Path]:
        while (id := run_id()) in self.runs or os.path.exists(path := self.builder.transcript_of(id)):
            pass
        return id, path

    # ── a life ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _life(self, run: Run, agent: Agent, opening: Told | None, file: RunFile) -> None:
        started, begun = time.monotonic(), agent.conversation.length
        outcome = "cancelled"
        try:
            end = await lived(run, agent, opening, lambda: self._pending(run.id), self.settings.jobs_wait_s)
            outcome = end.stop
            run.ends(end)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()  # it is heeded here: what follows is seen through
            by_us = run.cause or self._closed
            run.state = "killed" if by_us else "failed"
            run.why = run.cause or (LEFT if self._closed else "it was cancelled from inside")
            run.text = agent.conversation.said_since(begun)
        except Exception as problem:
            outcome, run.state, run.error = "failed", "failed", problem
            run.why = problem.what if isinstance(problem, TeamwrightError) else f"{type(problem).__name__}: {problem}"
            run.text = agent.conversation.said_since(begun)
        run.duration_ms = int((time.monotonic() - started) * 1000)
        await self._over(run, agent, outcome, file)

    def _pending(self, id: str) -> Pending:
        jobs = any(job.state == "running" for job in self._jobs.list(id))
        return "agents" if self.running(id) else "jobs" if jobs else ""

    async def _over(self, run: Run, agent: Agent, outcome: str, file: RunFile) -> None:
        """It has ended: that stands on disk first, then whoever waits is released, then what it left is ended."""
        run.unread = len(run.queue)
        run.queue.done(run.queue.inline())
        agent.conversation.close()
        agent.hooks.ended(outcome, run.why, run.text)
        file.end(run)
        self._journal.ended(run)
        self._live.pop(run.id, None)
        let_go(run, agent, self._emit)
        run.over()
        if (above := self.runs.get(run.owner)) is not None:
            above.moved.set()
        self._emit(changed(run))
        await self._end_what_it_started(run)
        if self.teller is None:
            return
        heard = (
            run.read
            or not run.background
            or self._closed
            or self.teller.tell(run.owner, notification(run), run.notice_key)
        )
        if not heard:
            self._journal.settle(run)
        self.teller.moved()

    async def _end_what_it_started(self, run: Run) -> None:
        with suppress(ExceptionGroup, OSError):
            await self._jobs.stop_all(run.id)
        if self.running(run.id):
            await self.stop_all(run.id, "the agent that started it has ended")

    # ── waiting ───────────────────────────────────────────────────────────────────────────────────────────────

    async def in_foreground(self, run: Run) -> bool:
        """Wait for the end; False when it went to the background meanwhile.

        Cancelling stops one that did not, and is re-raised.
        """
        try:
            async with asyncio.timeout(self.settings.background_after_s if self.settings.background else None):
                await run.released.wait()
        except TimeoutError:
            self.to_background(run)
        except asyncio.CancelledError:
            if not run.background:
                await self.stop(run, INTERRUPTED)
            raise
        return not run.background

    def to_background(self, run: Run) -> bool:
        """Let it go on in the background, nothing lost; its caller goes on at once. False: it does not run there."""
        if run.background or not run.running or not self.settings.background:
            return False
        run.let_go()
        self._journal.moved(run)
        self._emit(changed(run))
        return True

    async def wait(self, run: Run, timeout_s: float) -> bool:
        """Wait for the end, at most so long; whether it has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await run.ended.wait()
        return run.ended.is_set()

    def consume(self, run: Run) -> None:
        """Its owner reads the end now, in a call: a notice would tell it twice."""
        run.read = True
        self.withdraw(run.owner, run.notice_key)
        self._journal.settle(run)

    def withdraw(self, owner: str, key: str) -> bool:
        """Take back a notice that its owner was not told yet; whether there was one."""
        return self.teller is not None and self.teller.withdraw(owner, key)

    # ── writing to one ────────────────────────────────────────────────────────────────────────────────────────

    async def send(self, run: Run, text: str, sender: str, call: FromCall) -> bool:
        """Words for it: a running one has them in its transcript at once, one that ended goes on with them.

        Returns whether it was running. Raises as `start`, StorageError.
        """
        id = f"prompt:{call.key or run_id()}"
        async with run.lock:
            agent = run.agent
            if call.again and await asyncio.to_thread(has_words, run.transcript, id):
                if run.state == "killed":
                    await self._go_on(run, "", sender, call, background=True, id="")
                return run.running
            if run.running and agent is not None and not run.ended.is_set():
                words = words_from(sender, run, agent.tags, text)
                agent.conversation.queue(id, [words])
                run.queue.put("lead", (words,), id)
                run.moved.set()
                return True
            if not self.settings.background:
                raise TeamRefused(
                    "team-refused",
                    f"{run.id} has ended, and nothing runs in the background here",
                    do=[f'Agent with resume "{run.id}" continues it.'],
                    note="nothing was sent",
                )
            await self._go_on(run, text, sender, call, background=True, id=id)
            return False

    def heard(self, id: str, text: str, key: str) -> bool:
        """A notice for a sub-agent: a job of its own has ended. False when it does not run."""
        run = self.runs.get(id)
        if run is None or not run.running or run.agent is None:
            return False
        run.queue.notice(run.agent.tags, text, key)
        run.moved.set()
        return True

    # ── ending ────────────────────────────────────────────────────────────────────────────────────────────────

    async def stop(self, run: Run, cause: str) -> None:
        """Stop it: what it had said stays, and is told in a notice if nobody waits. One that comes is stopped then."""
        if run.comes and not self._closed:
            async with run.lock:
                pass
        task = run.task
        if task is None or task.done():
            return
        if run.running and not run.ended.is_set():
            run.cause = run.cause or cause
            task.cancel()
        await asyncio.wait({task}, timeout=GRACE_S)

    async def stop_all(self, owner: str, cause: str) -> None:
        """Stop all of one owner."""
        await asyncio.gather(*(self.stop(run, cause) for run in self.running(owner)))

    async def end_background(self) -> None:
        """Nothing is started any more, and what is in the background ends; the others end with those who wait."""
        self._closed = True
        await asyncio.gather(*(self.stop(run, LEFT) for run in self.running(background=True)))

    async def close(self) -> None:
        """End everything; nobody is told now, owners hear of it when the session goes on. May be called twice."""
        await self.end_background()
        tasks = [run.task for run in self.runs.values() if run.task is not None and not run.task.done()]
        await asyncio.gather(*(self.stop(run, LEFT) for run in self.running()))
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)
        self._journal.close()
