"""Which starts have no stop yet, on disk: a session that is gone on with after a kill gives them theirs.

`<session>/hooks.jsonl`, a line a start and a line a stop, written before the hook runs: a hook that has begun outlives
the kill of its process, and is not begun twice. Knows a file of lines. Format: docs/hooks.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from teamwright.hooks.payload import Who
from teamwright.protocol.clock import iso
from teamwright.protocol.errors import StorageError
from teamwright.storage.jsonl import Journal, read_lines

NAME = "hooks.jsonl"
VERSION = 1


class Starts:
    """The starts of one session; written by the process that drives it. What cannot be noted happens all the same."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._journal: Journal | None = None

    def begun(self, who: Who) -> None:
        """Note a start."""
        fields = {name: _plain(getattr(who, name)) for name in Who.__slots__}
        self._note({"v": VERSION, "type": "start", "at": iso(), "key": who.key, "who": fields})

    def over(self, who: Who) -> None:
        """Note its stop."""
        self._note({"v": VERSION, "type": "stop", "at": iso(), "key": who.key})

    def left_open(self) -> list[Who]:
        """The starts of earlier processes that nobody gave a stop, oldest first; lines that are none are left out."""
        found: dict[str, Who] = {}
        try:
            for line in read_lines(self._path):
                _take(line, found)
        except (OSError, StorageError):
            pass
        return list(found.values())

    def close(self) -> None:
        """Close the file."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _note(self, body: Mapping[str, Any]) -> None:
        try:
            if self._journal is None:
                self._journal = Journal.open(self._path)
            self._journal.append(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        except (OSError, StorageError):
            return


def _take(line: bytes, found: dict[str, Who]) -> None:
    try:
        body = cast("dict[str, Any]", json.loads(line))
        key = str(body["key"])
        if body["type"] == "stop":
            found.pop(key, None)
        elif body["type"] == "start":
            fields = cast("dict[str, Any]", body["who"])
            who = Who(**{name: value for name, value in fields.items() if name in Who.__slots__})
            own = who.own
            found[key] = replace(who, transcript=Path(who.transcript), own=Path(own) if own is not None else None)
    except (ValueError, KeyError, TypeError):
        return


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
