"""Estimates of tokens by bytes, for prompts that no service has counted yet and for answers whose usage is missing.

A token has four bytes of English text or code, and of digits between one and three, depending on the model: the ratios
of an agent's model are learned from the counts of its service.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.models.model import Prefix, Request
from teamwright.protocol.usage import Usage

BYTES_PER_TOKEN = 4

MIN_LEARNED_BYTES = 2_000
"""Messages with fewer bytes are not learned from: too much of them is what the service adds, such as roles."""

LEAST_RATIO = 1.0
"""The smallest ratio that is learned, in bytes a token. The largest is 4, so no prompt looks shorter than before."""

IMAGE_TOKENS = 1_600
"""The most tokens that an image counts, regardless of its bytes."""

DEFAULT_ANSWER_TOKENS = 8_192
"""The longest answer of a prefix that states no limit."""

_IMAGE = b'"base64"'
_MAX_TOKENS = re.compile(rb'"max_tokens":([0-9]+)')


def message_tokens(item: bytes) -> int:
    """Estimate the tokens of an encoded message: text by its bytes, images by their number."""
    return UNKNOWN_RATIO.message_tokens(item)


def total_tokens(items: Iterable[bytes]) -> int:
    """Estimate the tokens of these messages."""
    return sum(map(message_tokens, items))


class TokenRatio(Struct):
    """The bytes of a token of one model, of text and of digits. Both are 4 until a service has counted."""

    text: float = BYTES_PER_TOKEN
    digits: float = BYTES_PER_TOKEN

    def message_tokens(self, item: bytes) -> int:
        """Estimate the tokens of an encoded message: text by its bytes, images by their number."""
        images = 0
        if _IMAGE in item:
            bare, images = _without_images(json.loads(item))
            item = json.dumps(bare).encode()
        digits = 0 if self.text == self.digits else _count_digits(item)
        return int((len(item) - digits) / self.text + digits / self.digits) + 1 + images * IMAGE_TOKENS

    def total_tokens(self, items: Iterable[bytes]) -> int:
        """Estimate the tokens of these messages."""
        return sum(map(self.message_tokens, items))

    def prefix_tokens(self, prefix: Prefix) -> int:
        """Estimate the tokens that come before every conversation with this prefix."""
        return int(prefix.size / self.text)

    def learn(self, items: Sequence[bytes], tokens: int) -> None:
        """Learn from the tokens that a service counted for these messages, the kind of text of which they have most.

        Short messages and images say nothing.
        """
        size = sum(map(len, items))
        if size < MIN_LEARNED_BYTES or tokens <= 0 or any(_IMAGE in item for item in items):
            return
        digits = sum(map(_count_digits, items))
        text = size - digits
        if digits > text:
            self.digits = _bounded(digits / max(1.0, tokens - text / self.text))
        else:
            self.text = _bounded(text / max(1.0, tokens - digits / self.digits))


def _bounded(ratio: float) -> float:
    return min(max(ratio, LEAST_RATIO), BYTES_PER_TOKEN)


UNKNOWN_RATIO = TokenRatio()
"""The ratio of a model that no service has counted for. It is never changed."""


def _count_digits(item: bytes) -> int:
    return len(item) - len(item.translate(None, b"0123456789"))


def prefix_tokens(prefix: Prefix) -> int:
    """Estimate the tokens that come before every conversation with this prefix."""
    return prefix.size // BYTES_PER_TOKEN


def answer_tokens(prefix: Prefix, default: int = DEFAULT_ANSWER_TOKENS) -> int:
    """Return the longest answer, in tokens, that a request with this prefix asks for; `default` where it asks for
    none.
    """
    found = _MAX_TOKENS.search(prefix.start)
    return int(found[1]) if found else default


def written_tokens(size: int) -> int:
    """Estimate the tokens of an answer of so many bytes."""
    return -(-size // BYTES_PER_TOKEN)


def fill_usage(usage: Usage, request: Request, size: int) -> Usage:
    """Return the usage of an answer that is not complete, of which `size` bytes came.

    The prompt is estimated where the service did not count it, and the answer where more came than it counted.
    """
    out = max(usage.output_tokens, written_tokens(size))
    if usage.prompt_tokens:
        return replace(usage, output_tokens=out)
    prompt = prefix_tokens(request.prefix) + total_tokens(request.items)
    return Usage(prompt, out, requests=max(1, usage.requests))


def text_size(text: str) -> int:
    """Return the size of a text in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _without_images(value: Any) -> tuple[Any, int]:
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        if parts.get("type") == "base64" and isinstance(parts.get("data"), str):
            return "", 1
        fields = {key: _without_images(part) for key, part in parts.items()}
        return {key: part for key, (part, _) in fields.items()}, sum(images for _, images in fields.values())
    if isinstance(value, list):
        rows = [_without_images(part) for part in cast("list[Any]", value)]
        return [part for part, _ in rows], sum(images for _, images in rows)
    return value, 0
