"""Questions that a person asks from another terminal: the lead's process answers each one beside the agent's work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct, field

from teamwright.protocol.errors import TeamwrightError, error_to_json
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import now_ms
from teamwright.requests.outside_question import (
    OutsideQuestion,
    describe_recipient,
    open_questions,
    remove_expired,
)
from teamwright.requests.request_store import USER, LeadProcess, RequestStore, acknowledge
from teamwright.teams.team import SessionTeam

MAX_AT_ONCE = 4
"""Questions that are answered at the same time; others are refused."""

ANSWER_S = 3_600.0
"""The latest answer, in seconds; the person who asks names a shorter time."""


class QuestionListener(Struct):
    """The questions of other terminals that are being answered. `ask` returns the answer of an agent to `asker`."""

    team: SessionTeam
    asker: str
    ask: Callable[[str, str], Awaitable[str]]
    _answering: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])

    def look(self) -> None:
        """Begin to answer new questions, and end the calls of withdrawn ones."""
        box = self.team.requests
        with contextlib.suppress(TeamwrightError):
            remove_expired(box)
            for question in open_questions(box):
                if question.id not in self._answering:
                    task = asyncio.create_task(self._answer(box, question), name="a question from another terminal")
                    self._answering[question.id] = task
            for id, task in self._answering.items():
                if box.get(id) is None:
                    task.cancel()

    async def close(self) -> None:
        """End all calls, with an answer that says so."""
        tasks = list(self._answering.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, box: RequestStore, question: OutsideQuestion) -> None:
        problem: TeamwrightError | None = TeamwrightError("failed", "the session has ended", note="nothing was lost")
        text = ""
        try:
            self._require_answerable(question)
            acknowledge(box, question.id, ANSWER_S)
            asked = describe_recipient(question.to)
            self.team.emit(Notice(member="system", text=f"{self.asker} asks {asked} a question in passing"))
            text = await self.ask(question.question, question.to)
            problem = None
        except TeamwrightError as refused:
            problem = refused
        finally:
            self._answering.pop(question.id, None)
            body = {"by": USER, "at": now_ms(), "text": text}
            with contextlib.suppress(TeamwrightError):  # the person no longer waits
                box.answer(question.id, body | ({} if problem is None else {"failed": error_to_json(problem)}))

    def _require_answerable(self, question: OutsideQuestion) -> None:
        if question.lead != LeadProcess.from_lease(self.team.session, Path(self.team.lease)):
            raise TeamwrightError("failed", "the session was resumed since; ask again", note="nothing was asked")
        if len(self._answering) > MAX_AT_ONCE:
            what = f"{MAX_AT_ONCE} questions are being answered now; ask again later"
            raise TeamwrightError("failed", what, note="nothing was asked")
