"""The Messages API as a dialect: our own form, sent byte for byte, and events that need no translation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from teamwright.models.dialects.dialect import Event, Outgoing
from teamwright.models.endpoint import Endpoint
from teamwright.models.model import Prefix
from teamwright.models.sse import SseReader
from teamwright.models.wire import body_of


class AsItIs:
    """A translator that has nothing to do."""

    trailing = False

    def take(self, event: Event) -> Iterable[Event]:
        """The event."""
        return (event,)


_AS_IT_IS = AsItIs()


class MessagesDialect:
    """See `Dialect`. `caching`: breakpoints are set."""

    def __init__(self, endpoint: Endpoint, *, caching: bool) -> None:
        self._endpoint = endpoint
        self._caching = caching

    async def outgoing(self, prefix: Prefix, items: Sequence[bytes]) -> Outgoing:
        """The prefix and the messages, joined."""
        body = body_of(prefix, items, caching=self._caching)
        return Outgoing(self._endpoint.url(), self._endpoint.headers(prefix.betas), body)

    def reader(self) -> SseReader:
        """Server-sent events."""
        return SseReader()

    def translator(self, items: Sequence[bytes]) -> AsItIs:
        """Nothing to translate."""
        return _AS_IT_IS
