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
        self._commands: dict[str, str] | None = None

    def seen_from(self, command: str) -> Path | None:
        """The directory that the command was decided on in, the last time; None: nobody allowed it."""
        found = self._known().get(command)
        return None if found is None else Path(found)

    def add(self, command: str, seen_from: Path) -> None:
        """From now on, decided on in that directory. Raises StorageError; then it is not allowed."""
        known = self._known()
        if known.get(command) == str(seen_from):
            return
        others = {one: place for one, place in known.items() if one != command}
        more = dict(list({**others, command: str(seen_from)}.items())[-MOST:])
        body = {"v": VERSION, "allowed": list(more), "seen_from": list(more.values())}
        write_atomic(self._path, json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogateescape"))
        self._commands = more

    def _known(self) -> dict[str, str]:
        if self._commands is None:
            self._commands = self._read()
        return self._commands

    def _read(self) -> dict[str, str]:
        """What the file holds; one that cannot be read allows nothing."""
        try:
            found = cast("dict[str, Any]", json.loads(self._path.read_bytes().decode("utf-8", "surrogateescape")))
            commands, places = cast("list[Any]", found["allowed"]), cast("list[Any]", found["seen_from"])
            pairs = list(zip(commands, places, strict=True)) if found["v"] == VERSION else []
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {one: place for one, place in pairs if isinstance(one, str) and isinstance(place, str)}
