"""The state of a session's process in files, for other processes: its MCP servers and its sandbox.

The files are in the session's directory. Reading them loads none of the parts that they are about.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from teamwright.protocol.errors import StorageError
from teamwright.sandbox.policy import SandboxReport
from teamwright.storage.files import read_plain, write_atomic

SERVERS_FILE = "mcp.json"
"""The file in a session's directory that says in which state its servers are. Format: docs/reference/formats/mcp.md."""

_MOST_SERVERS_BYTES = 1_000_000


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


def write_servers(directory: Path, servers: Sequence[ServerStatus]) -> None:
    """Save the state of the servers. Never raises, so that no call fails because of it."""
    body = {"v": 1, "servers": [asdict(server) for server in servers]}
    with suppress(StorageError, OSError):
        write_atomic(
            directory / SERVERS_FILE, json.dumps(body, ensure_ascii=False, indent=2).encode("utf-8", "replace")
        )


def read_servers(directory: Path) -> tuple[ServerStatus, ...]:
    """Return the servers' last saved state; empty when it cannot be read."""
    try:
        return msgspec.json.decode(read_plain(directory / SERVERS_FILE, _MOST_SERVERS_BYTES), type=_McpState).servers
    except (OSError, ValueError, RecursionError):
        return ()


SANDBOX_FILE = "sandbox.json"
"""The file in a session's directory that says what confines its commands. Format: docs/reference/formats/README.md."""

_MOST_BYTES = 100_000


class _SandboxFile(Struct, frozen=True):
    v: int
    pid: int
    sandbox: SandboxReport


def write_sandbox(directory: Path, report: SandboxReport) -> None:
    """Save what confines the commands of this process. Never raises: no start fails because of it."""
    with suppress(StorageError, OSError):
        write_atomic(directory / SANDBOX_FILE, msgspec.json.encode(_SandboxFile(1, os.getpid(), report)))


def read_sandbox(directory: Path, pid: int) -> SandboxReport | None:
    """Return what the process of this id saved; None when it has saved nothing yet, or it cannot be read."""
    try:
        saved = msgspec.json.decode(read_plain(directory / SANDBOX_FILE, _MOST_BYTES), type=_SandboxFile)
    except (OSError, ValueError, RecursionError):
        return None
    return saved.sandbox if saved.pid == pid else None
