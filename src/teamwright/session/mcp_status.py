"""How the MCP servers of a session stand, in a file of its directory: for other processes to look at.

Written when something changes, read by whoever looks. Format: docs/formats/mcp.md. Starts nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast

from teamwright.protocol.errors import StorageError
from teamwright.protocol.values import dataclass
from teamwright.storage.atomic import write_atomic
from teamwright.storage.read_bounded import read_plain

STATE = "mcp.json"
"""Name of the file in a session's directory."""

VERSION = 1
MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server. `state` is asleep (not started yet), starting, running, failed or closed; `tools` None: not known.

    `pid` is 0 for one that does not run here; `problem` says why it failed; `source` where it is configured.
    """

    name: str
    kind: str = ""
    state: str = ""
    tools: int | None = None
    pid: int = 0
    problem: str = ""
    source: str = ""


def write_state(directory: Path, servers: Sequence[ServerStatus]) -> None:
    """Keep how they stand. Never fails: looking is not worth a failed call."""
    body = {"v": VERSION, "servers": [asdict(server) for server in servers]}
    with suppress(StorageError, OSError):
        write_atomic(directory / STATE, json.dumps(body, ensure_ascii=False, indent=2).encode("utf-8", "replace"))


def read_state(directory: Path) -> tuple[ServerStatus, ...]:
    """How they stood when the session wrote last; nothing when that cannot be known."""
    known = {field.name for field in fields(ServerStatus)}
    try:
        rows: Any = json.loads(read_plain(directory / STATE, MOST_BYTES))["servers"]
        said = [{k: v for k, v in cast("dict[str, Any]", row).items() if k in known} for row in rows]
        return tuple(ServerStatus(**row) for row in said)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
