"""The Messages API as a dialect: our own form, sent byte for byte, and events that need no translation.

Only what another service thought is left out: its proof is worth nothing here, and the API refuses keys it does not
know. A conversation may have been with several services.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from teamwright.models.dialects.canonical import BY
from teamwright.models.dialects.dialect import Event, Outgoing
from teamwright.models.dialects.meaning import listed
from teamwright.models.endpoint import Endpoint
from teamwright.models.model import Prefix
from teamwright.models.sse import SseReader
from teamwright.models.wire import body_of
from teamwright.protocol.blocks import encode, text_block

CHECKED_BYTES = 32 * 1024 * 1024
"""Bytes of messages that are known to hold nothing foreign; beyond it all are looked at again."""
NO_WORDS = "(no words)"
"""What stands for an answer of which nothing is left."""
_FOREIGN = f'"{BY}":"'.encode()


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
        self._checked: dict[bytes, bytes] = {}
        self._bytes = 0

    async def outgoing(self, prefix: Prefix, items: Sequence[bytes]) -> Outgoing:
        """The prefix and the messages, joined."""
        body = body_of(prefix, self._own(items), caching=self._caching)
        return Outgoing(self._endpoint.url(), self._endpoint.headers(prefix.betas), body)

    def reader(self) -> SseReader:
        """Server-sent events."""
        return SseReader()

    def translator(self, items: Sequence[bytes]) -> AsItIs:
        """Nothing to translate."""
        return _AS_IT_IS

    def _own(self, items: Sequence[bytes]) -> list[bytes]:
        """The messages without what other services thought. Each is looked at once; a look-up costs nothing."""
        known = self._checked
        return [found if (found := known.get(item)) is not None else self._look(item) for item in items]

    def _look(self, item: bytes) -> bytes:
        if self._bytes > CHECKED_BYTES:
            self._checked.clear()
            self._bytes = 0
        own = self._checked[item] = without_foreign(item) if _FOREIGN in item else item
        self._bytes += len(item)
        return own


def without_foreign(item: bytes) -> bytes:
    """A message without the blocks that are another service's own."""
    message: dict[str, Any] = json.loads(item)
    blocks = listed(message, "content")
    own = [block for block in blocks if BY not in block]
    if len(own) == len(blocks):
        return item  # somebody wrote of it
    return encode({**message, "content": own or [text_block(NO_WORDS)]})
