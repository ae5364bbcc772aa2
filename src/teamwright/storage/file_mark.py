"""The state in which an event left a file: how others notice that they have missed something.

Knows the state root; refuses to know what is in the file.
"""

from __future__ import annotations

import os

from teamwright.protocol.events import FileMark
from teamwright.storage.paths import Home


def file_mark(home: Home, path: str) -> FileMark | None:
    """The file as it is now, by its path under the state root; None when it is not there, or not under the root."""
    root = str(home.shared)
    try:
        stat = os.stat(path)
    except OSError:
        return None
    if not path.startswith(root):
        return None
    return FileMark(name=path[len(root) + 1 :], size=stat.st_size, mtime_ns=stat.st_mtime_ns)
