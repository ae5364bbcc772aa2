"""Repair of a damaged inbox: the whole entries among its bytes.

`atomic.keep_damaged_copy` keeps the bytes. Leaves the decision that a file is damaged to the holder of its lock.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

_START = re.compile(r"(?:^|[\[,]|\n)\s*(?=\{)")
_MAX_DAMAGED_PLACES = 500


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
