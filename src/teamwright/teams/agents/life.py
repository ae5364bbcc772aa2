"""The life of a sub-agent: its turns until nothing waits for it and nothing of its own runs.

Handed a ready agent and its queue; knows the loop and hooks; does not know who waits for the end, nor where.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal, Protocol, TypeAlias

from teamwright.agent.agent import Agent, NoSteering, Steered, TurnEnd
from teamwright.agent.background import BackgroundJobs
from teamwright.agent.commands import told
from teamwright.agent.conversation import Conversation, Told
from teamwright.agent.loop import run_turn, tell
from teamwright.agent.stopping import both, run_past_stops
from teamwright.hooks.book import SUBAGENT_STOP
from teamwright.protocol.events import FAILED, Emit, RoundEnded, TeamEvent
from teamwright.teams.agents.run import Run
from teamwright.teams.agents.words import RunFile, job_notification, notification

Pending: TypeAlias = Literal["agents", "jobs", ""]
"""What of all that the agent started still runs: sub-agents of its own, or commands alone."""


class Below(Protocol):
    """The sub-agents of earlier lives whose ends may not have been told."""

    def lost(self) -> list[Run]:
        """They, oldest first."""
        ...

    def settle(self, ids: Iterable[str]) -> None:
        """Nobody needs to be told of these any more."""
        ...


class QueueSteering:
    """What comes for a busy sub-agent, before its next model call (the loop's steering)."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def between_rounds(self) -> Steered | None:
        """All that waits, in order."""
        queue = self._run.queue
        if not queue:
            return None
        commands = queue.inline()
        what = told(commands)

        async def seen() -> None:
            queue.done(commands)

        return Steered(what.blocks, what.ids, seen)


async def lived(
    run: Run, agent: Agent, opening: Told | None, pending: Callable[[], Pending], patience_s: float
) -> TurnEnd:
    """What its life came to: with these words, or without any where it stood. Raises as `see_through`."""
    talk = agent.conversation
    if opening is None and talk.items and not (talk.owes_round or talk.interrupted):
        return TurnEnd("done", talk.said_since(talk.inherited))  # it was done, and killed before that was noted
    first = agent.tags.hook_notes(await agent.hooks.began())
    if opening is not None and first:
        words = (*first, *opening.blocks) if talk.unbegun else (*opening.blocks, *first)  # a fork's job is last
        opening = Told(words, opening.ids)
    return await see_through(run, agent, opening, pending, patience_s)


async def see_through(
    run: Run, agent: Agent, opening: Told | None, pending: Callable[[], Pending], patience_s: float
) -> TurnEnd:
    """Run the job to its end: hooks may keep it at work, messages and the ends of what it started are told first.

    It waits for its own sub-agents as long as they run, and `patience_s` seconds at most for its commands. Cancelling
    is re-raised; the transcript is in order then.
    """

    async def turns(agent: Agent, opening: Told | None) -> TurnEnd:
        end = await run_turn(agent, opening)
        while end.stop == "done" and await _something(run, pending, patience_s):
            end = both(end, await run_turn(agent, _next(run, agent)))
        return end

    async def goes_on(end: TurnEnd, again: bool) -> str:
        stopping = await agent.hooks.may_stop(SUBAGENT_STOP, end.text, again=again)
        return stopping.reason if stopping.blocked and not stopping.halted else ""

    end = await run_past_stops(agent, opening, goes_on, turns)
    while end.stop == "done" and run.queue:  # it came while hooks were asked
        end = both(end, await run_past_stops(agent, _next(run, agent), goes_on, turns))
    return end


def _next(run: Run, agent: Agent) -> None:
    """Tell what waits; the turn that follows answers it."""
    commands = run.queue.inline()
    tell(agent, told(commands))
    run.queue.done(commands)


async def _something(run: Run, pending: Callable[[], Pending], patience_s: float) -> bool:
    """Whether something waits for it; while what it started runs, something may still come."""
    with suppress(TimeoutError):
        while not run.queue and (what := pending()):
            run.moved.clear()
            async with asyncio.timeout(patience_s if what == "jobs" else None):
                await run.moved.wait()
    return bool(run.queue)


def written(run: Run, agent: Agent, file: RunFile) -> Emit:
    """What it says goes into its file as it comes, and what it uses is counted, however it ends."""
    emit = agent.emit

    def now(event: TeamEvent) -> None:
        emit(event)
        if isinstance(event, RoundEnded):
            run.usage = event.usage if run.usage is None else run.usage + event.usage
            run.tokens, run.tools = run.usage.tokens, run.tools + event.tools
            if event.aside != FAILED:
                file.said(agent.conversation.last_content())

    return now


def let_go(run: Run, agent: Agent, emit: Emit) -> None:
    """Its life is over: nothing leads back to the agent from its own parts, so that all of it is free at once.

    Without that each would wait for a search for garbage, which took a thirtieth of what a short run costs.
    """
    run.agent = None
    agent.emit, agent.steering = emit, NoSteering()
    agent.compaction.let_go()


def tell_lost_below(run: Run, talk: Conversation, jobs: BackgroundJobs, agents: Below) -> None:
    """What it started ended with an earlier life of the session: it hears of each, once, before it goes on."""
    ended = [(jobs.settle, job.id, job.key, job_notification(job)) for job in jobs.lost() if job.owner == run.id]
    ended += [
        (agents.settle, one.id, one.notice_key, notification(one)) for one in agents.lost() if one.owner == run.id
    ]
    for settle, id, key, text in ended:
        if talk.holds({f"notice:{key}"}):
            settle([id])
        else:
            run.queue.notice(talk.tags, text, key)
