"""Repair of a damaged inbox: a copy of all its bytes, and the whole entries among them.

Leaves the decision that a file is damaged to the holder of its lock.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

from teamwright.protocol.clock import now_ms
from teamwright.storage.atomic import write_new

_START = re.compile(r"(?:^|[\[,]|\n)\s*(?=\{)")
_MAX_DAMAGED_PLACES = 500


def keep_damaged_copy(path: Path, content: bytes) -> Path:
    """Copy the bytes to `<file>.bad.<ms since 1970>` and return its path. Raises StorageError."""
    moment = now_ms()
    while True:
        copy = path.with_name(f"{path.name}.bad.{moment}")
        if write_new(copy, content):
            return copy
        moment += 1


def salvage_entries(content: bytes) -> list[dict[str, Any]]:
    """Return every whole entry in the bytes, in order: an object with a `text` or a `from`, at a place where one may
    begin.

    Tries only places outside other whole objects, and at most 500 places that turn out to be incomplete.
    """
    text = content.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    saved: list[dict[str, Any]] = []
    position = tears = 0
    while tears < _MAX_DAMAGED_PLACES:
        start = _START.search(text, position)
        if start is None:
            break
        try:
            value, position = decoder.raw_decode(text, start.end())
        except (ValueError, RecursionError):
            position = start.end() + 1
            tears += 1
            continue
        entry = cast("dict[str, Any]", value)
        if "text" in entry or "from" in entry:
            saved.append(entry)
    return saved
