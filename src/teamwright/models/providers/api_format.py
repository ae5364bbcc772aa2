"""The interface of an API format: a request for this API, and its stream as events of the Messages API.

The adapter (`models.messages_api`) does the rest for every format: connection, timeouts, retries, rate limits,
assembly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from teamwright.models.model import Prefix
from teamwright.protocol.values import dataclass

Event: TypeAlias = dict[str, Any]
"""One decoded event of a stream."""


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
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

    def translator(self, items: Sequence[bytes]) -> AnswerTranslator:
        """Return a translator for one answer to these messages."""
        ...
