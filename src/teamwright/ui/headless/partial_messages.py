"""Lines of `--include-partial-messages`: the lead's answer as it arrives, as the events of the Messages API.

The events of an answer end before its whole message is written. Depends on events alone.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from teamwright.protocol.events import AssistantText, RunEnded, TeamEvent, TextDelta, ThinkingDelta
from teamwright.protocol.ids import LEAD


class PartialMessages(Struct):
    """The answer that arrives now. `lines` returns the lines for an event."""

    _is_open: bool = False
    _growing: str = ""
    """The type of the block that grows, `text` or `thinking`; empty without one."""
    _blocks: int = 0
    """The number of blocks that have ended."""

    def lines(self, event: TeamEvent, session_id: str) -> list[dict[str, Any]]:
        """Return the lines for an event, in order; none for events that are not of the lead's answer."""
        if event.member != LEAD:
            return []
        if isinstance(event, TextDelta):
            events = self._growth_events("text", event.text)
        elif isinstance(event, ThinkingDelta):
            events = self._growth_events("thinking", event.text)
        elif isinstance(event, AssistantText) and event.message["role"] == "assistant":
            events = self._end_events(event)
        else:
            if isinstance(event, RunEnded):  # an answer that was interrupted before its first text has no message
                self._forget()
            return []
        return [
            {
                "type": "stream_event",
                "event": one,
                "session_id": session_id,
                "parent_tool_use_id": None,
                "uuid": str(uuid.uuid4()),
            }
            for one in events
        ]

    def _forget(self) -> None:
        self._is_open = False
        self._growing = ""
        self._blocks = 0

    def _begin(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self._is_open:
            return []
        self._is_open = True
        about: dict[str, Any] = {"type": "message", "role": "assistant", "content": [], "stop_reason": None, **message}
        return [{"type": "message_start", "message": about}]

    def _growth_events(self, kind: str, text: str) -> list[dict[str, Any]]:
        """Return the events of a piece of a block of that type. Another block that grew ends before it."""
        events = self._begin({})
        if self._growing != kind:
            events += self._end_growing()
            self._growing = kind
            signature = {"signature": ""} if kind == "thinking" else {}
            events.append(_block_start(self._blocks, {"type": kind, kind: "", **signature}))
        return [*events, _block_delta(self._blocks, {"type": f"{kind}_delta", kind: text})]

    def _end_growing(self) -> list[dict[str, Any]]:
        if not self._growing:
            return []
        self._growing = ""
        self._blocks += 1
        return [_block_stop(self._blocks - 1)]

    def _end_events(self, event: AssistantText) -> list[dict[str, Any]]:
        events = self._begin({"id": event.id, "model": event.model})
        events += self._end_growing()
        calls = (block for block in event.content if block["type"] == "tool_use")
        for index, block in enumerate(calls, self._blocks):
            partial_json = json.dumps(block["input"], ensure_ascii=False)
            events += [
                _block_start(index, {**block, "input": {}}),
                _block_delta(index, {"type": "input_json_delta", "partial_json": partial_json}),
                _block_stop(index),
            ]
        usage = event.usage.as_json() if event.usage is not None else {}
        delta = {"stop_reason": event.stop_reason or None, "stop_sequence": None}
        self._forget()
        return [*events, {"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


def _block_start(index: int, block: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": dict(block)}


def _block_delta(index: int, delta: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": dict(delta)}


def _block_stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}
