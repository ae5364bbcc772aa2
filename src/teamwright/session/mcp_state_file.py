"""The state of a session's MCP servers in a file of its directory, for other processes.

Written at each change. Format: docs/reference/formats/mcp.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from teamwright.protocol.errors import StorageError
from teamwright.storage.atomic_write import write_atomic
from teamwright.storage.read_bounded import read_plain

STATE = "mcp.json"
"""Name of the file in a session's directory."""

VERSION = 1
MOST_BYTES = 1_000_000


class ServerStatus(Struct, frozen=True):
    """One server. `state` is asleep (not started yet), starting, running, failed or closed; `tools` None: unknown.

    `pid` is 0 without a local process; `problem` says why it failed; `source` is the place of its configuration.
    """

    name: str
    kind: str = ""
    state: str = ""
    tools: int | None = None
    pid: int = 0
    problem: str = ""
    source: str = ""


class _McpState(Struct, frozen=True):
    servers: tuple[ServerStatus, ...]


def write_state(directory: Path, servers: Sequence[ServerStatus]) -> None:
    """Save the state of the servers. Never raises, so that no call fails because of it."""
    body = {"v": VERSION, "servers": [asdict(server) for server in servers]}
    with suppress(StorageError, OSError):
        write_atomic(directory / STATE, json.dumps(body, ensure_ascii=False, indent=2).encode("utf-8", "replace"))


def read_state(directory: Path) -> tuple[ServerStatus, ...]:
    """Return the servers' last saved state; empty when it cannot be read."""
    try:
        return msgspec.json.decode(read_plain(directory / STATE, MOST_BYTES), type=_McpState).servers
    except (OSError, ValueError, RecursionError):
        return ()
