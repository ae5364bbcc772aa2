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

LEVEL = "warning"
"""The least level that servers are asked for."""

_SERIOUS = frozenset({"error", "critical", "alert", "emergency"})


class ServerLog:
    """The log messages of one server, in a file that is created with the first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = 0

    def add(self, params: Mapping[str, Any], mask: Callable[[str], str]) -> str:
        """Store a message. Return its text when it reports an error; else an empty text."""
        data, level = params.get("data"), plain_line(str(params.get("level", "")), 20)
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        line = plain_line(mask(text), 2_000)
        content = f"{level}: {line}\n".encode("utf-8", "replace")
        if self._size + len(content) <= MAX_BYTES:
            self._size += len(content)
            with suppress(OSError), self._path.open("ab") as file:
                file.write(content)
        return plain_line(line, 300) if level in _SERIOUS else ""
