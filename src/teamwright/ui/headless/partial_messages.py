"""Lines of `--include-partial-messages`: the lead's answer as it arrives, as the events of the Messages API.

The events of an answer end before its whole message is written. Depends on events alone.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from teamwright.protocol.events import AssistantText, TeamEvent, TextDelta
from teamwright.protocol.ids import LEAD


class PartialMessages(Struct):
    """The answer that arrives now. `lines` returns the lines for an event."""

    _is_open: bool = False
    _has_text: bool = False

    def lines(self, event: TeamEvent, session_id: str) -> list[dict[str, Any]]:
        """Return the lines for an event, in order; none for events that are not of the lead's answer."""
        if event.member != LEAD:
            return []
        if isinstance(event, TextDelta):
            events = self._text_events(event.text)
        elif isinstance(event, AssistantText) and event.message["role"] == "assistant":
            events = self._end_events(event)
        else:
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

    def _begin(self, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self._is_open:
            return []
        self._is_open = True
        about: dict[str, Any] = {"type": "message", "role": "assistant", "content": [], "stop_reason": None, **message}
        return [{"type": "message_start", "message": about}]

    def _text_events(self, text: str) -> list[dict[str, Any]]:
        events = self._begin({})
        if not self._has_text:
            self._has_text = True
            events.append(_block_start(0, {"type": "text", "text": ""}))
        return [*events, _block_delta(0, {"type": "text_delta", "text": text})]

    def _end_events(self, event: AssistantText) -> list[dict[str, Any]]:
        events = self._begin({"id": event.id, "model": event.model})
        events += [_block_stop(0)] if self._has_text else []
        index = 1 if self._has_text else 0
        for block in event.content:
            if block["type"] == "tool_use":
                partial_json = json.dumps(block["input"], ensure_ascii=False)
                events += [
                    _block_start(index, {**block, "input": {}}),
                    _block_delta(index, {"type": "input_json_delta", "partial_json": partial_json}),
                    _block_stop(index),
                ]
                index += 1
        usage = event.usage.as_json() if event.usage is not None else {}
        delta = {"stop_reason": event.stop_reason or None, "stop_sequence": None}
        self._is_open = self._has_text = False
        return [*events, {"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


def _block_start(index: int, block: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": dict(block)}


def _block_delta(index: int, delta: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": dict(delta)}


def _block_stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}
