"""Marks of usage in a session at a terminal: there the person is asked whether the agents go on.

Each yes permits one more portion. The call of an agent waits for the answer, and all agents that reach the same mark
wait for one answer. Depends on scopes and on the port for approvers.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from teamwright.budgets.budget_scope import Scope
from teamwright.models.model import NOT_CONTINUED, BudgetRefusal
from teamwright.permissions.verdict import Approver, Question
from teamwright.protocol.ids import display_name
from teamwright.protocol.usage import Budget


class CallingAgent(NamedTuple):
    """The agent of a model call. `owner` is the lead or the member that it works for, `calls` its calls so far."""

    name: str
    owner: str
    calls: int


class _Mark(NamedTuple):
    """A mark that was reached: its cap, whose it is (empty: the run's), what was used and the next portion in words."""

    cap: str
    whose: str
    used: str
    portion: str


class _OpenQuestion:
    """A question about a mark, and the number of agents that wait for its answer."""

    __slots__ = ("answer", "waiting")

    def __init__(self, answer: asyncio.Task[bool]) -> None:
        self.answer = answer
        self.waiting = 0


class UsageMarks:
    """The marks of a session. `portions` are the amounts between two marks; `turns` are model calls of each agent.

    `minutes` count from the person's last prompt or last yes.
    """

    def __init__(self, portions: Budget, approver: Approver) -> None:
        self._portions = portions
        self._approver = approver
        self._next_calls: dict[str, int] = {}
        self._next_tokens = portions.tokens
        self._next_usd = portions.usd
        self._prompted_at = monotonic()
        self._open: dict[tuple[str, str], _OpenQuestion] = {}

    def note_prompt(self) -> None:
        """Note that the person wrote: the time counts from now."""
        self._prompted_at = monotonic()

    async def check(self, caller: CallingAgent, run: Scope) -> BudgetRefusal | None:
        """Ask the person at each mark that is reached; return the refusal after a no."""
        while (mark := self._reached(caller, run)) is not None:
            if not await self._may_continue(mark, caller):
                return BudgetRefusal(NOT_CONTINUED, f"{mark.used}, and the user did not go on")
        return None

    def _reached(self, caller: CallingAgent, run: Scope) -> _Mark | None:
        portions = self._portions
        name = caller.name
        calls = None if portions.turns is None else self._next_calls.get(name, portions.turns)
        if calls is not None and caller.calls >= calls:
            used = f"{caller.calls} model calls of {display_name(name)} are used"
            return _Mark("turns", name, used, f"{portions.turns} model calls")
        if self._next_tokens is not None and run.tokens >= self._next_tokens:
            return _Mark("tokens", "", f"{run.tokens:,} tokens are used", f"{portions.tokens:,} tokens")
        if self._next_usd is not None and run.usd >= self._next_usd:
            return _Mark("usd", "", f"{run.usd:.2f} USD are used", f"{portions.usd:g} USD")
        if portions.minutes is not None and (minutes := (monotonic() - self._prompted_at) / 60) >= portions.minutes:
            used = f"{minutes:.0f} min have passed since the last prompt"
            return _Mark("minutes", "", used, f"{portions.minutes:g} min")
        return None

    async def _may_continue(self, mark: _Mark, caller: CallingAgent) -> bool:
        key = mark.cap, mark.whose
        question = self._open.get(key)
        if question is None:
            question = self._open[key] = _OpenQuestion(asyncio.create_task(self._ask(mark, caller)))
        question.waiting += 1
        try:
            return await asyncio.shield(question.answer)
        finally:
            question.waiting -= 1
            if not question.waiting:
                self._open.pop(key, None)
                question.answer.cancel()
                with suppress(asyncio.CancelledError):
                    await question.answer

    async def _ask(self, mark: _Mark, caller: CallingAgent) -> bool:
        what = f"Go on? {mark.used}. A yes permits another {mark.portion}; a no ends the turn."
        answer = await self._approver.ask(Question(caller.name, "", "budget", what, "", owner=caller.owner))
        if answer.allowed:
            self._raise(mark, caller)
        return answer.allowed

    def _raise(self, mark: _Mark, caller: CallingAgent) -> None:
        portions = self._portions
        match mark.cap:
            case "turns":
                self._next_calls[caller.name] = caller.calls + (portions.turns or 0)
            case "tokens":
                self._next_tokens = (self._next_tokens or 0) + (portions.tokens or 0)
            case "usd":
                self._next_usd = (self._next_usd or 0.0) + (portions.usd or 0.0)
            case _:
                self.note_prompt()
