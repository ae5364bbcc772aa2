"""File marks: the state in which an event left a file, by which readers notice that they missed a change.

Depends on the state root.
"""

from __future__ import annotations

import os

from teamwright.protocol.events import FileMark
from teamwright.storage.paths import Home


def file_mark(home: Home, path: str) -> FileMark | None:
    """Return the mark of the file as it is now, by its path under the state root; None when it is missing or not under
    the root."""
    root = str(home.shared)
    try:
        stat = os.stat(path)
    except OSError:
        return None
    if not path.startswith(root):
        return None
    return FileMark(name=path[len(root) + 1 :], size=stat.st_size, mtime_ns=stat.st_mtime_ns)
