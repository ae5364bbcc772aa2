"""The commands that were allowed as checks in a session: kept in a file, so that a resume knows them.

Whatever else stands in a task's file was written by somebody that nobody asked. Format: docs/formats/tasks.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from teamwright.storage.atomic import write_atomic

VERSION = 1
MOST = 1000
"""Commands that are kept; of more the oldest are forgotten, and are allowed anew when they are set again."""


class Allowed:
    """The allowed commands of the session whose file this is. Holds them in memory, and writes each new one at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._commands: dict[str, None] | None = None

    def __contains__(self, command: str) -> bool:
        return command in self._known()

    def add(self, command: str) -> None:
        """From now on. Raises StorageError; then it is not allowed."""
        known = self._known()
        if command in known:
            return
        more = [*known, command][-MOST:]
        write_atomic(self._path, json.dumps({"v": VERSION, "allowed": more}, ensure_ascii=False).encode())
        self._commands = dict.fromkeys(more)

    def _known(self) -> dict[str, None]:
        if self._commands is None:
            self._commands = dict.fromkeys(self._read())
        return self._commands

    def _read(self) -> list[str]:
        """What the file holds; one that cannot be read allows nothing."""
        try:
            found = cast("dict[str, Any]", json.loads(self._path.read_bytes()))
            commands: Any = found["allowed"] if found["v"] == VERSION else []
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return (
            [one for one in cast("list[Any]", commands) if isinstance(one, str)] if isinstance(commands, list) else []
        )
