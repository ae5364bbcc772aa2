"""Keeping at work: what hooks say when a teammate is about to rest, and of the tasks that it has not finished.

Knows hooks and tasks; does not know the teammate, which decides what becomes of the answer.
"""

from __future__ import annotations

from typing import Protocol

from teamwright.agent.agent import TurnEnd
from teamwright.agent.hooked import AgentHooks
from teamwright.hooks.book import TASK_COMPLETED, TEAMMATE_IDLE
from teamwright.hooks.outcome import Outcome
from teamwright.hooks.payload import task_event
from teamwright.protocol.task import Task
from teamwright.protocol.values import dataclass


class Holding(Protocol):
    """Who knows which tasks a member has."""

    async def held_by(self, name: str) -> list[Task]:
        """The tasks that this member has in progress."""
        ...


@dataclass(frozen=True, slots=True)
class Kept:
    """`why` it goes on, empty when it may rest; `ends`: a hook would have it end for good, and why."""

    why: str = ""
    ends: str = ""


async def kept_at_work(hooks: AgentHooks, name: str, holding: Holding, end: TurnEnd, *, again: bool) -> Kept:
    """What `TeammateIdle` hooks say, then `TaskCompleted` hooks of each task that is still in progress."""
    kept = _kept(await hooks.may_stop(TEAMMATE_IDLE, end.text, again=again))
    if kept.why or kept.ends or not hooks.hooks.wants(TASK_COMPLETED):
        return kept
    for task in await holding.held_by(name):
        told = task_event(task.id, task.subject, task.description, name, hooks.who.team)
        kept = _kept(await hooks.fire(TASK_COMPLETED, lambda told=told: told), f"task #{task.id}: ")
        if kept.why or kept.ends:
            break
    return kept


def _kept(said: Outcome, about: str = "") -> Kept:
    if said.halted:
        return Kept(ends=f"ended by a hook: {about}{said.halt_reason}")
    return Kept(why=f"{about}{said.reason}") if said.blocked else Kept()
