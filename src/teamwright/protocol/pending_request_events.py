"""Events of pending requests: opened and closed, and the answer to one.

An open request can be answered where it is shown: the owner of the subscription sets the responder. Depends on
`live_events`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from teamwright.protocol.live_events import BaseEvent


class RequestAnswer(Struct, frozen=True, kw_only=True):
    """An answer. `verdict` is allow or deny; `always` stores the offered rule; `text` is the reason, or a question's
    answer.

    `input` replaces the requested input; `updates` are grants along with a yes, in the wire format; `by` is the
    approver, when it was not the client that the request was shown on.
    """

    verdict: str
    always: bool = False
    text: str = ""
    input: Mapping[str, Any] | None = None
    updates: tuple[Mapping[str, Any], ...] = ()
    by: str = ""


class Responder(Protocol):
    """A function that answers an open request; the first answer counts. Returns True when this answer was the first."""

    async def __call__(self, request_id: str, answer: RequestAnswer, /) -> bool: ...


class AnswerMethods:
    """The methods that answer a request, wherever it is shown."""

    __slots__ = ()

    async def allow(
        self,
        *,
        always: bool = False,
        input: Mapping[str, Any] | None = None,
        updates: Sequence[Mapping[str, Any]] = (),
    ) -> bool:
        """Allow the request; with `always` store the offered rule, with `input` run that instead, grant `updates` too.

        Return True when this answer counts, False when another one was first or nothing waits any more.
        """
        return await self._respond(RequestAnswer(verdict="allow", always=always, input=input, updates=tuple(updates)))

    async def deny(self, reason: str = "") -> bool:
        """Deny the request, with a reason that the model reads. Return True when this answer counts."""
        return await self._respond(RequestAnswer(verdict="deny", text=reason))

    async def answer(self, text: str) -> bool:
        """Answer a question with text. Return True when this answer counts."""
        return await self._respond(RequestAnswer(verdict="allow", text=text))

    async def _respond(self, answer: RequestAnswer) -> bool:
        raise NotImplementedError


class RequestOpened(AnswerMethods, BaseEvent, frozen=True, kw_only=True):
    """A request waits for a person: `kind` is permission, question, plan, budget or review.

    `always` describes the rule that "always" would store and, in brackets, where; empty when nothing could be stored.
    `owner` is the member that waits for it. `deadline` is the time at which it is denied without an answer, in seconds
    since 1970 (0: never). `suggestions` are the possible grants along with a yes, in the wire format.
    """

    KIND = "request_opened"
    request: str
    kind: str
    tool: str
    what: str
    rule: str = ""
    always: str = ""
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: tuple[str, ...] = ()
    owner: str = ""
    deadline: float = 0.0
    suggestions: tuple[Mapping[str, Any], ...] = ()
    tool_use_id: str = ""
    """The model's id of the call. Only live subscribers receive it."""
    responder: Responder | None = None

    async def _respond(self, answer: RequestAnswer) -> bool:
        return False if self.responder is None else await self.responder(self.request, answer)


class RequestClosed(BaseEvent, frozen=True, kw_only=True):
    """A request was closed.

    `by` is terminal, another terminal, program, hook, policy, lead, deadline, or cancelled (the requester was stopped,
    or is gone).
    """

    KIND = "request_closed"
    request: str
    verdict: str
    by: str
    reason: str = ""
