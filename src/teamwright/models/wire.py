"""A request as bytes: one joined body, made from parts that are already encoded.

Cache breakpoints are spliced into the two user items that carry them; with the one on the system and the one on
the tools (`prefix.py`) that makes at most the four that the API takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.models.model import Prefix

_USER = b'{"role":"user"'
_ITEM_END = b"}]}"
_KIND = b'"cache_control":{"type":"ephemeral"'
_HOUR = _KIND + b',"ttl":"1h"'
_MARK = b"," + _KIND + b"}"
_HOUR_MARK = b"," + _HOUR + b"}"
MARKED_ITEMS = 2


def body_of(prefix: Prefix, items: Sequence[bytes], *, caching: bool) -> bytes:
    """The body of a streaming request, put together with one copy of what may be long."""
    parts = list(with_breakpoints(items, _HOUR_MARK if prefix.lasting else _MARK) if caching else items) or [b""]
    # Quotes inside a text are escaped: what looks like a breakpoint is one.
    head = prefix.head.replace(_KIND, _HOUR) if caching and prefix.lasting else prefix.head
    parts[0] = b"".join((b"{", head, b',"messages":[', parts[0]))
    parts[-1] += b'],"stream":true}'
    return b",".join(parts)


def with_breakpoints(items: Sequence[bytes], mark: bytes = _MARK) -> Sequence[bytes]:
    """The items with a cache breakpoint on the last block of the last two user items."""
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
