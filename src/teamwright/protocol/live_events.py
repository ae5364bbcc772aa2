"""What all events have, and the kinds that are never logged: for surfaces that are attached, as they happen.

Below it: blocks and usage. Refuses to know who shows them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, cast

from teamwright.protocol.messages import Block
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEvent:
    """What all events have: `member` is the member's name (`team-lead` for the lead), or the id of a sub-agent.

    `origin` names the line of another process's log that told of it first (`ann#2:17`); empty for one of this process.
    """

    KIND: ClassVar[str] = ""
    member: str
    at: float = field(default_factory=time.time)
    origin: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(BaseEvent):
    """Some text of the answer that is being written."""

    KIND = "text_delta"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(BaseEvent):
    """A tool call begins to run."""

    KIND = "tool_started"
    call: str
    tool: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantText(BaseEvent):
    """A whole line of a conversation was stored: what the model said, or what it was told.

    `parent_call` is the tool call id that started a sub-agent; `message` is `{"role", "content"}` and must not
    be changed by the reader. `id` and `stop_reason` are those of a model's answer.
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
