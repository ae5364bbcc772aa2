"""The interface of an API format: a request for this API, and its stream as events of the Messages API.

The adapter (`models.service_model`) does the rest for every format: connection, timeouts, retries, rate limits,
assembly. Formats report blocks, counts and the end of an answer to an `AnswerEvents`; one assembly turns its events
into blocks. A `ConversionCache` converts each prefix and each message once: a conversation grows at its end, so the
converted messages of one call are reused for the next.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

from msgspec import Struct, field

from teamwright.models.model import Prefix
from teamwright.models.tool_call_repair import arguments_text
from teamwright.protocol.messages import Block, encode, message_text, text_block

Event: TypeAlias = dict[str, Any]
"""One decoded event of a stream."""

PROVIDER_KEY = "by"
"""The key that names the service of a thinking block; without it, the Messages API."""


class ApiFormat(Protocol):
    """The format of one API. One object for each model; safe to share."""

    async def build_request(self, prefix: Prefix, items: Sequence[bytes]) -> OutgoingRequest:
        """Return a streaming request. Raises `ServiceError` without credentials to sign it."""
        ...

    def reader(self) -> EventReader:
        """Return a reader for one answer."""
        ...

    def translator(self) -> AnswerTranslator:
        """Return a translator for one answer."""
        ...


class OutgoingRequest(Struct, frozen=True):
    """A request ready to send. The headers contain the key: never log them."""

    url: str
    headers: list[tuple[str, str]]
    body: bytes


class EventReader(Protocol):
    """A parser of events from bytes in chunks of any size."""

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """Return the events that these bytes complete: the name, or nothing, and JSON. An error is named `error`.

        Raises `ServiceError` when the bytes are no stream.
        """
        ...


class AnswerTranslator(Protocol):
    """A translator of one answer. Stateful."""

    @property
    def has_trailing(self) -> bool:
        """True when a relevant event may follow the answer itself, such as the usage."""
        ...

    def translate(self, event: Event) -> Iterable[Event]:
        """Return one event of this API as events of the Messages API. Raises `ServiceError` for an error event."""
        ...


PROMPT_PROGRESS = "prompt_progress"
"""The type of an event that the Messages API does not have: the server has read a `share` of the prompt, 0 … 1."""


class AnswerEvents:
    """A collector of events. A block is identified by a key of the translator's choice; a new key opens a block."""

    __slots__ = ("_blocks", "_events", "calls", "has_ended")

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._blocks: dict[object, int] = {}
        self.calls = 0
        self.has_ended = False

    def take_events(self) -> list[Event]:
        """Return and remove the collected events."""
        events, self._events = self._events, []
        return events

    def has(self, key: object) -> bool:
        """Return True when a block of this key exists."""
        return key in self._blocks

    def prompt_progress(self, progress: Event) -> None:
        """Report how much of the prompt llama.cpp has read: `processed` of `total` tokens, cached ones included."""
        total = count_field(progress, "total")
        if total:
            share = max(0.0, min(1.0, count_field(progress, "processed") / total))
            self._events.append({"type": PROMPT_PROGRESS, "share": share})

    def begin(self, model: object) -> None:
        """Start the answer of this model."""
        self._events.append({"type": "message_start", "message": {"model": model or ""}})

    def open(self, key: object, block: Event) -> None:
        """Open a block, with its known fields."""
        index = self._blocks[key] = len(self._blocks)
        self.calls += block["type"] == "tool_use"
        self._events.append({"type": "content_block_start", "index": index, "content_block": block})

    def text(self, key: object, text: str) -> None:
        """Add text to a block."""
        if text:
            self._ensure(key, {"type": "text", "text": ""})
            self._grow(key, {"type": "text_delta", "text": text})

    def thinking(self, key: object, text: str, by: str) -> None:
        """Add thinking to a block."""
        if text:
            self._ensure(key, thinking_block(by))
            self._grow(key, {"type": "thinking_delta", "thinking": text})

    def signature(self, key: object, signature: str, by: str) -> None:
        """Add the signature that proves the thinking of a block to its service."""
        self._ensure(key, thinking_block(by))
        self._grow(key, {"type": "signature_delta", "signature": signature})

    def call(self, key: object, id: object, name: object) -> None:
        """Open a call, with its id and name as received."""
        self.open(key, {"type": "tool_use", "id": id, "name": name, "input": {}})

    def replace(self, key: object, block: Event) -> None:
        """Replace a block by what the service said in the end."""
        self._events.append(
            {"type": "content_block_start", "index": self._blocks[key], "content_block": block, WHOLE_BLOCK: True}
        )

    def arguments(self, key: object, value: object) -> None:
        """Add arguments to a call: JSON in pieces, or all of them as a value."""
        if text := given_text(value):
            self._grow(key, {"type": "input_json_delta", "partial_json": text})

    def count(self, fresh: object, out: object, read: object = 0, write: object = 0) -> None:
        """Report the usage so far. `fresh` are the tokens that were neither read from a cache nor written to one."""
        usage = {
            "input_tokens": fresh,
            "output_tokens": out,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": write,
        }
        self._events.append({"type": "message_delta", "delta": {}, "usage": usage})

    def end(self, stop_reason: str) -> None:
        self.has_ended = True
        self._events += [{"type": "message_delta", "delta": {"stop_reason": stop_reason}}, {"type": "message_stop"}]

    def _ensure(self, key: object, block: Event) -> None:
        if key not in self._blocks:
            self.open(key, block)

    def _grow(self, key: object, delta: Event) -> None:
        self._events.append({"type": "content_block_delta", "index": self._blocks[key], "delta": delta})


MAX_CONVERTED_BYTES = 32 * 1024 * 1024
"""Bytes of converted messages that are kept; older ones are converted again."""

MAX_PREFIXES = 64
"""The most converted prefixes that are kept."""

_OWN_FIELDS = frozenset({"model", "max_tokens", "system", "tools", "tool_choice", "thinking", "output_config"})
"""The fields of a prefix that are not the user's parameters."""


class ConversionCache:
    """A cache of converted prefixes and messages, with a size limit."""

    def __init__(
        self, head: Callable[[PrefixFields], bytes], pieces: Callable[[DecodedMessage], Iterable[EncodedMessage]]
    ) -> None:
        """Create the cache. `head` encodes the fields of a prefix; `pieces` converts one message."""
        self._head = head
        self._pieces = pieces
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
            messages = self._converted_items[before, item] = tuple(self._pieces(_decode_message(before, item)))
            self._bytes += _size(messages)
            while self._bytes > MAX_CONVERTED_BYTES and len(self._converted_items) > 1:
                self._bytes -= _size(self._converted_items.popitem(last=False)[1])
        return messages


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
    answer_schema: Mapping[str, Any] | None = None
    """The JSON schema that the answer must fit, an object; None: the answer is free text."""

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
        model=prefix.model,
        max_tokens=int(fields.get("max_tokens") or 0),
        system=[{"type": "text", "text": system}] if isinstance(system, str) else cast("list[Block]", system),
        tools=fields.get("tools") or [],
        tool_choice=fields.get("tool_choice") or {},
        thinking=fields.get("thinking") or {},
        effort=str(output.get("effort") or ""),
        answer_schema=object_field(output, "format").get("schema"),
        sampling={name: value for name, value in fields.items() if name not in _OWN_FIELDS},
    )


def _size(pieces: Iterable[EncodedMessage]) -> int:
    return sum(len(piece.encoded) for piece in pieces)


def _decode_message(before: bytes, item: bytes) -> DecodedMessage:
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


def thinking_block(by: str) -> Event:
    """Return an empty thinking block of this API."""
    return {"type": "thinking", "thinking": "", "signature": "", "by": by}


def given_text(value: object) -> str:
    """Return a piece of arguments as text: some services send the value itself."""
    return value if isinstance(value, str) else "" if value is None else arguments_text(value)


def answer_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name and the schema of an answer, as OpenAI's APIs take them.

    `strict` is set where the schema has the form that OpenAI demands for it: closed objects whose properties are all
    required.
    """
    return {"name": "answer", "schema": schema, "strict": _is_closed(schema)}


def _is_closed(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_closed, cast("list[object]", value)))
    if not isinstance(value, dict):
        return True
    fields = cast("dict[str, Any]", value)
    if fields.get("type") == "object":
        names = cast("dict[str, Any]", fields.get("properties", {}))
        if fields.get("additionalProperties") is not False or set(names) != set(fields.get("required", ())):
            return False
    return all(map(_is_closed, fields.values()))


WHOLE_BLOCK = "whole"
"""The key of a `content_block_start` that replaces a block by what its service said in the end."""


def block_number(value: object) -> int | None:
    """Return the number of a block or a call; None where a server leaves it out or sends another value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def content_value(event: Event, key: str) -> object:
    """Return a part of an answer. Raises KeyError without it: an answer without one of its parts is another answer."""
    if key not in event:
        raise KeyError(key)
    return cast("object", event[key])


def content_text(event: Event, key: str) -> str:
    """Return a piece of text. Raises KeyError where there is none, or one that is no text; null is an empty one."""
    text = content_value(event, key)
    if text is not None and not isinstance(text, str):
        raise KeyError(key)
    return text or ""


def content_object(event: Event, key: str) -> Event:
    """Return an object with a part of an answer; an empty one where there is none. Raises KeyError for another
    value.
    """
    found: object = event.get(key)
    if found and not isinstance(found, dict):
        raise KeyError(key)
    return cast("Event", found or {})


def content_list(event: Event, key: str) -> list[Event]:
    """Return a list of objects with parts of an answer; an empty one where there is none. Raises KeyError for another
    value.
    """
    found: object = event.get(key)
    rows = cast("list[object]", found if isinstance(found, list) else [found] if found else [])
    if not all(isinstance(row, dict) for row in rows):
        raise KeyError(key)
    return cast("list[Event]", rows)


def object_field(event: Event, key: str) -> Event:
    """Return an object in an event; an empty one where there is none."""
    found: object = event.get(key)
    return cast("Event", found) if isinstance(found, dict) else {}


def object_list(event: Event, key: str) -> list[Event]:
    """Return the objects of a list in an event; none where there is no list."""
    found: object = event.get(key)
    rows = cast("list[object]", found) if isinstance(found, list) else []
    return [cast("Event", row) for row in rows if isinstance(row, dict)]


def count_field(counts: object, *path: str) -> int:
    """Return a count in nested objects; 0 where it is missing."""
    for key in path:
        counts = cast("dict[str, Any]", counts).get(key) if isinstance(counts, dict) else None
    return counts if isinstance(counts, int) and not isinstance(counts, bool) and counts > 0 else 0


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
