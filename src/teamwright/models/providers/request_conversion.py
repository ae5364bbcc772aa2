"""Decoding of requests in canonical form for the API formats: each prefix and each message is converted once.

A conversation grows at its end, so the converted messages of one call are reused for the next. Depends on blocks.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, field

from teamwright.models.model import Prefix
from teamwright.protocol.messages import Block, encode, message_text, text_block

MAX_BYTES = 32 * 1024 * 1024
"""Bytes of converted messages that are kept; older ones are converted again."""
MAX_PREFIXES = 64
PROVIDER_KEY = "by"
"""The key that names the service of a thinking block; without it, the Messages API."""


class DecodedMessage(Struct, frozen=True):
    """A decoded message. `names` are the tools of the calls before it, by id of the call."""

    role: str
    blocks: list[Block]
    names: Mapping[str, str]


class EncodedMessage(Struct, frozen=True):
    """A converted message: its role in this API, and encoded JSON values, joined by commas."""

    role: str
    encoded: bytes


class PrefixFields(Struct, frozen=True):
    """The fields of a prefix, decoded."""

    model: str
    max_tokens: int
    system: list[Block]
    tools: list[dict[str, Any]]
    tool_choice: Mapping[str, Any]
    thinking: Mapping[str, Any]
    effort: str = ""
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The user's parameters, such as `temperature`."""

    @property
    def instructions(self) -> str:
        """The system prompt as one text."""
        return "\n\n".join(block["text"] for block in self.system if block.get("text"))


def prefix_fields(prefix: Prefix) -> PrefixFields:
    """Return the fields of a prefix."""
    fields: dict[str, Any] = json.loads(b"{" + prefix.head + b"}")
    system: object = fields.get("system") or []
    output: dict[str, Any] = fields.get("output_config") or {}
    return PrefixFields(
        prefix.model,
        int(fields.get("max_tokens") or 0),
        [{"type": "text", "text": system}] if isinstance(system, str) else cast("list[Block]", system),
        fields.get("tools") or [],
        fields.get("tool_choice") or {},
        fields.get("thinking") or {},
        str(output.get("effort") or ""),
        {name: value for name, value in fields.items() if name not in _OURS},
    )


_OURS = frozenset({"model", "max_tokens", "system", "tools", "tool_choice", "thinking", "output_config"})
"""The fields of a prefix that are not the user's parameters."""


class ConversionCache:
    """A cache of converted prefixes and messages, with a size limit."""

    def __init__(
        self, head: Callable[[PrefixFields], bytes], pieces: Callable[[DecodedMessage], Iterable[EncodedMessage]]
    ) -> None:
        """Create the cache. `head` encodes the fields of a prefix; `pieces` converts one message."""
        self._head, self._pieces = head, pieces
        self._heads: OrderedDict[str, bytes] = OrderedDict()
        self._converted_items: OrderedDict[tuple[bytes, bytes], tuple[EncodedMessage, ...]] = OrderedDict()
        self._bytes = 0

    def head(self, prefix: Prefix) -> bytes:
        """Return the prefix for this API."""
        head = self._heads.get(prefix.digest)
        if head is None:
            head = self._heads[prefix.digest] = self._head(prefix_fields(prefix))
            if len(self._heads) > MAX_PREFIXES:
                self._heads.popitem(last=False)
        return head

    def pieces(self, items: Sequence[bytes]) -> list[EncodedMessage]:
        """Return the messages for this API, in order."""
        pieces: list[EncodedMessage] = []
        before = b""
        for item in items:
            pieces += self._convert_item(before, item)
            before = item
        return pieces

    def _convert_item(self, before: bytes, item: bytes) -> tuple[EncodedMessage, ...]:
        messages = self._converted_items.get((before, item))
        if messages is None:
            messages = self._converted_items[before, item] = tuple(self._pieces(_message(before, item)))
            self._bytes += _size(messages)
            while self._bytes > MAX_BYTES and len(self._converted_items) > 1:
                self._bytes -= _size(self._converted_items.popitem(last=False)[1])
        return messages


def _size(pieces: Iterable[EncodedMessage]) -> int:
    return sum(len(piece.encoded) for piece in pieces)


def _message(before: bytes, item: bytes) -> DecodedMessage:
    role, blocks = _decode_item(item)
    calls = _decode_item(before)[1] if before and any(b.get("type") == "tool_result" for b in blocks) else []
    return DecodedMessage(role, blocks, {b["id"]: b["name"] for b in calls if b.get("type") == "tool_use"})


def _decode_item(item: bytes) -> tuple[str, list[Block]]:
    message: dict[str, Any] = json.loads(item)
    content: object = message.get("content") or []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else cast("list[Block]", content)
    return str(message.get("role")), blocks


def merge_messages(pieces: Iterable[EncodedMessage], content_key: bytes) -> bytes:
    """Return messages of `{"role":…, KEY:[…]}`; consecutive ones of the same role are one message."""
    out: list[bytes] = []
    role = ""
    for piece in pieces:
        if piece.role == role:
            out += [b",", piece.encoded]
            continue
        out.append(b"]}," if role else b"")
        role = piece.role
        out += [b'{"role":"', role.encode(), b'","', content_key, b'":[', piece.encoded]
    return b"".join([*out, b"]}" if role else b""])


def result_text(block: Block) -> str:
    """Return the text of a tool's result."""
    return message_text(result_blocks(block))


def result_blocks(block: Block) -> list[Block]:
    """Return the texts and images of a tool's result."""
    body: object = block.get("content") or ""
    if isinstance(body, str):
        return [text_block(body)] if body else []
    return [part for part in cast("list[Block]", body) if part.get("type") in ("text", "image")]


def result_images(block: Block) -> list[Block]:
    """Return the images of a tool's result."""
    return message_images(result_blocks(block))


def message_images(blocks: Iterable[Block]) -> list[Block]:
    """Return the images in the message itself."""
    return [b for b in blocks if b.get("type") == "image" and b["source"].get("type") == "base64"]


def call_arguments(call: Block) -> str:
    """Return the arguments of a call as JSON text."""
    return encode(cast("object", call.get("input")) or {}).decode()


def data_url(image: Block) -> str:
    """Return an image as a data URL."""
    return f"data:{image['source']['media_type']};base64,{image['source']['data']}"


def has_breakpoint(part: Mapping[str, Any]) -> bool:
    """Return True when a part of the prefix has a cache breakpoint."""
    return "cache_control" in part
