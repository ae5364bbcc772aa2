"""The base class of events, and the live events, which are never logged.

Depends on `messages`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, cast

from msgspec import Struct, field

from teamwright.protocol.messages import Block
from teamwright.protocol.secret_texts import repr_without
from teamwright.protocol.usage import Usage

_NOT_LOGGED = frozenset({"at", "responder", "facts", "origin", "tool_use_id"})
"""Fields that `as_json` writes in places of their own (`at`, `origin`), or that only live subscribers receive."""


@cache
def _own_fields(kind: type[BaseEvent]) -> tuple[tuple[str, ...], Callable[[BaseEvent], tuple[Any, ...]]]:
    """Return the field names that a kind of event writes after `type` and `at`, `member` first, and a getter of their
    values."""
    names = tuple(name for name in kind.__struct_fields__ if name not in _NOT_LOGGED)
    return names, cast("Callable[[BaseEvent], tuple[Any, ...]]", attrgetter(*names))


class BaseEvent(Struct, frozen=True, kw_only=True):
    """The fields of all events: `member` is the member's name (`team-lead` for the lead), or the id of a sub-agent.

    `origin` names the line of another process's log that reported it first (`ann#2:17`); empty for an event of this
    process.
    """

    KIND: ClassVar[str] = ""
    member: str
    at: float = field(default_factory=time.time)
    origin: str = ""

    def __repr__(self) -> str:
        return repr_without(self, "origin", "facts", "responder")

    def as_json(self) -> dict[str, Any]:
        """Return the event as an object that JSON can hold: `type`, `at`, `member`, and its other fields.

        The keys are those of the event log. `facts` and `responder` are left out.
        """
        out: dict[str, Any] = {"type": self.KIND, "at": round(self.at, 3)}
        names, values = _own_fields(type(self))
        out.update(zip(names, values(self), strict=True))
        if self.origin:
            out["origin"] = self.origin
        return out


class TextDelta(BaseEvent, frozen=True, kw_only=True):
    """Some text of an answer that is being received."""

    KIND = "text_delta"
    text: str


class ThinkingDelta(BaseEvent, frozen=True, kw_only=True):
    """Some thinking of an answer that is being received."""

    KIND = "thinking_delta"
    text: str


class ToolStarted(BaseEvent, frozen=True, kw_only=True):
    """A tool call begins to run."""

    KIND = "tool_started"
    call: str
    tool: str
    summary: str


class AssistantText(BaseEvent, frozen=True, kw_only=True):
    """A message of a conversation was stored: an answer of the model, or its input.

    `parent_call` is the tool call id that started a sub-agent; `message` is `{"role", "content"}` and must not be
    changed by the reader. `id` and `stop_reason` are those of a model's answer.
    """

    KIND = "spoken"
    agent_id: str
    message: Mapping[str, Any]
    parent_call: str | None = None
    usage: Usage | None = None
    model: str = ""
    id: str = ""
    stop_reason: str = ""
    uuid: str = ""
    """The id of the message in the transcript."""

    def as_json(self) -> dict[str, Any]:
        """Return the event as an object that JSON can hold."""
        out = BaseEvent.as_json(self)
        return out if self.usage is None else out | {"usage": self.usage.as_priced_json()}

    @property
    def content(self) -> list[Block]:
        """The blocks of the message."""
        return cast("list[Block]", self.message["content"])
