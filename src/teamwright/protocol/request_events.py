"""What waits for a person: a request that was opened and closed, and the answer to one.

An open request can be answered where it is shown: whoever attached the surface put in the responder. Below it: what all
events have. Refuses to know who may answer, and what follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from teamwright.protocol.live_events import BaseEvent
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAnswer:
    """`verdict` is allow or deny; `always` stores the offered rule; `text` is the reason, or a question's answer.

    `input` is run in the place of what was asked; `updates` are granted along with a yes, as they are on the wire; `by`
    is who answered, when it was not the surface that the request was shown on.
    """

    verdict: str
    always: bool = False
    text: str = ""
    input: Mapping[str, Any] | None = None
    updates: tuple[Mapping[str, Any], ...] = ()
    by: str = ""


class Responder(Protocol):
    """Answers an open request; the first answer counts. Returns whether this one was first."""

    async def __call__(self, request_id: str, answer: RequestAnswer, /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOpened(BaseEvent):
    """Somebody waits for a person: `kind` is permission, question or plan.

    `always` says what "always" would store and, in brackets, where; empty when nothing could be stored. `owner` is the
    member that is held up by it; `deadline` when it is denied for want of an answer, in seconds since 1970 (0: never);
    `suggestions` what may be granted along with a yes, as on the wire.
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
    responder: Responder | None = field(default=None, compare=False, repr=False)

    async def allow(
        self,
        *,
        always: bool = False,
        input: Mapping[str, Any] | None = None,
        updates: Sequence[Mapping[str, Any]] = (),
    ) -> bool:
        """Let it run; with `always` store the offered rule, with `input` run that instead, grant `updates` too.

        Returns False when somebody else was first.
        """
        return await self._respond(RequestAnswer(verdict="allow", always=always, input=input, updates=tuple(updates)))

    async def deny(self, reason: str = "") -> bool:
        """Refuse, with a reason that the model reads."""
        return await self._respond(RequestAnswer(verdict="deny", text=reason))

    async def answer(self, text: str) -> bool:
        """Answer a question with words."""
        return await self._respond(RequestAnswer(verdict="allow", text=text))

    async def _respond(self, answer: RequestAnswer) -> bool:
        return False if self.responder is None else await self.responder(self.request, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClosed(BaseEvent):
    """A request was answered; `by` is terminal, another terminal, program, lead, deadline, or cancelled (whoever asked
    was stopped, or is gone)."""

    KIND = "request_closed"
    request: str
    verdict: str
    by: str
    reason: str = ""
