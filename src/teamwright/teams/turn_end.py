"""The end of a member's turn: idle hooks, rate limits and budget caps, with the notice to the lead and the
continuation.

Depends on turn ends and mail of the member; usage is counted elsewhere.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from teamwright.agent.agent import TurnEnd
from teamwright.agent.agent_hooks import AgentHooks
from teamwright.agent.conversation import Conversation
from teamwright.hooks.hook_index import TASK_COMPLETED, TEAMMATE_IDLE
from teamwright.hooks.hook_outcome import HookOutcome
from teamwright.hooks.payload import task_event
from teamwright.protocol.ids import LEAD, keyed_id, message_id
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.time_limit import time_limit
from teamwright.teams.team_ports import TeamAccess


async def run_idle_hooks(
    hooks: AgentHooks, name: str, team_access: TeamAccess, end: TurnEnd, *, asked_before: bool
) -> HookOutcome:
    """Run `TeammateIdle` hooks, then `TaskCompleted` hooks of each task that is still in progress."""
    outcome = await hooks.run_stop_hooks(TEAMMATE_IDLE, end.text, again=asked_before)
    contexts = outcome.contexts
    if outcome.blocked or outcome.halted or not hooks.hooks.wants(TASK_COMPLETED):
        return outcome
    for task in await team_access.tasks_in_progress(name):
        event = task_event(task.id, task.subject, task.description, name, hooks.agent.team)
        asked = await hooks.fire(TASK_COMPLETED, lambda event=event: event, takes_contexts=True)
        contexts += asked.contexts
        if asked.blocked or asked.halted:
            subject = f"task #{task.id}: "
            reasons = {"reason": f"{subject}{asked.reason}", "halt_reason": f"{subject}{asked.halt_reason}"}
            return replace(asked, contexts=contexts, **reasons)
    return replace(outcome, contexts=contexts)


MAX_TRIES = 3
"""Automatic retries of a member before only messages wake it: each retry is a whole series of the model's own."""


class RateLimitPause:
    """The rate-limit wait of one member, with the time of its next retry.

    The turn is owed when the last one was given up though the same request may work later.
    """

    __slots__ = ("due", "owes_turn", "tries")

    def __init__(self) -> None:
        self.due: float | None = None
        self.owes_turn = False
        self.tries = 0

    def record_turn(self, end: TurnEnd) -> None:
        """Record the end of a turn."""
        again_s = end.failure.retry_after_s if end.failure is not None else None
        self.owes_turn = end.failure is not None and (end.failure.retriable or again_s is not None)
        if again_s is None:
            self.due, self.tries = None, 0
        elif self.tries >= MAX_TRIES:
            self.due = None
        else:
            self.tries += 1
            # A random delay: the other members of the team were refused at the same moment.
            self.due = time.monotonic() + again_s * (1 + random.random() * 0.1)

    @property
    def already_notified(self) -> bool:
        """Return True when the lead knows that this member waits, and only a retry has happened since."""
        return self.due is not None and self.tries > 1

    def describe(self, end: TurnEnd) -> str:
        """Return why it waits, for the lead."""
        if self.due is not None:
            wait_s = max(1, round(self.due - time.monotonic()))
            return (
                f"{end.explanation}. It is paused and nothing is lost: "
                f"it tries again automatically in about {wait_s} s, "
                f"up to {MAX_TRIES} times, or at once when you write to it."
            )
        if self.tries:
            tried = f"It tried {self.tries} more times and stays paused now"
            return f"{end.explanation}. {tried}: write to it to make it continue."
        return end.explanation

    async def wait_until_due(self, wait_for_wake: Callable[[], Awaitable[None]]) -> bool:
        """Wait until it is due or a wake-up comes. Returns True when it is due: then the owed turn must run."""
        left_s = None if self.due is None else max(0.0, self.due - time.monotonic())
        try:
            async with time_limit(left_s):
                await wait_for_wake()
        except TimeoutError:
            self.due = None
            return True
        return False


LEAD_ADVICE = (
    "It keeps its open task and takes no other. Stop it to give the task back to the list, "
    "or give the rest to another teammate."
)
"""The options of the lead."""

SENDER_NOTE = "It reads this when it gets a larger budget. Do without it until then."
"""The note to another member that writes to it."""


class BudgetPause:
    """The budget pause of one member, set when its last turn ended at a cap."""

    __slots__ = ("_raised", "_used", "reason")

    def __init__(self) -> None:
        self.reason = ""
        self._raised = self._used = False

    def record_turn(self, end: TurnEnd) -> str:
        """Record the end of a turn; returns the cap that ended it, if any."""
        self.reason = end.explanation if end.is_capped else ""
        self._raised, self._used = False, end.model_calls > 0
        return self.reason

    def describe(self, tail: str) -> str:
        """Return why it rests, for the lead; `tail` when no cap is the reason."""
        return f"{self.reason}. {LEAD_ADVICE}" if self.reason else tail

    def notice_id(self, conversation: Conversation, entries: Sequence[InboxEntry]) -> str:
        """Return the id of the notice: unchanged while nothing was used and no cap was raised, unless the lead wrote to
        it.
        """
        if not self.reason or (not self._used and any(entry.sender == LEAD for entry in entries)):
            return message_id()
        return keyed_id(conversation.header.get("session"), conversation.path.stem, self.reason)

    def note_raised_budget(self) -> bool:
        """Record a larger budget. Returns True when a turn waits for it."""
        self._raised = bool(self.reason)
        return self._raised

    def may_continue(self) -> bool:
        """Return True when the turn that a cap interrupted may continue now; asked once for each larger budget."""
        raised, self._raised = self._raised, False
        return raised
