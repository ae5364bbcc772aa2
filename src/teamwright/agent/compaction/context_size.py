"""The size of a conversation in tokens: the service's count where there is one, and an estimate by bytes for the rest.

Each message is counted once. Depends on encoded messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, cast

from teamwright.agent.compaction.compaction_state import Compaction
from teamwright.agent.conversation import Conversation
from teamwright.models.model import Prefix

BYTES_PER_TOKEN = 4

IMAGE_TOKENS = 1_600
"""The most tokens that an image counts, regardless of its bytes."""

DEFAULT_ANSWER_TOKENS = 8_192
"""The longest answer of a prefix that states no limit."""

_IMAGE = b'"base64"'
_MAX_TOKENS = re.compile(rb'"max_tokens":([0-9]+)')


def message_tokens(item: bytes) -> int:
    """Estimate the tokens of an encoded message: text by its bytes, images by their number."""
    if _IMAGE not in item:
        return len(item) // BYTES_PER_TOKEN + 1
    bare, images = _without_images(json.loads(item))
    return len(json.dumps(bare)) // BYTES_PER_TOKEN + images * IMAGE_TOKENS


def total_tokens(items: Iterable[bytes]) -> int:
    """Estimate the tokens of these messages."""
    return sum(map(message_tokens, items))


def prefix_tokens(prefix: Prefix) -> int:
    """Estimate the tokens that come before every conversation with this prefix."""
    return prefix.size // BYTES_PER_TOKEN


def answer_tokens(prefix: Prefix) -> int:
    """Return the longest answer, in tokens, that a request with this prefix asks for."""
    found = _MAX_TOKENS.search(prefix.start)
    return int(found[1]) if found else DEFAULT_ANSWER_TOKENS


def measure_context(conversation: Conversation, compaction: Compaction) -> int:
    """Return the size of the next request in tokens, without the answer.

    Only messages since the last call are counted.
    """
    number, tokens = conversation.reported_tokens
    if not tokens or number > len(conversation.items):
        number, tokens = 0, prefix_tokens(conversation.prefix)
    known = compaction.measured_context
    if number < known[0] <= len(conversation.items):
        number, tokens = known
    tokens += total_tokens(conversation.items[number:])
    compaction.measured_context = (len(conversation.items), tokens)
    return tokens


def _without_images(value: Any) -> tuple[Any, int]:
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        if parts.get("type") == "base64" and isinstance(parts.get("data"), str):
            return "", 1
        made = {key: _without_images(part) for key, part in parts.items()}
        return {key: part for key, (part, _) in made.items()}, sum(images for _, images in made.values())
    if isinstance(value, list):
        rows = [_without_images(part) for part in cast("list[Any]", value)]
        return [part for part, _ in rows], sum(images for _, images in rows)
    return value, 0
