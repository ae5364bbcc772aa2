"""The turns of a sub-agent: they run until it has no input and nothing that it started is running.

Depends on a built agent and its queue, the agent loop and hooks. The wait for its end is left to `registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal, Protocol, TypeAlias

from msgspec.structs import replace

from teamwright.agent.agent import Agent, TurnEnd, to_user_message
from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.turn_loop import run_turn
from teamwright.hooks.hook_definitions import SUBAGENT_STOP
from teamwright.hooks.hook_outcome import HookOutcome
from teamwright.protocol.events import Emit, ModelCallEnded, TeamEvent
from teamwright.protocol.time_limit import time_limit
from teamwright.subagents.reports import OutputFile, end_notice, job_end_notice
from teamwright.subagents.subagent_run import SubagentRun

RunningKind: TypeAlias = Literal["agents", "jobs", ""]
"""The running things that the agent started: sub-agents, or only commands."""


class UnreportedRuns(Protocol):
    """The sub-agents of earlier processes whose ends may be unreported."""

    def unreported(self) -> list[SubagentRun]:
        """Return these runs, oldest first."""
        ...

    def mark_reported(self, ids: Iterable[str]) -> None:
        """Mark the ends of these runs as reported."""


class QueueSteering:
    """The input of a busy sub-agent, before its next model call (the loop's steering)."""

    def __init__(self, run: SubagentRun) -> None:
        self._run = run

    async def next_input(self) -> UserMessage | None:
        """Return all queued input, in order."""
        queue = self._run.queue
        if not queue:
            return None
        commands = queue.texts_in_order()

        async def seen() -> None:
            queue.remove(commands)

        return replace(to_user_message(commands), on_delivered=seen)


async def run_subagent(
    run: SubagentRun,
    agent: Agent,
    opening: UserMessage | None,
    running_kind: Callable[[], RunningKind],
    patience_s: float,
) -> TurnEnd:
    """Run the job with this input, or continue without one, to its end. Return its last turn end.

    Hooks may continue it; messages and the ends of what it started are delivered first. It waits for its own sub-agents
    as long as they run, and `patience_s` seconds at most for its commands. Cancelling is re-raised; the transcript is
    in order then.
    """
    talk = agent.conversation
    if opening is None and talk.items and not (talk.owes_answer or talk.interrupted):
        # it was done, and killed before the end was recorded
        return TurnEnd("done", talk.text_since(talk.inherited_count))
    first = agent.tags.hook_notes(await agent.hooks.run_start_hooks())
    if opening is not None and first:
        words = (
            (*first, *opening.blocks) if talk.is_unstarted_fork else (*opening.blocks, *first)
        )  # a fork's job comes last
        opening = UserMessage(words, opening.ids)
    steering = QueueSteering(run)

    async def late_input() -> UserMessage | None:
        with suppress(TimeoutError):  # while what it started is running
            while not run.queue and (what := running_kind()):
                run.input_arrived.clear()
                async with time_limit(patience_s if what == "jobs" else None):
                    await run.input_arrived.wait()
        return await steering.next_input()

    async def ask_hooks(end: TurnEnd, again: bool) -> HookOutcome:
        return await agent.hooks.run_stop_hooks(SUBAGENT_STOP, end.text, again=again)

    return await run_turn(agent, opening, steering, ask_hooks=ask_hooks, late_input=late_input)


class RunEvents:
    """The emitter of a sub-agent: it writes its output into its file and counts its usage, with any kind of end."""

    def __init__(self, run: SubagentRun, emit: Emit) -> None:
        self._run = run
        self._emit = emit
        self._file = OutputFile(run.output_file)

    def __call__(self, event: TeamEvent) -> None:
        """Emit an event of the sub-agent."""
        self._emit(event)
        run = self._run
        if isinstance(event, ModelCallEnded):
            run.usage = event.usage if run.usage is None else run.usage + event.usage
            run.tokens = run.usage.tokens
            run.tool_calls += event.tools
            if not event.aside and run.agent is not None:
                self._file.write_answer(run.agent.conversation.last_content())


def release_agent(run: SubagentRun, agent: Agent) -> None:
    """Release the agent of an ended run: no part refers back to the agent, so that all of it is freed at once.

    Otherwise each would wait for a garbage collection, which took a thirtieth of the cost of a short run.
    """
    run.agent = None
    agent.compaction.release()


def queue_lost_notices(
    run: SubagentRun, conversation: Conversation, jobs: BackgroundJobs, agents: UnreportedRuns
) -> None:
    """Queue a notice, once, for each thing it started that ended with an earlier process of the session."""
    ended = [
        (jobs.mark_reported, job.id, job.key, job_end_notice(job)) for job in jobs.unreported() if job.owner == run.id
    ]
    ended += [
        (agents.mark_reported, one.id, one.notice_key, end_notice(one))
        for one in agents.unreported()
        if one.owner == run.id
    ]
    for settle, id, key, notice in ended:
        if conversation.delivered_ids({f"notice:{key}"}):
            settle([id])
        else:
            run.queue.put_notice(conversation.tags, notice, key)
