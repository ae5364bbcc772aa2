"""Content blocks of messages in the shape of the Messages API, the canonical form of this program.

A block is a plain dict, stored as received: unknown kinds and unknown keys are stored and sent back unchanged. Defines
the blocks that the runtime creates.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

Block: TypeAlias = dict[str, Any]
"""One content block, e.g. `{"type": "text", "text": "…"}`."""

UNPARSED_ARGUMENTS = "unparsed_arguments"
"""The one argument of a call whose arguments are no JSON: their text."""


class ToolCall(Struct, frozen=True):
    """A tool call of a model's answer: its id, the tool's name, and the arguments as received."""

    id: str
    name: str
    input: dict[str, Any]


def text_block(text: str) -> Block:
    """Return a text block. Servers refuse empty text: callers leave it out."""
    return {"type": "text", "text": text}


def tool_result_block(call_id: str, content: str | Sequence[Block], *, is_error: bool = False) -> Block:
    """Return the result of a tool call: text, or a list of text and image blocks."""
    body: Block = {"type": "tool_result", "tool_use_id": call_id, "content": content if content else "(no output)"}
    if is_error:
        body["is_error"] = True
    return body


def image_block(media_type: str, base64_data: str) -> Block:
    """Return an image block, base64 without line breaks; `media_type` e.g. `image/png`."""
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": base64_data}}


def tool_calls(content: Iterable[Block]) -> list[ToolCall]:
    """Return the calls of this program's tools in an answer, in order. Server tool blocks are not among them."""
    return [
        ToolCall(block["id"], block["name"], cast("dict[str, Any]", block.get("input") or {}))
        for block in content
        if block.get("type") == "tool_use"
    ]


def with_own_ids(content: list[Block]) -> list[Block]:
    """Return the answer with a unique id for each call: some servers give the calls of one answer the same id."""
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
    """Return all text of a message, blocks joined by newlines."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def encode(value: Any) -> bytes:
    """Return compact JSON in UTF-8, as history, prefixes and log lines are stored.

    Lone surrogates become `?`, numbers that JSON does not have become null: a service refuses a request with either.
    """
    if "pydantic_core" not in sys.modules and (line := _encode_plainly(value)) is not None:
        return line
    try:
        return _serializer()(value)
    except ValueError:  # for example half a surrogate pair; an object that is no JSON raises TypeError below
        return _serializer()(json.loads(_compact(value).encode("utf-8", "replace")))


def decode(line: bytes) -> Any:
    """Return the value that `encode` encoded. Raises ValueError."""
    try:
        return _decoder(line)
    except RecursionError:
        raise ValueError("the value is nested too deeply for JSON") from None


@cache
def _serializer() -> Callable[[Any], bytes]:
    """Return a serializer that is several times faster than the standard one; loaded at the first use."""
    from pydantic_core import to_json

    return partial(to_json, inf_nan_mode="null")


_decoder = msgspec.json.Decoder().decode
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_strict = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_EXPONENT = re.compile(rb"(?:^|[:\[,])-?\d[\d.]*e[+-]\d")
"""A number that the two serializers may write in different ways. An id inside a string is none."""


def _encode_plainly(value: Any) -> bytes | None:
    """Return what the fast serializer would return; None when that is not certain.

    Loading the fast one takes longer than all encoding of a session without tool calls.
    """
    try:
        line = _strict(value).encode()
    except (TypeError, ValueError):
        return None
    may_have_exponent = b"e-" in line or b"e+" in line  # this is found much faster than the pattern
    return None if may_have_exponent and _EXPONENT.search(line) else line
