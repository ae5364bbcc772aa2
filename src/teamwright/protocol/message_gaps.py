"""Repair of a conversation with missing lines, so that a model service accepts it: calls and results stay in pairs.

Works on encoded messages; `storage.jsonl` handles the files and their damaged bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from teamwright.protocol.messages import Block, encode, message_text, text_block, tool_calls, tool_result_block

LOST_TEXT = "(A part of this conversation is missing here: the transcript file was damaged.)"
LOST_RESULT = "The result of this call is missing: the transcript file was damaged. The call may have taken effect."

_Message = dict[str, Any]


def bridge_gaps(items: Sequence[bytes], gaps: Sequence[int]) -> list[bytes]:
    """Return the messages with a note at each gap, alternating roles there, and a result for each call.

    `gaps` are indices of `items` before which lines were lost. A gap at the end needs no note: an owed answer
    follows.
    """
    messages = [cast("_Message", json.loads(item)) for item in items]
    bridged: list[_Message] = []
    for place, message in enumerate(messages):
        if place in gaps:
            bridged += _bridge(bridged[-1] if bridged else None, message)
        bridged.append(message)
    return [encode(message) for message in _pair_results(bridged)]


def _bridge(before: _Message | None, after: _Message) -> list[_Message]:
    user = {"role": "user", "content": [text_block(LOST_TEXT)]}
    answer = {"role": "assistant", "content": [text_block(LOST_TEXT)]}
    if before is None:
        return [user, answer] if after["role"] == "user" else [user]
    calls = {call.id for call in tool_calls(before["content"])} if before["role"] == "assistant" else set[str]()
    if calls and calls <= _results(after):
        return []
    between = [answer, user] if before["role"] == "user" else [user, answer]
    return between if before["role"] != after["role"] else between[:1]


def _pair_results(messages: list[_Message]) -> list[_Message]:
    """Return the messages with a result for each call. A result without its call becomes text; calls of the last
    message stay open.
    """
    calls: list[str] = []
    for message in messages:
        content = cast("list[Block]", message["content"])
        if message["role"] == "assistant":
            calls = [call.id for call in tool_calls(content)]
            continue
        kept = [block if _is_result_of(block, calls) else _as_text(block) for block in content]
        missing = [call for call in calls if call not in _results(message)]
        message["content"] = [*(tool_result_block(call, LOST_RESULT, is_error=True) for call in missing), *kept]
        calls = []
    return messages


def _results(message: _Message) -> set[str]:
    return {block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"}


def _is_result_of(block: Block, calls: list[str]) -> bool:
    return block["type"] != "tool_result" or block["tool_use_id"] in calls


def _as_text(block: Block) -> Block:
    content = block.get("content", "")
    text = content if isinstance(content, str) else message_text(cast("list[Block]", content))
    return text_block(f"(The result of a call that is missing above.)\n{text}")
