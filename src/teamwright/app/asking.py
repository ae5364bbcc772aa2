"""Who answers: open requests that any surface may answer, or a policy that answers for nobody.

Every ask becomes an event with a way to answer it; the first answer counts, a deadline denies with its reason.
Fills the port of `permissions`; knows no screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from teamwright.permissions.verdict import Answer, Question
from teamwright.protocol.events import Emit, RequestAnswer, RequestClosed, RequestOpened
from teamwright.protocol.ids import permission_id

OnRequest: TypeAlias = Callable[[RequestOpened], Awaitable[object] | None]
"""A program's own answerer: called with each request; answers through its methods.

A plain function returns what `allow`, `deny` or `answer` gave it, and must not block; None leaves the request open
for somebody else, until its deadline.
"""

NOBODY = "nobody is here to ask"


@dataclass(slots=True)
class Requests:
    """The one queue of a run. `attended` says whether anybody could answer; without, asking is denying.

    `timeout_s` is the deadline of a request, in seconds; None waits for ever (a person at a terminal). `answerer` is
    who answers here: `terminal` or `program`.
    """

    emit: Emit
    attended: Callable[[], bool]
    timeout_s: float | None = None
    on_request: OnRequest | None = None
    answerer: str = "terminal"
    _open: dict[str, asyncio.Future[RequestAnswer]] = field(default_factory=dict[str, "asyncio.Future[RequestAnswer]"])
    _calls: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    async def ask(self, question: Question) -> Answer:
        """See permissions.verdict.Asker."""
        if self.on_request is None and not self.attended():
            return Answer(False, "policy", _nobody(question))
        request_id = permission_id()
        answered: asyncio.Future[RequestAnswer] = asyncio.get_running_loop().create_future()
        self._open[request_id] = answered
        self._announce(request_id, question)
        by, reply = self.answerer, RequestAnswer(verdict="deny")
        try:
            async with asyncio.timeout(self.timeout_s):
                reply = await answered
        except TimeoutError:
            by = "deadline"
            reply = RequestAnswer(verdict="deny", text=f"no answer within {self.timeout_s:g} s")
        except asyncio.CancelledError:
            self.emit(RequestClosed(member=question.member, request=request_id, verdict="deny", by="cancelled"))
            raise
        finally:
            self._open.pop(request_id, None)
        self.emit(
            RequestClosed(member=question.member, request=request_id, verdict=reply.verdict, by=by, reason=reply.text)
        )
        return Answer(reply.verdict == "allow", by, reply.text, reply.always)

    async def answer(self, request_id: str, answer: RequestAnswer) -> bool:
        """Answer an open request; False when it is gone or was answered."""
        waiting = self._open.get(request_id)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(answer)
        return True

    def close(self, reason: str) -> None:
        """Deny what is open, because whoever could answer is leaving; the program's answerers are let go."""
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_result(RequestAnswer(verdict="deny", text=reason))
        for call in self._calls:
            call.cancel()

    def _announce(self, request_id: str, question: Question) -> None:
        event = RequestOpened(
            member=question.member,
            request=request_id,
            kind=question.kind,
            tool=question.tool,
            what=question.what,
            rule=question.rule,
            always=question.always,
            input=question.input,
            options=question.options,
            responder=self.answer,
        )
        self.emit(event)
        if self.on_request is not None:
            task = asyncio.ensure_future(self._call(self.on_request, event))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _call(self, on_request: OnRequest, event: RequestOpened) -> None:
        """The program's answerer; a mistake in it is an answer too, so that nobody waits for ever."""
        try:
            made = on_request(event)
            if made is not None:
                await made
        except Exception as problem:
            await event.deny(f"the program's answerer raised {type(problem).__name__}: {problem}")


def _nobody(question: Question) -> str:
    return f"{NOBODY}; decide yourself" if question.kind == "question" else f"{NOBODY}, and it would have to be asked"
