"""How a member stands with its budget: what refused its last call, that the lead hears of it once, and how it goes on.

Knows how a turn ended and who wrote to the member; counts nothing itself.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from teamwright.agent.agent import TurnEnd
from teamwright.agent.agent_hooks import AgentHooks
from teamwright.agent.conversation import Conversation
from teamwright.hooks.hook_index import TASK_COMPLETED, TEAMMATE_IDLE
from teamwright.hooks.hook_outcome import HookOutcome
from teamwright.hooks.payload import task_event
from teamwright.protocol.ids import LEAD, keyed_id, message_id
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.task import Task
from teamwright.protocol.values import dataclass


class TaskHolder(Protocol):
    """Who knows which tasks a member has."""

    async def tasks_in_progress(self, name: str) -> list[Task]:
        """The tasks that this member has in progress."""
        ...


@dataclass(frozen=True, slots=True)
class IdleHookResult:
    """`why` it goes on, empty when it may rest; `ends`: a hook would have it end for good, and why."""

    continue_reason: str = ""
    end_cause: str = ""


async def run_idle_hooks(
    hooks: AgentHooks, name: str, holding: TaskHolder, end: TurnEnd, *, asked_before: bool
) -> IdleHookResult:
    """What `TeammateIdle` hooks say, then `TaskCompleted` hooks of each task that is still in progress."""
    kept = _parse_outcome(await hooks.run_stop_hooks(TEAMMATE_IDLE, end.text, again=asked_before))
    if kept.continue_reason or kept.end_cause or not hooks.hooks.wants(TASK_COMPLETED):
        return kept
    for task in await holding.tasks_in_progress(name):
        told = task_event(task.id, task.subject, task.description, name, hooks.agent.team)
        kept = _parse_outcome(await hooks.fire(TASK_COMPLETED, lambda told=told: told), f"task #{task.id}: ")
        if kept.continue_reason or kept.end_cause:
            break
    return kept


def _parse_outcome(outcome: HookOutcome, subject: str = "") -> IdleHookResult:
    if outcome.halted:
        return IdleHookResult(end_cause=f"ended by a hook: {subject}{outcome.halt_reason}")
    return IdleHookResult(continue_reason=f"{subject}{outcome.reason}") if outcome.blocked else IdleHookResult()


MAX_TRIES = 3
"""How often a member tries again by itself before only words wake it: each try is a whole series of the model's own."""


class RateLimitPause:
    """The waiting of one member. `due` is when it tries again (of `time.monotonic`), None when it does not.

    `owes` says that its last turn was given up though the same request may work later: it is not done.
    """

    __slots__ = ("due", "owes_turn", "tries")

    def __init__(self) -> None:
        self.due: float | None = None
        self.owes_turn = False
        self.tries = 0

    def record_turn(self, end: TurnEnd) -> None:
        """A turn ended."""
        again_s = end.failure.retry_after_s if end.failure is not None else None
        self.owes_turn = end.failure is not None and (end.failure.retriable or again_s is not None)
        if again_s is None:
            self.due, self.tries = None, 0
        elif self.tries >= MAX_TRIES:
            self.due = None
        else:
            self.tries += 1
            # A little apart: the others of the team were refused at the same moment.
            self.due = time.monotonic() + again_s * (1 + random.random() * 0.1)

    @property
    def already_notified(self) -> bool:
        """Whether the lead knows already that this member waits, and nothing but another try has changed."""
        return self.due is not None and self.tries > 1

    def describe(self, end: TurnEnd) -> str:
        """Why it waits, as the lead is told."""
        if self.due is not None:
            wait_s = max(1, round(self.due - time.monotonic()))
            return (
                f"{end.explanation}. It is paused and nothing is lost: "
                f"it tries again automatically in about {wait_s} s, "
                f"up to {MAX_TRIES} times, or at once when you write to it."
            )
        if self.tries:
            tried = f"It tried {self.tries} more times and stays paused now"
            return f"{end.explanation}. {tried}: write to it to make it go on."
        return end.explanation

    async def wait_until_due(self, wait_for_wake: Callable[[], Awaitable[None]]) -> bool:
        """Wait until it is due or somebody rings. Whether it is due: then the turn that is owed is to be run."""
        left_s = None if self.due is None else max(0.0, self.due - time.monotonic())
        try:
            async with asyncio.timeout(left_s):
                await wait_for_wake()
        except TimeoutError:
            self.due = None
            return True
        return False


LEAD_ADVICE = (
    "It keeps its open task and takes no other. Stop it to give the task back to the list, "
    "or give the rest to another teammate."
)
"""What the lead may do about it."""

SENDER_NOTE = "It reads this when it gets a larger budget. Do without it until then."
"""What another member is told that writes to it."""


class BudgetPause:
    """The budget of one member, as its life sees it. `why` is empty unless its last turn ended at a cap."""

    __slots__ = ("_raised", "_used", "reason")

    def __init__(self) -> None:
        self.reason = ""
        self._raised = self._used = False

    def record_turn(self, end: TurnEnd) -> str:
        """A turn ended; what kept it from going on, if a cap did."""
        self.reason = end.explanation if end.is_capped else ""
        self._raised, self._used = False, end.model_calls > 0
        return self.reason

    def describe(self, tail: str) -> str:
        """Why it rests, as the lead is told; `tail` when no cap is in its way."""
        return f"{self.reason}. {LEAD_ADVICE}" if self.reason else tail

    def notice_id(self, conversation: Conversation, entries: Sequence[InboxEntry]) -> str:
        """The id of the notice: the same while nothing was used and no cap was raised, unless the lead wrote to it."""
        if not self.reason or (not self._used and any(entry.sender == LEAD for entry in entries)):
            return message_id()
        return keyed_id(conversation.header.get("session"), conversation.path.stem, self.reason)

    def note_raised_budget(self) -> bool:
        """A larger budget came: whether a turn waits for it."""
        self._raised = bool(self.reason)
        return self._raised

    def may_continue(self) -> bool:
        """Whether the turn that a cap cut short may go on now; asked once for each larger budget."""
        raised, self._raised = self._raised, False
        return raised
