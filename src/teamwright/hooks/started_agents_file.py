"""Agent starts without a stop, on disk: a session that is resumed after a kill runs their stop hooks.

`<session>/hooks.jsonl` has a line for each start and each stop, written before the hook runs: after a kill, a hook
that had begun is not run again. Format: docs/reference/hooks.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from teamwright.hooks.payload import HookAgent
from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import iso_time
from teamwright.storage.json_lines import Journal, read_lines

FILE_NAME = "hooks.jsonl"
VERSION = 1


class AgentStarts:
    """The starts of one session; written by the process that drives it. A failed write does not stop the agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._journal: Journal | None = None

    def record_start(self, agent: HookAgent) -> None:
        fields = {name: _json_value(getattr(agent, name)) for name in HookAgent.__struct_fields__}
        self._note({"v": VERSION, "type": "start", "at": iso_time(), "key": agent.key, "who": fields})

    def record_stop(self, agent: HookAgent) -> None:
        self._note({"v": VERSION, "type": "stop", "at": iso_time(), "key": agent.key})

    def unstopped(self) -> list[HookAgent]:
        """Return the starts of earlier processes without a stop, oldest first; invalid lines are left out."""
        found: dict[str, HookAgent] = {}
        try:
            for line in read_lines(self._path):
                _apply_line(line, found)
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


def _apply_line(line: bytes, found: dict[str, HookAgent]) -> None:
    try:
        body = cast("dict[str, Any]", json.loads(line))
        key = str(body["key"])
        if body["type"] == "stop":
            found.pop(key, None)
        elif body["type"] == "start":
            fields = cast("dict[str, Any]", body["who"])
            who = HookAgent(**{name: value for name, value in fields.items() if name in HookAgent.__struct_fields__})
            own = who.own
            found[key] = replace(who, transcript=Path(who.transcript), own=Path(own) if own is not None else None)
    except (ValueError, KeyError, TypeError):
        return


def _json_value(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
