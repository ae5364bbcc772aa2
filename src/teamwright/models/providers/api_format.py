"""The interface of an API format: a request for this API, and its stream as events of the Messages API.

The adapter (`models.service_model`) does the rest for every format: connection, timeouts, retries, rate limits,
assembly. Formats report blocks, counts and the end of an answer to an `AnswerEvents`; one assembly turns its events
into blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias, cast

from msgspec import Struct

from teamwright.models.model import Prefix
from teamwright.models.tool_call_repair import arguments_text

Event: TypeAlias = dict[str, Any]
"""One decoded event of a stream."""


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
        """End the answer."""
        self.has_ended = True
        self._events += [{"type": "message_delta", "delta": {"stop_reason": stop_reason}}, {"type": "message_stop"}]

    def _ensure(self, key: object, block: Event) -> None:
        if key not in self._blocks:
            self.open(key, block)

    def _grow(self, key: object, delta: Event) -> None:
        self._events.append({"type": "content_block_delta", "index": self._blocks[key], "delta": delta})


def thinking_block(by: str) -> Event:
    """Return an empty thinking block of this API."""
    return {"type": "thinking", "thinking": "", "signature": "", "by": by}


def given_text(value: object) -> str:
    """Return a piece of arguments as text: some services send the value itself."""
    return value if isinstance(value, str) else "" if value is None else arguments_text(value)


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
    return counts if isinstance(counts, int) else 0
