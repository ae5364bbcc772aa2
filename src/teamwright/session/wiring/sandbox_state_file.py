"""The confinement of a session's commands, in a file of its directory, for other processes.

Written at each start, when the sandbox was probed. Format: docs/reference/formats/README.md.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from teamwright.protocol.errors import StorageError
from teamwright.sandbox.policy import SandboxReport
from teamwright.storage.atomic_write import write_atomic
from teamwright.storage.read_bounded import read_plain

STATE = "sandbox.json"
"""Name of the file in a session's directory."""

VERSION = 1
_MOST_BYTES = 100_000


class _StateFile(Struct, frozen=True):
    v: int
    pid: int
    sandbox: SandboxReport


def write_sandbox(directory: Path, report: SandboxReport) -> None:
    """Save what confines the commands of this process. Never raises: no start fails because of it."""
    with suppress(StorageError, OSError):
        write_atomic(directory / STATE, msgspec.json.encode(_StateFile(VERSION, os.getpid(), report)))


def read_sandbox(directory: Path, pid: int) -> SandboxReport | None:
    """Return what the process of this id saved; None when it has saved nothing yet, or it cannot be read."""
    try:
        saved = msgspec.json.decode(read_plain(directory / STATE, _MOST_BYTES), type=_StateFile)
    except (OSError, ValueError, RecursionError):
        return None
    return saved.sandbox if saved.pid == pid else None
