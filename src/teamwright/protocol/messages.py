"""Content blocks of messages in the shape of the Messages API, the canonical form of this program.

A block is a plain dict, stored as received: unknown kinds and unknown keys are stored and sent back unchanged. Repairs
a conversation with missing lines, so that calls and results stay in pairs.

Images are recognised by their bytes and not by a declared type. A service refuses a whole request for one image that it
cannot read, and every later request contains the same image: one broken image would end a conversation.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

Block: TypeAlias = dict[str, Any]
"""One content block, e.g. `{"type": "text", "text": "…"}`."""

UNPARSED_ARGUMENTS = "unparsed_arguments"
"""The one argument of a call whose arguments are no JSON: their text."""

_ID_STEM = 44
"""Characters of an id that stay when a number is added: services accept ids of at most 64 characters."""


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


def with_own_ids(content: list[Block], used_ids: Collection[str] = ()) -> list[Block]:
    """Return the answer with an id for each call that no other call of it has, and none of `used_ids`.

    Some servers count the calls of each answer from 0, or give all calls one id. Services refuse a conversation in
    which two calls have the same id.
    """
    ids = {block["id"] for block in content if block.get("type") == "tool_use"}
    seen: set[str] = set()
    blocks = list[Block]()
    for block in content:
        if block.get("type") == "tool_use":
            id = block["id"]
            number = len(used_ids) + 2
            while id in seen or id in used_ids:
                candidate = f"{block['id'][:_ID_STEM]}_{number}"
                id = id if candidate in ids else candidate
                number += 1
            seen.add(id)
            block = block if id == block["id"] else block | {"id": id}
        blocks.append(block)
    return blocks


def message_text(content: str | Iterable[Block]) -> str:
    """Return all text of a message, blocks joined by newlines."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def encode(value: Any) -> bytes:
    """Return compact JSON in UTF-8, as history, prefixes and log lines are stored.

    Lone surrogates become `?`, numbers that JSON does not have become null: a service refuses a request with either.
    Raises TypeError for an object that is no JSON.
    """
    line = bytearray()  # bytes that the encoder makes itself keep memory that they did not need
    try:
        _encode_into(value, line)
    except (TypeError, ValueError):  # half a surrogate pair, or a subclass of a plain type
        _encode_into(json.loads(_compact(value).encode("utf-8", "replace")), line)
    return bytes(line)


def decode(line: bytes) -> Any:
    """Return the value that `encode` encoded. Raises ValueError."""
    try:
        return _decoder(line)
    except RecursionError:
        raise ValueError("the value is nested too deeply for JSON") from None


_decoder = msgspec.json.Decoder().decode
_encode_into = msgspec.json.Encoder().encode_into
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

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
        blocks = [block if _is_result_of(block, calls) else _as_text(block) for block in content]
        missing = [call for call in calls if call not in _results(message)]
        message["content"] = [*(tool_result_block(call, LOST_RESULT, is_error=True) for call in missing), *blocks]
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


MAX_IMAGE_BYTES = 3_750_000
"""Bytes of one image: 5 MB as base64, the smallest limit of the supported services."""

MAX_PIXELS = 8_000
"""Pixels of a side (as the Messages API documents it)."""

_PNG = b"\x89PNG\r\n\x1a\n"
_IMAGE_MAGIC = (
    (_PNG, "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_NO_FRAME = frozenset({0xC4, 0xC8, 0xCC})
"""Markers of a JPEG in the range of the frame markers that contain no size."""


def image_type(raw: bytes) -> str | None:
    """Return the media type of an image that models accept, by its first bytes; None for any other content."""
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGE_MAGIC if raw.startswith(magic)), None)


def image_problem(raw: bytes) -> str:
    """Return why these bytes are no image for a model, as a phrase that follows "it"; empty when they are one."""
    kind = image_type(raw)
    if kind is None:
        return "is no png, jpeg, gif or webp"
    if len(raw) > MAX_IMAGE_BYTES:
        return f"has {len(raw):,} bytes; {MAX_IMAGE_BYTES:,} is the most"
    try:
        width, height = _SIZE_READERS[kind](raw)
    except (struct.error, IndexError, ValueError):
        return f"is broken: it begins like {kind}, and cannot be read as that"
    if not (0 < width <= MAX_PIXELS and 0 < height <= MAX_PIXELS):
        return f"has {width:,} × {height:,} pixels; {MAX_PIXELS:,} a side is the most"
    return ""


def _png_size(raw: bytes) -> tuple[int, int]:
    at = len(_PNG)
    data = False
    while True:
        length, kind = struct.unpack_from(">I4s", raw, at)
        data = data or kind == b"IDAT"
        if kind == b"IEND":
            break
        at += 12 + length
    if not data or raw[12:16] != b"IHDR":
        raise ValueError
    width, height = struct.unpack_from(">II", raw, 16)
    return width, height


def _jpeg_size(raw: bytes) -> tuple[int, int]:
    at = 2
    while raw[at] == 0xFF:
        mark = raw[at + 1]
        if mark == 0xFF:
            at += 1
            continue
        if 0xC0 <= mark <= 0xCF and mark not in _NO_FRAME:
            height, width = struct.unpack_from(">HH", raw, at + 5)
            if raw.find(b"\xff\xd9", at) < 0:
                raise ValueError
            return width, height
        at += 2 + struct.unpack_from(">H", raw, at + 2)[0]
    raise ValueError


def _gif_size(raw: bytes) -> tuple[int, int]:
    if b";" not in raw[13:]:
        raise ValueError
    width, height = struct.unpack_from("<HH", raw, 6)
    return width, height


def _webp_size(raw: bytes) -> tuple[int, int]:
    if struct.unpack_from("<I", raw, 4)[0] + 8 > len(raw) + 1:
        raise ValueError
    match raw[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", raw, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = struct.unpack_from("<I", raw, 21)[0]
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return (int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1)
        case _:
            raise ValueError


_SIZE_READERS = {"image/png": _png_size, "image/jpeg": _jpeg_size, "image/gif": _gif_size, "image/webp": _webp_size}
