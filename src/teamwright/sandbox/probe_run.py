"""The trial of a confinement: a shell that does nothing runs under it, or not.

A trial that fails for lack of processes, memory or descriptors proves nothing, so it is an error of its kind.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
from pathlib import Path

from teamwright.processes.commands import Confinement, ProcessStart
from teamwright.processes.program_environment import own_variables

_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
_NO_ROOM_TEXT = re.compile("|".join(re.escape(os.strerror(number)) for number in _NO_ROOM))
_MAX_TEXT = 4_000


class NoRoomError(OSError):
    """The system had no room for a trial."""


def runs_under(confinement: Confinement) -> bool:
    """Return True when a command runs under the confinement (Linux). Raises NoRoomError."""
    errors = -1
    try:
        errors = os.memfd_create("teamwright", os.MFD_CLOEXEC)
        environment = {**own_variables(os.environ), "LC_ALL": "C"}
        ends = (subprocess.DEVNULL, subprocess.DEVNULL, errors)
        code = confinement.start(ProcessStart(("/bin/sh", "-c", ":"), Path("/"), environment, *ends)).wait()
        text = os.pread(errors, _MAX_TEXT, 0).decode(errors="replace")
    except OSError as problem:
        if problem.errno in _NO_ROOM:
            raise NoRoomError(problem.errno, problem.strerror) from None
        return False
    finally:
        if errors >= 0:
            os.close(errors)
    if code and (found := _NO_ROOM_TEXT.search(text)):
        raise NoRoomError(errno.EAGAIN, found[0])
    return code == 0
