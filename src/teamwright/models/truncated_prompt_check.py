"""Detection of truncated prompts: some servers cut a prompt silently when their window is too small.

A prompt was cut when the reported input stops growing while the sent input grows, or when it is as large as the
server's window: then no room is left for an answer. Tokens from the cache count, images do not. The state is kept for
each conversation, so that a check costs only the added messages.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct

from teamwright.models.model import Request
from teamwright.protocol.usage import Usage

GROWTH = 512
"""Tokens (bytes / 4) that must have been added before an unchanged report counts."""
CONVERSATIONS = 256

_IMAGE = re.compile(rb'"type":"base64","media_type":"[^"]*","data":"([^"]*)"')


class _Seen(Struct):
    """The measurements of a conversation so far."""

    items: int = 0
    last: bytes = b""
    text_bytes: int = 0
    sent: int = 0
    reported: int = 0


class PromptCut(Struct, frozen=True):
    """A truncated prompt, in tokens: the estimate of the sent prompt, and the report of the server."""

    sent: int
    read: int


class PromptCheck:
    """The check of one adapter. Not for services that refuse prompts that do not fit."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], _Seen] = OrderedDict()

    def check(self, request: Request, usage: Usage, window: int | None = None) -> PromptCut | None:
        """Return the cut that this answer shows, or None. `window` is the server's own report, in tokens."""
        seen = self._measured_conversation(request)
        sent = (request.prefix.size + _measure(seen, request.items)) // 4
        read = usage.prompt_tokens
        if window is not None and sent > window <= read:
            return PromptCut(sent, read)
        grown = sent - seen.sent
        stood_still = seen.reported and seen.reported * 0.8 <= read <= seen.reported
        if stood_still and grown >= GROWTH and read < sent:
            return PromptCut(sent, read)
        if stood_still and grown >= 0:
            return None  # little was added: it counts together with the next addition
        if grown < 0:
            seen.reported = 0  # compacted: start again
        seen.sent, seen.reported = sent, max(read, seen.reported)
        return None

    def _measured_conversation(self, request: Request) -> _Seen:
        key = (request.agent_name, request.prefix.digest)
        seen = self._seen.pop(key, None) or _Seen()
        self._seen[key] = seen
        if len(self._seen) > CONVERSATIONS:
            self._seen.popitem(last=False)
        return seen


def _measure(seen: _Seen, items: Sequence[bytes]) -> int:
    """Return the bytes of the items without their images; counts only the items added since the last call."""
    if not (seen.items and seen.items <= len(items) and items[seen.items - 1] is seen.last):
        seen.items = 0
        seen.text_bytes = 0
    for item in items[seen.items :]:
        seen.text_bytes += len(item) - sum(len(found) for found in _IMAGE.findall(item))
    seen.items = len(items)
    seen.last = items[-1] if items else b""
    return seen.text_bytes
