"""Who answers a question before anybody is asked: hooks, in order, in the process of whoever asks.

Knows questions and answers; refuses to know what a hook is, and who is asked after them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from teamwright.permissions.verdict import PermissionAnswer, Question
from teamwright.protocol.events import Emit, Notice

Answerer: TypeAlias = Callable[[Question], Awaitable[PermissionAnswer | None]]
"""Answers a question before anybody is asked, or leaves it to others with None: a hook."""


async def first_answer(answerers: Iterable[Answerer], question: Question, emit: Emit) -> PermissionAnswer | None:
    """What the first of them says that says anything; None leaves the question to whoever is asked then."""
    for answerer in answerers:
        try:
            found = await answerer(question)
        except Exception as problem:  # somebody else's program: it never decides by breaking
            text = f"an answerer broke and was passed over: {type(problem).__name__}: {problem}"
            emit(Notice(member=question.member, text=text, level="warning"))
            continue
        if found is not None:
            return found
    return None
