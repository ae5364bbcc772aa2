"""The life of a sub-agent: its turns until nothing waits for it and nothing of its own runs.

Handed a ready agent and its queue; knows the loop and hooks; does not know who waits for the end, nor where.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal, Protocol, TypeAlias

from teamwright.agent.agent import Agent, NoSteering, SteeringInput, TurnEnd
from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.command_queue import to_user_message
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.loop import append_user_message, run_turn
from teamwright.agent.stop_hooks import join_turns, run_turn_with_stop_hooks
from teamwright.hooks.hook_index import SUBAGENT_STOP
from teamwright.protocol.events import FAILED_ATTEMPTS, Emit, ModelCallEnded, TeamEvent
from teamwright.teams.subagents.run import SubagentRun
from teamwright.teams.subagents.run_reports import OutputFile, end_notice, job_end_notice

RunningKind: TypeAlias = Literal["agents", "jobs", ""]
"""What of all that the agent started still runs: sub-agents of its own, or commands alone."""


class UnreportedRuns(Protocol):
    """The sub-agents of earlier lives whose ends may not have been told."""

    def unreported(self) -> list[SubagentRun]:
        """They, oldest first."""
        ...

    def mark_reported(self, ids: Iterable[str]) -> None:
        """Nobody needs to be told of these any more."""
        ...


class QueueSteering:
    """What comes for a busy sub-agent, before its next model call (the loop's steering)."""

    def __init__(self, run: SubagentRun) -> None:
        self._run = run

    async def next_input(self) -> SteeringInput | None:
        """All that waits, in order."""
        queue = self._run.queue
        if not queue:
            return None
        commands = queue.texts_in_order()
        what = to_user_message(commands)

        async def seen() -> None:
            queue.remove(commands)

        return SteeringInput(what.blocks, what.ids, seen)


async def run_subagent(
    run: SubagentRun,
    agent: Agent,
    opening: UserMessage | None,
    running_kind: Callable[[], RunningKind],
    patience_s: float,
) -> TurnEnd:
    """What its life came to: with these words, or without any where it stood. Raises as `run_until_done`."""
    talk = agent.conversation
    if opening is None and talk.items and not (talk.owes_answer or talk.interrupted):
        return TurnEnd("done", talk.text_since(talk.inherited_count))  # it was done, and killed before that was noted
    first = agent.tags.hook_notes(await agent.hooks.run_start_hooks())
    if opening is not None and first:
        words = (
            (*first, *opening.blocks) if talk.is_unstarted_fork else (*opening.blocks, *first)
        )  # a fork's job is last
        opening = UserMessage(words, opening.ids)
    return await run_until_done(run, agent, opening, running_kind, patience_s)


async def run_until_done(
    run: SubagentRun,
    agent: Agent,
    opening: UserMessage | None,
    running_kind: Callable[[], RunningKind],
    patience_s: float,
) -> TurnEnd:
    """Run the job to its end: hooks may keep it at work, messages and the ends of what it started are told first.

    It waits for its own sub-agents as long as they run, and `patience_s` seconds at most for its commands. Cancelling
    is re-raised; the transcript is in order then.
    """

    async def turns(agent: Agent, opening: UserMessage | None) -> TurnEnd:
        end = await run_turn(agent, opening)
        while end.stop == "done" and await _wait_for_input(run, running_kind, patience_s):
            end = join_turns(end, await run_turn(agent, _deliver_queue(run, agent)))
        return end

    async def goes_on(end: TurnEnd, again: bool) -> str:
        stopping = await agent.hooks.run_stop_hooks(SUBAGENT_STOP, end.text, again=again)
        return stopping.reason if stopping.blocked and not stopping.halted else ""

    end = await run_turn_with_stop_hooks(agent, opening, goes_on, turns)
    while end.stop == "done" and run.queue:  # it came while hooks were asked
        end = join_turns(end, await run_turn_with_stop_hooks(agent, _deliver_queue(run, agent), goes_on, turns))
    return end


def _deliver_queue(run: SubagentRun, agent: Agent) -> None:
    """Tell what waits; the turn that follows answers it."""
    commands = run.queue.texts_in_order()
    append_user_message(agent, to_user_message(commands))
    run.queue.remove(commands)


async def _wait_for_input(run: SubagentRun, running_kind: Callable[[], RunningKind], patience_s: float) -> bool:
    """Whether something waits for it; while what it started runs, something may still come."""
    with suppress(TimeoutError):
        while not run.queue and (what := running_kind()):
            run.input_arrived.clear()
            async with asyncio.timeout(patience_s if what == "jobs" else None):
                await run.input_arrived.wait()
    return bool(run.queue)


def record_events(run: SubagentRun, agent: Agent, file: OutputFile) -> Emit:
    """What it says goes into its file as it comes, and what it uses is counted, however it ends."""
    emit = agent.emit

    def now(event: TeamEvent) -> None:
        emit(event)
        if isinstance(event, ModelCallEnded):
            run.usage = event.usage if run.usage is None else run.usage + event.usage
            run.tokens, run.tool_calls = run.usage.tokens, run.tool_calls + event.tools
            if event.aside != FAILED_ATTEMPTS:
                file.write_answer(agent.conversation.last_content())

    return now


def release_agent(run: SubagentRun, agent: Agent, emit: Emit) -> None:
    """Its life is over: nothing leads back to the agent from its own parts, so that all of it is free at once.

    Without that each would wait for a search for garbage, which took a thirtieth of what a short run costs.
    """
    run.agent = None
    agent.emit, agent.steering = emit, NoSteering()
    agent.compaction.release()


def queue_lost_notices(
    run: SubagentRun, conversation: Conversation, jobs: BackgroundJobs, agents: UnreportedRuns
) -> None:
    """What it started ended with an earlier life of the session: it hears of each, once, before it goes on."""
    ended = [
        (jobs.mark_reported, job.id, job.key, job_end_notice(job)) for job in jobs.unreported() if job.owner == run.id
    ]
    ended += [
        (agents.mark_reported, one.id, one.notice_key, end_notice(one))
        for one in agents.unreported()
        if one.owner == run.id
    ]
    for settle, id, key, text in ended:
        if conversation.delivered_ids({f"notice:{key}"}):
            settle([id])
        else:
            run.queue.put_notice(conversation.tags, text, key)
