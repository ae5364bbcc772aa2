"""Answers by hooks, before a question goes to an approver.

The hooks run in order, in the process of the agent that asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from teamwright.permissions.verdict import PermissionAnswer, Question
from teamwright.protocol.events import Emit, Notice

Answerer: TypeAlias = Callable[[Question], Awaitable[PermissionAnswer | None]]
"""A hook that answers a question, or returns None to leave it to the next one."""


async def first_answer(answerers: Iterable[Answerer], question: Question, emit: Emit) -> PermissionAnswer | None:
    """Return the first answer that a hook gives; None leaves the question to the approver."""
    for answerer in answerers:
        try:
            found = await answerer(question)
        except Exception as problem:  # a failing hook is another program's fault and decides nothing
            text = f"an approval hook failed and was skipped: {type(problem).__name__}: {problem}"
            emit(Notice(member=question.member, text=text, level="warning"))
            continue
        if found is not None:
            return found
    return None
