"""Log messages of an MCP server: a bounded file, and the errors that a person should read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from teamwright.mcp.json_rpc import plain_line

MAX_BYTES = 1_000_000
"""Bytes of a file; later messages are dropped."""

MAX_SHOWN = 10
"""The most different errors of one server that a person reads."""

LEVEL = "warning"
"""The least level that servers are asked for."""

_SERIOUS = frozenset({"error", "critical", "alert", "emergency"})


class ServerLog:
    """The log messages of one server, in a file that is created with the first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size: int | None = None
        self._reported: set[str] = set()

    def add(self, params: Mapping[str, Any], mask: Callable[[str], str]) -> str:
        """Store a message. Return its text when a person should read it: an error, the first time; else nothing."""
        data, level = params.get("data"), plain_line(str(params.get("level", "")), 20)
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        line = plain_line(mask(text), 2_000)
        self._store(f"{level}: {line}\n".encode("utf-8", "replace"))
        notice = plain_line(line, 300)
        if level not in _SERIOUS or notice in self._reported or len(self._reported) >= MAX_SHOWN:
            return ""
        self._reported.add(notice)
        return notice

    def _store(self, content: bytes) -> None:
        """Append to the file, which a server of an earlier process may have begun."""
        with suppress(OSError):
            if self._size is None:
                self._size = self._path.stat().st_size if self._path.exists() else 0
            if self._size + len(content) <= MAX_BYTES:
                self._size += len(content)
                with self._path.open("ab") as file:
                    file.write(content)
