"""The base class of events, and the live events, which are never logged.

Depends on `messages`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from msgspec import Struct, field

from teamwright.protocol.messages import Block
from teamwright.protocol.secret_texts import repr_without
from teamwright.protocol.usage import Usage


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


class TextDelta(BaseEvent, frozen=True, kw_only=True):
    """Some text of an answer that is being received."""

    KIND = "text_delta"
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

    @property
    def content(self) -> list[Block]:
        """The blocks of the message."""
        return cast("list[Block]", self.message["content"])
