"""What a model reads: content blocks in the shape of the Messages API, our canonical form.

A block is a plain dict, kept as it came: unknown kinds and unknown keys are stored and sent back unchanged.
This file knows how the few blocks that we make ourselves are spelt; it knows no model and no transcript.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias, cast

from teamwright.protocol.values import dataclass

Block: TypeAlias = dict[str, Any]
"""One content block, e.g. `{"type": "text", "text": "…"}`."""

UNPARSED_ARGUMENTS = "unparsed_arguments"
"""The one argument of a call whose arguments are no JSON: their text."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of a model's answer: its id, the tool's name, and the arguments as they were given."""

    id: str
    name: str
    input: dict[str, Any]


def text_block(text: str) -> Block:
    """A text block. Empty text is refused by servers: callers leave it out."""
    return {"type": "text", "text": text}


def tool_result_block(call_id: str, content: str | Sequence[Block], *, is_error: bool = False) -> Block:
    """The result of a tool call: text, or a list of text and image blocks."""
    body: Block = {"type": "tool_result", "tool_use_id": call_id, "content": content if content else "(no output)"}
    if is_error:
        body["is_error"] = True
    return body


def image_block(media_type: str, base64_data: str) -> Block:
    """An image, base64 without line breaks; `media_type` e.g. `image/png`."""
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": base64_data}}


def tool_calls(content: Iterable[Block]) -> list[ToolCall]:
    """The calls of our tools in an answer, in order. Server tool blocks are not calls of ours."""
    return [
        ToolCall(block["id"], block["name"], cast("dict[str, Any]", block.get("input") or {}))
        for block in content
        if block.get("type") == "tool_use"
    ]


def with_own_ids(content: list[Block]) -> list[Block]:
    """The answer with an id of its own for each call: some servers give the calls of one answer the same."""
    ids = [block["id"] for block in content if block.get("type") == "tool_use"]
    if len(set(ids)) == len(ids):
        return content
    taken, made = set(ids), list[Block]()
    seen: set[str] = set()
    for block in content:
        if block.get("type") == "tool_use" and block["id"] in seen:
            number = 2
            while (id := f"{block['id']}_{number}") in taken:
                number += 1
            taken.add(id)
            block = block | {"id": id}
        seen.add(str(block.get("id")))
        made.append(block)
    return made


def message_text(content: str | Iterable[Block]) -> str:
    """All text of a message, blocks joined by newlines."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def encode(value: Any) -> bytes:
    """Compact JSON in UTF-8: how history, prefixes and log lines are kept.

    Lone surrogates become `?`, numbers that JSON does not have become null: a service refuses a request with either.
    """
    try:
        return _serializer()(value)
    except ValueError:  # half a surrogate pair, for one; what is no JSON at all is a TypeError below
        return _serializer()(json.loads(_compact(value).encode("utf-8", "replace")))


def decode(line: bytes) -> Any:
    """What `encode` wrote. Raises ValueError."""
    return _parser()(line)


@cache
def _parser() -> Callable[[bytes], Any]:
    """Twice as fast as `json.loads`, which looks for the encoding first; loaded as the one below."""
    from pydantic_core import from_json

    return from_json


@cache
def _serializer() -> Callable[[Any], bytes]:
    """Several times faster than the one below; loaded when something is first encoded."""
    from pydantic_core import to_json

    return partial(to_json, inf_nan_mode="null")


_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
