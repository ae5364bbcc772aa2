"""The contract of a dialect: a request as this API wants it, and what its stream means in events of the Messages API.

The adapter (`models.messages_api`) does all else for every dialect: connection, clocks, tries, governor, assembly.
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
    """A request as it goes out. The headers hold the key: never log them."""

    url: str
    headers: list[tuple[str, str]]
    body: bytes


class EventReader(Protocol):
    """Events out of bytes, however they are cut."""

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """The events that these bytes complete: the name, or nothing, and JSON. An error is named `error`.

        Raises `ServiceError` when the bytes are no stream.
        """
        ...


class AnswerTranslator(Protocol):
    """What one answer means. Stateful: one an answer."""

    @property
    def has_trailing(self) -> bool:
        """Whether something that counts may still come after the answer itself: the usage, for one."""
        ...

    def translate(self, event: Event) -> Iterable[Event]:
        """One event of this API as events of the Messages API. Raises `ServiceError` for one that is an error."""
        ...


class ApiFormat(Protocol):
    """How one service is spoken to. One object a model; safe to share."""

    async def build_request(self, prefix: Prefix, items: Sequence[bytes]) -> OutgoingRequest:
        """A streaming request. Raises `ServiceError` where there is nothing to sign it with."""
        ...

    def reader(self) -> EventReader:
        """For one answer."""
        ...

    def translator(self, items: Sequence[bytes]) -> AnswerTranslator:
        """For one answer to these messages."""
        ...
