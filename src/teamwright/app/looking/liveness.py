"""Whether a process drives a session, asked from outside and without disturbing it.

Below it: the operating system. The lease that is held is the truth; a process number alone proves nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, cast


def lease_held(path: Path) -> bool:
    """Whether a process holds the lease file. An empty one was given back; a full one may be of a dead process.

    Asks for a shared lock for a moment, and only where the file names a process: no start is disturbed by it.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not os.fstat(fd).st_size:
            return False
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def lease_holder(path: Path) -> int:
    """The number of the process that holds the lease; 0 when none does, or it does not say."""
    if not lease_held(path):
        return 0
    try:
        note: Any = json.loads(path.read_bytes())
        return int(cast("dict[str, Any]", note)["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
