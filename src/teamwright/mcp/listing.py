"""The tools of a server as they are offered, and kept on disk by what the server's configuration says.

A listing comes from a stranger: names, texts and schemas are checked and bounded, whether it comes from the server or
from the disk. Format of the files: docs/formats/mcp.md. Knows no transport.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from teamwright.mcp.names import LONGEST, tool_name
from teamwright.mcp.schemas import Schema, cleaned
from teamwright.protocol.errors import StorageError
from teamwright.protocol.values import dataclass
from teamwright.storage.atomic import write_atomic
from teamwright.storage.paths import make_private
from teamwright.storage.plain import read_plain

VERSION = 1

MOST_TOOLS = 500
"""Tools of one server that are looked at."""

MOST_DESCRIPTION = 2_000
MOST_FILE = 8_000_000
MOST_KEPT = 200
"""Files of listings; beyond them the oldest go."""


@dataclass(frozen=True)
class ServedTool:
    """One tool: `wire` as its server calls it, `name` as ours is called."""

    wire: str
    name: str
    description: str
    schema: Mapping[str, Any] = field(repr=False)

    @cached_property
    def size(self) -> int:
        """Bytes that it costs in a prefix."""
        told = {"name": self.name, "description": self.description, "input_schema": self.schema}
        return len(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace"))

    @property
    def required(self) -> list[str]:
        """The parameters that a call must have."""
        return list(self.schema.get("required", ()))

    @property
    def in_a_line(self) -> str:
        """The name and the beginning of the description."""
        first = self.description.strip().split("\n", 1)[0]
        return f"{self.wire}: {first if len(first) <= 120 else first[:119] + '…'}"


def read_tools(key: str, raw: Iterable[object]) -> tuple[tuple[ServedTool, ...], list[str]]:
    """The usable tools of a listing, and a line for each that is not."""
    found: dict[str, ServedTool] = {}
    refused: list[str] = []
    for entry in raw:
        made = _tool(key, entry)
        if isinstance(made, str):
            refused.append(made)
        elif made.name in found:
            refused.append(f"{made.wire[:60]!r} has the same name as {found[made.name].wire[:60]!r}")
        else:
            found[made.name] = made
    return tuple(found.values()), refused


def _tool(key: str, entry: object) -> ServedTool | str:
    if not isinstance(entry, dict):
        return "an entry that is not an object"
    said = cast("Schema", entry)
    wire, text, schema = said.get("name"), said.get("description", ""), said.get("inputSchema", {})
    if not isinstance(wire, str) or not wire or not wire.isprintable():
        return "a tool without a name"
    name = tool_name(key, wire)
    if len(name) > LONGEST:
        return f"{wire[:60]!r} has a name that is too long"
    if not isinstance(schema, dict):
        return f"{wire!r} has no schema"
    try:
        made = cleaned(cast("Schema", schema))
    except (ValueError, RecursionError) as problem:
        return f"{wire!r} has a schema that cannot be used: {problem}"
    return ServedTool(wire, name, _plain(text if isinstance(text, str) else ""), made)


def _plain(text: str) -> str:
    kept = "".join(c for c in text[: 2 * MOST_DESCRIPTION] if c.isprintable() or c in "\n\t").strip()
    return kept if len(kept) <= MOST_DESCRIPTION else kept[: MOST_DESCRIPTION - 1] + "…"


class Listings:
    """The files of a home: one a configuration. What cannot be read or written is as if it had never been kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, digest: str, key: str) -> tuple[ServedTool, ...] | None:
        """What the server of that configuration listed last; None when nobody knows."""
        try:
            read: Any = json.loads(read_plain(self._path(digest), MOST_FILE))
            if read["v"] != VERSION or not isinstance(read["tools"], list):
                return None
            return read_tools(key, cast("list[object]", read["tools"])[:MOST_TOOLS])[0]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def keep(self, digest: str, server: str, tools: Iterable[ServedTool]) -> None:
        """Keep a listing."""
        listed = [{"name": tool.wire, "description": tool.description, "inputSchema": tool.schema} for tool in tools]
        body = json.dumps({"v": VERSION, "server": server, "tools": listed}, ensure_ascii=False)
        with contextlib.suppress(OSError, StorageError):
            make_private(self._directory)
            write_atomic(self._path(digest), body.encode("utf-8", "replace"))
            self._prune()

    def _path(self, digest: str) -> Path:
        return self._directory / f"{digest}.json"

    def _prune(self) -> None:
        kept = list(self._directory.glob("*.json"))
        if len(kept) > MOST_KEPT:
            kept.sort(key=lambda path: path.stat().st_mtime)
            for path in kept[:-MOST_KEPT]:
                path.unlink(missing_ok=True)
