"""File marks: the state in which an event left a file, by which readers notice that they missed a change.

Depends on the operating system alone.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.protocol.events import FileMark


def file_mark(root: Path, path: Path) -> FileMark | None:
    """Return the mark of the file as it is now, by its path under the state root; None when it is missing."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return FileMark(name=str(path.relative_to(root)), size=stat.st_size, mtime_ns=stat.st_mtime_ns)
