"""The size of a message: a text of an agent or person that is too long is refused, one of the runtime is cut.

Depends on the values of mail.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from teamwright.protocol.errors import UsageError
from teamwright.protocol.mail import PermissionRequest, PermissionResponse, parse_protocol

MAX_TEXT_BYTES = 256_000
"""Bytes of UTF-8 that one message may have; longer text should be in a file."""

_ROOM_BYTES = 4_000
"""Bytes that a cut text leaves free: for the note about the cut, and for what another product's format adds."""

SaveText = Callable[[str], str]
"""Stores a text that is about to be cut. Returns the path of its file, or an empty text."""


def save_nothing(_text: str) -> str:
    """Return an empty text: the whole text is kept nowhere else."""
    return ""


def is_too_long(text: str) -> bool:
    """Return True for a text that no message may have."""
    return len(text) > MAX_TEXT_BYTES // 4 and len(text.encode("utf-8", "replace")) > MAX_TEXT_BYTES


def check_text_size(text: str, what: str = "the message", note: str = "nothing was sent") -> None:
    """Raise UsageError for a text that is too long for a message. `what` names it, `note` says what was not done."""
    if is_too_long(text):
        raise UsageError(
            "usage",
            f"{what} is longer than {MAX_TEXT_BYTES // 1000} kB",
            do=["write it to a file and give the file's path"],
            note=note,
        )


def fit_text(text: str, save: SaveText = save_nothing) -> str:
    """Return a text of the runtime as a message may have it: a longer one is cut, with the file of the whole.

    In a protocol message the longest strings are cut. A permission request and its answer are never cut: their input
    runs as it is.
    """
    if not is_too_long(text):
        return text
    message = parse_protocol(text)
    if isinstance(message, PermissionRequest | PermissionResponse):
        return text
    if message is None:
        return _cut(text, MAX_TEXT_BYTES - _ROOM_BYTES, save)
    data = cast("dict[str, Any]", json.loads(text))
    while (over := len(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")) - MAX_TEXT_BYTES) > 0:
        fields, key, value = max(_strings(data), key=lambda one: len(one[2]))
        if len(value) <= _ROOM_BYTES:
            break  # many short strings, which nothing of the runtime has
        # Every character that goes saves at least one byte.
        fields[key] = _cut(value, max(0, len(value.encode("utf-8", "replace")) - over - _ROOM_BYTES), save)
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _cut(text: str, size: int, save: SaveText) -> str:
    file = save(text)
    where = f"{file} has all of it" if file else "the rest is in the event log"
    total = len(text.encode("utf-8", "replace")) // 1000
    kept = text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
    return f"{kept}\n[… cut: of {total} kB a message has room for {len(kept.encode()) // 1000} kB; {where}]"


def _strings(value: Any) -> list[tuple[Any, Any, str]]:
    """Return all strings in it, each with what holds it and its key there."""
    found: list[tuple[Any, Any, str]] = []
    rows: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        rows = list(cast("dict[Any, Any]", value).items())
    elif isinstance(value, list):
        rows = list(enumerate(cast("list[Any]", value)))
    for key, one in rows:
        if isinstance(one, str):
            found.append((cast("Any", value), key, one))
        else:
            found += _strings(one)
    return found
