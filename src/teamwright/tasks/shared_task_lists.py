"""Task lists that several sessions share, with a name and a mark that distinguishes them from a team's list.

Depends on `storage`.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.protocol.ids import directory_name
from teamwright.storage.files import storage_error
from teamwright.storage.paths import make_private

SHARED_FILE = ".shared"
"""The name of an empty file in a shared list. Such a list is kept when a team ends."""


def list_name(text: str) -> str:
    """Return the text as the name of a shared list, which is its directory's name too. Raises InvalidName."""
    return directory_name(text)


def create_shared_list(directory: Path) -> None:
    """Create the list if it does not exist, and mark it as shared. Raises StorageError."""
    try:
        make_private(directory)
        os.close(os.open(directory / SHARED_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as problem:
        raise storage_error(problem, directory) from problem


def is_shared(directory: Path) -> bool:
    """Return True when the list is shared."""
    return (directory / SHARED_FILE).exists()
