"""Lists that several sessions share: a name of their own, and a mark by which nobody takes them for a team's.

Below it: `storage`. Refuses to know who shares.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.protocol.ids import directory_name
from teamwright.storage.atomic import storage_error
from teamwright.storage.paths import make_private

SHARED_FILE = ".shared"
"""An empty file in a list that is shared: such a list outlives every team."""


def list_name(text: str) -> str:
    """The text as the name of a shared list, which is its directory too. Raises InvalidName."""
    return directory_name(text)


def create_shared_list(directory: Path) -> None:
    """Make the list, empty if it is new, and mark it as shared. Raises StorageError."""
    try:
        make_private(directory)
        os.close(os.open(directory / SHARED_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as problem:
        raise storage_error(problem, directory) from problem


def is_shared(directory: Path) -> bool:
    """Whether the list is shared."""
    return (directory / SHARED_FILE).exists()
