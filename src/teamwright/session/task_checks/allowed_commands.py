"""The commands that were allowed as checks in a session, in a file, for a resume and for all its processes.

Other commands in a task's file are not trusted. Format: docs/reference/formats/tasks.md.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

from teamwright.storage.atomic import write_atomic
from teamwright.storage.exclusive_lock import hold_exclusive

VERSION = 1
MOST = 1000
"""Maximum number of stored commands; the oldest are dropped, and are allowed again when they are set again."""


class AllowedCommands:
    """The allowed commands in a session's file, which is read again after a change and written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._commands: dict[str, str] = {}
        self._seen: tuple[int, int, int] | None = None

    def decision_directory(self, command: str) -> Path | None:
        """Return the directory of the last decision on the command; None: it was never allowed."""
        found = self._known().get(command)
        return None if found is None else Path(found)

    def add(self, command: str, seen_from: Path) -> None:
        """Allow a command, with the directory of the decision. Raises StorageError; then it is not allowed."""
        if self._known().get(command) == str(seen_from):
            return
        with hold_exclusive(self._path.with_suffix(".lock"), self._path):
            others = {one: place for one, place in self._known().items() if one != command}
            more = dict(list({**others, command: str(seen_from)}.items())[-MOST:])
            body = {"v": VERSION, "allowed": list(more), "seen_from": list(more.values())}
            write_atomic(self._path, json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogateescape"))

    def _known(self) -> dict[str, str]:
        try:
            stat = os.stat(self._path)
        except OSError:
            return {}
        if self._seen != (now := (stat.st_ino, stat.st_mtime_ns, stat.st_size)):
            self._commands, self._seen = self._read(), now
        return self._commands

    def _read(self) -> dict[str, str]:
        """Return the content of the file; an unreadable file allows nothing."""
        try:
            found = cast("dict[str, Any]", json.loads(self._path.read_bytes().decode("utf-8", "surrogateescape")))
            commands, places = cast("list[Any]", found["allowed"]), cast("list[Any]", found["seen_from"])
            pairs = list(zip(commands, places, strict=True)) if found["v"] == VERSION else []
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {one: place for one, place in pairs if isinstance(one, str) and isinstance(place, str)}
