"""Reading a file that somebody else put there: a plain one, and not without end.

A pipe would be waited for, a device never ends, and a repository may hold links to both. Knows the operating
system alone.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST = 16_000_000
"""Bytes that are read unless the caller says otherwise."""


def read_plain(path: Path, most: int = MOST) -> bytes:
    """The content of a plain file, links followed. Raises OSError, also for a longer file and for what is no file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        content = file.read(most + 1)
        while 0 < len(content) <= most and (more := file.read(most + 1 - len(content))):
            content += more
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is longer than {most:,} bytes", str(path))
    return content
