"""The format of the Messages API: the canonical form, sent byte for byte, and events that need no translation.

Only thinking of other services is left out: its signature is invalid here, and the API refuses unknown keys. A
conversation may have used several services.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from teamwright.models.endpoint import Endpoint
from teamwright.models.model import Prefix
from teamwright.models.providers.api_format import PROVIDER_KEY, Event, OutgoingRequest, object_list
from teamwright.processes.http import SseReader
from teamwright.protocol.messages import encode, text_block

_USER = b'{"role":"user"'
_ITEM_END = b"}]}"
_MESSAGE_END = b"]}"
_USER_CONTENT = _USER + b',"content":['
_KIND = b'"cache_control":{"type":"ephemeral"'
_HOUR = _KIND + b',"ttl":"1h"'
_MARK = b"," + _KIND + b"}"
_HOUR_MARK = b"," + _HOUR + b"}"
MARKED_ITEMS = 2


def request_body(prefix: Prefix, items: Sequence[bytes], *, caching: bool) -> bytes:
    """Return the body of a streaming request, with one copy of the long parts."""
    marked = with_breakpoints(items, _HOUR_MARK if prefix.wants_hour_cache else _MARK) if caching else items
    parts = join_user_messages(marked) or [b""]
    # Quotes inside a text are escaped, so a match is always a breakpoint.
    head = prefix.head.replace(_KIND, _HOUR) if caching and prefix.wants_hour_cache else prefix.head
    parts[0] = b"".join((b"{", head, b',"messages":[', parts[0]))
    parts[-1] += b'],"stream":true}'
    return b",".join(parts)


def with_breakpoints(items: Sequence[bytes], mark: bytes = _MARK) -> Sequence[bytes]:
    """Return the items with a cache breakpoint on the last block of the last two user items."""
    marked = list(items)
    left = MARKED_ITEMS
    for place in range(len(marked) - 1, -1, -1):
        item = marked[place]
        if item.startswith(_USER) and item.endswith(_ITEM_END):
            marked[place] = b"".join((item[: -len(_ITEM_END)], mark, _ITEM_END))
            left -= 1
            if not left:
                break
    return marked


def join_user_messages(items: Sequence[bytes]) -> list[bytes]:
    """Return the items with consecutive user messages as one: servers of other makers refuse roles that do not
    alternate.
    """
    groups: list[list[bytes]] = []
    follows_user = False
    for item in items:
        is_user = item.startswith(_USER_CONTENT) and item.endswith(_ITEM_END)
        if is_user and follows_user:
            groups[-1][-1] = groups[-1][-1][: -len(_MESSAGE_END)]
            groups[-1] += [b",", item[len(_USER_CONTENT) :]]
        else:
            groups.append([item])
        follows_user = is_user
    return [b"".join(group) for group in groups]


KNOWN_MESSAGES = 50_000
"""The number of messages that are remembered as checked for foreign thinking; beyond it all are checked again."""
EMPTY_TEXT = "(no words)"
"""The replacement for an answer without remaining blocks."""
_FOREIGN = f'"{PROVIDER_KEY}":"'.encode()


class NoTranslation:
    """A translator that returns each event unchanged."""

    has_trailing = False

    def translate(self, event: Event) -> Iterable[Event]:
        """Return the event."""
        return (event,)


_NO_TRANSLATION = NoTranslation()


class MessagesFormat:
    """See `ApiFormat`. `caching`: breakpoints are set."""

    def __init__(self, endpoint: Endpoint, *, caching: bool) -> None:
        self._endpoint = endpoint
        self._caching = caching
        self._own: set[int] = set()  # hashes of messages without foreign thinking
        self._stripped: dict[int, bytes] = {}  # hash → the message without its foreign thinking

    async def build_request(self, prefix: Prefix, items: Sequence[bytes]) -> OutgoingRequest:
        """Return the prefix and the messages, joined."""
        body = request_body(prefix, self._own_messages(items), caching=self._caching)
        return OutgoingRequest(self._endpoint.url(), self._endpoint.headers(prefix.betas), body)

    def reader(self) -> SseReader:
        """Return a reader of server-sent events."""
        return SseReader()

    def translator(self) -> NoTranslation:
        """Return a translator that changes nothing."""
        return _NO_TRANSLATION

    def _own_messages(self, items: Sequence[bytes]) -> list[bytes]:
        """Return the messages without the thinking of other services. Each is checked once; a later lookup costs
        nothing."""
        own = self._own
        return [item if hash(item) in own else self._strip_foreign(item) for item in items]

    def _strip_foreign(self, item: bytes) -> bytes:
        if (known := self._stripped.get(hash(item))) is not None:
            return known
        if len(self._own) + len(self._stripped) > KNOWN_MESSAGES:
            self._own.clear()
            self._stripped.clear()
        stripped = without_foreign_thinking(item) if _FOREIGN in item else item
        if stripped is item:
            self._own.add(hash(item))
        else:
            self._stripped[hash(item)] = stripped
        return stripped


def without_foreign_thinking(item: bytes) -> bytes:
    """Return a message without the blocks that belong to another service."""
    message: dict[str, Any] = json.loads(item)
    blocks = object_list(message, "content")
    own = [block for block in blocks if PROVIDER_KEY not in block]
    if len(own) == len(blocks):
        return item  # the key occurs only in a text
    return encode({**message, "content": own or [text_block(EMPTY_TEXT)]})
