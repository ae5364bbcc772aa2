"""The identity of a directory, to tell it from another one that has its path later."""

from __future__ import annotations

import os
import stat

DirectoryIdentity = tuple[int, int]
"""The device and the inode of a directory."""


def directory_identity(path: str | os.PathLike[str]) -> DirectoryIdentity | None:
    """Return the identity of the directory at this path; None where there is none. A link to it does not count."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
