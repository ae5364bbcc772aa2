"""A range of free ports for each worktree, so that members can start servers beside each other.

A file for each range names the record of its worktree; a range whose record is gone is free again.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from teamwright.storage.atomic_write import write_new

PORTS = 10
"""Ports of one worktree."""

_FIRST, _LAST = 20_000, 32_000
"""The range below the ports that Linux and macOS give to outgoing connections."""


def claim_ports(root: Path, record: Path) -> int:
    """Claim a range for the worktree of this record, and return its first port; 0 when none is free.

    Raises StorageError.
    """
    claimed = _claimed(root)
    # Unclaimed ranges come first: the cost does not grow with the number of worktrees.
    for first in sorted(range(_FIRST, _LAST, PORTS), key=lambda first: str(first) in claimed):
        file = root / "ports" / str(first)
        if not write_new(file, str(record).encode("utf-8", "surrogateescape")):
            if _is_used(file):
                continue
            file.unlink(missing_ok=True)
            if not write_new(file, str(record).encode("utf-8", "surrogateescape")):
                continue
        if all(_is_free(port) for port in range(first, first + PORTS)):
            return first
        file.unlink(missing_ok=True)
    return 0


def release_ports(root: Path, first: int) -> None:
    """Release a range."""
    if first:
        (root / "ports" / str(first)).unlink(missing_ok=True)


def _claimed(root: Path) -> frozenset[str]:
    try:
        return frozenset(os.listdir(root / "ports"))
    except FileNotFoundError:
        return frozenset()


def _is_used(file: Path) -> bool:
    try:
        return Path(file.read_bytes().decode("utf-8", "surrogateescape")).exists()
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
