"""A pending request: what waits for an answer, as its file, the event log and every view describe it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from teamwright.protocol.events import AnswerMethods, RequestAnswer, RequestOpened, Responder
from teamwright.protocol.secret_texts import repr_without

REQUEST_KINDS = frozenset({"permission", "question", "plan", "budget", "review"})
"""Kinds of requests that a person may answer; the runtime answers shutdown and stop requests."""


class PendingRequest(AnswerMethods, Struct, frozen=True):
    """A pending request: its methods `allow`, `deny` and `answer` answer it, from any process of the user.

    `owner` is the member that waits, `asker` is the asking agent as shown to people.
    `kind` is permission, question, plan, budget or review.

    `what` is the whole command, diff or question; `always` says what an answer "always" would store, and where;
    `suggestions` are the updates that may be granted with an approval, in wire format. Times in seconds since 1970; a
    `deadline` of 0 means no limit. `is_alive`: the asking process runs; else `resume` is the command that resumes its
    session. `box` is the directory of its file.
    """

    id: str
    kind: str
    owner: str
    asker: str
    tool: str
    what: str
    target: str = "user"
    rule: str = ""
    always: str = ""
    description: str = ""
    tool_use_id: str = ""
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])
    options: tuple[str, ...] = ()
    suggestions: tuple[Mapping[str, Any], ...] = ()
    incarnation: int | None = None
    opened_at: float = 0.0
    deadline: float = 0.0
    team: str = ""
    session: str = ""
    pid: int = 0
    is_alive: bool = True
    resume: str = ""
    box: Path = Path()
    responder: Responder | None = None
    """Delivers answers; None where the request is only shown."""
    waits_for_resume: bool = False
    """True when no process runs its session, and the resume asks again: an answer counts then."""

    def __repr__(self) -> str:
        return repr_without(self, "box", "responder")

    async def _respond(self, answer: RequestAnswer) -> bool:
        return False if self.responder is None else await self.responder(self.id, answer)

    def as_json(self) -> dict[str, Any]:
        """Return the request as an object that JSON can hold."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in {"box", "responder"}}

    @property
    def for_a_person(self) -> bool:
        """True when a person may answer it; members answer each other's requests."""
        return self.kind in REQUEST_KINDS

    def blocks(self, name: str) -> bool:
        """Return True when the member of this name waits for it; a sub-agent asks in its name."""
        return (self.owner or self.asker) == name

    @classmethod
    def from_event(cls, event: RequestOpened, *, max_what: int) -> PendingRequest:
        """Return the request of an event, with at most `max_what` characters of `what`."""
        return cls(
            id=event.request,
            kind=event.kind,
            owner=event.owner,
            asker=event.member,
            tool=event.tool,
            what=event.what[:max_what],
            opened_at=event.at,
            deadline=event.deadline,
        )

    def as_event(self, responder: Responder | None = None) -> RequestOpened:
        """Return the event that its process emitted, answered through `responder`."""
        return RequestOpened(
            member=self.asker,
            at=self.opened_at,
            request=self.id,
            kind=self.kind,
            tool=self.tool,
            what=self.what,
            rule=self.rule,
            always=self.always,
            input=self.input,
            options=self.options,
            owner=self.owner,
            deadline=self.deadline,
            suggestions=self.suggestions,
            responder=responder,
        )

    def select(self, attributes: Mapping[str, str]) -> dict[str, Any]:
        """Return these attributes, by the keys under which a format has them."""
        return {key: getattr(self, name) for key, name in attributes.items()}
