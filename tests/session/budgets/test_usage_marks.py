"""Marks of usage: the person at a terminal is asked once for all agents, and one who leaves takes the question back."""

import asyncio
from pathlib import Path

import pytest

from teamwright.budgets import usage_confirmation
from teamwright.budgets.budget_scope import Estimate
from teamwright.budgets.budget_tracker import BudgetTracker, Reservation
from teamwright.budgets.usage_confirmation import UsageMarks
from teamwright.models.model import NOT_CONTINUED, BudgetRefusal
from teamwright.permissions.verdict import PermissionAnswer, Question
from teamwright.protocol.usage import Budget, Usage
from teamwright.session.options import HEADLESS, Options, mark_portions
from tests.support.waits import WAIT_S

CALL = Estimate(0, 0)


class Person:
    """An approver who answers when the test says so."""

    def __init__(self) -> None:
        self.questions: list[Question] = []
        self.asked, self.answer = asyncio.Event(), asyncio.Queue[bool]()
        self.withdrawn = 0

    async def ask(self, question: Question) -> PermissionAnswer:
        self.questions.append(question)
        self.asked.set()
        try:
            return PermissionAnswer(await self.answer.get(), "terminal")
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise


def used(person: Person, total: int, **portions: float) -> BudgetTracker:
    """A tracker of a run that has used these tokens."""
    budget_tracker = BudgetTracker(marks=UsageMarks(Budget.from_json(portions), person))
    budget_tracker.run.add(Usage(input_tokens=total))
    return budget_tracker


def calls(budget_tracker: BudgetTracker, *names: str) -> list[asyncio.Task[Reservation | BudgetRefusal]]:
    return [asyncio.ensure_future(budget_tracker.reserve([budget_tracker.run], CALL, name, name)) for name in names]


@pytest.mark.parametrize("goes_on", [True, False])
async def test_agents_at_the_same_mark_wait_for_one_answer(goes_on):
    person = Person()
    waiting = calls(used(person, 100, tokens=100), "ada", "ben", "team-lead")
    await asyncio.wait_for(person.asked.wait(), WAIT_S)
    assert not any(call.done() for call in waiting)
    person.answer.put_nowait(goes_on)
    got = await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)
    assert [one.kind for one in person.questions] == ["budget"]
    if goes_on:
        assert all(isinstance(one, Reservation) for one in got)
    else:
        assert {one.limit for one in got if isinstance(one, BudgetRefusal)} == {NOT_CONTINUED}


async def test_a_yes_permits_one_more_portion_and_the_next_mark_asks_again():
    person = Person()
    budget_tracker = used(person, 100, tokens=100)
    person.answer.put_nowait(True)
    assert isinstance(await budget_tracker.reserve([budget_tracker.run], CALL, "ada", "ada"), Reservation)
    budget_tracker.run.add(Usage(input_tokens=99))
    assert isinstance(await budget_tracker.reserve([budget_tracker.run], CALL, "ada", "ada"), Reservation)
    budget_tracker.run.add(Usage(input_tokens=1))
    person.answer.put_nowait(False)
    assert isinstance(await budget_tracker.reserve([budget_tracker.run], CALL, "ada", "ada"), BudgetRefusal)
    assert len(person.questions) == 2


async def test_the_question_stays_until_the_last_agent_that_waits_is_interrupted():
    person = Person()
    first, second = calls(used(person, 100, tokens=100), "ada", "ben")
    await asyncio.wait_for(person.asked.wait(), WAIT_S)
    first.cancel()
    await asyncio.wait({first}, timeout=WAIT_S)
    assert person.withdrawn == 0
    second.cancel()
    await asyncio.wait({second}, timeout=WAIT_S)
    assert person.withdrawn == 1


async def test_each_agent_has_its_own_mark_of_model_calls():
    person = Person()
    budget_tracker = used(person, 0, turns=2)
    for _ in range(2):
        budget_tracker.add_usage("ada", Usage(10, requests=1), "m")
    assert isinstance(await budget_tracker.reserve([budget_tracker.run], CALL, "ben", "ben"), Reservation)
    person.answer.put_nowait(True)
    assert isinstance(await budget_tracker.reserve([budget_tracker.run], CALL, "ada", "ada"), Reservation)
    assert [one.member for one in person.questions] == ["ada"]


async def test_the_time_counts_from_the_last_prompt_of_the_person(monkeypatch):
    clock = [1_000.0]
    monkeypatch.setattr(usage_confirmation, "monotonic", lambda: clock[0])
    person = Person()
    budget_tracker = used(person, 0, minutes=120)
    assert budget_tracker.marks is not None
    clock[0] += 119 * 60
    budget_tracker.marks.note_prompt()
    clock[0] += 119 * 60
    assert isinstance(await budget_tracker.reserve([budget_tracker.run], CALL, "ada", "ada"), Reservation)
    clock[0] += 60
    person.answer.put_nowait(False)
    assert isinstance(await budget_tracker.reserve([budget_tracker.run], CALL, "ada", "ada"), BudgetRefusal)


def test_the_marks_are_the_default_caps_of_a_headless_run_where_a_person_sits_and_no_flag_has_a_cap():
    at_terminal = Options(cwd=Path(), interactive=True, budget=Budget(usd=3.0))
    assert mark_portions(at_terminal, Budget(turns=500)) == Budget(
        tokens=HEADLESS.tokens, turns=500, minutes=HEADLESS.minutes
    )
    assert not mark_portions(Options(cwd=Path(), headless=True), Budget(turns=500))
    assert not mark_portions(Options(cwd=Path()), Budget(turns=500))
