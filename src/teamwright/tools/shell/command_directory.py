"""The working directory of an agent's commands: it follows the shell, and stays inside the allowed directories.

Depends on the agent's workplace.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.agent.tool import Workplace
from teamwright.storage.read_bounded import read_plain

_MAX_PATH = 65_536
"""The longest name of a directory that is read, in bytes."""


def follow_directory(workplace: Workplace, before: Path, ended_in: Path) -> str:
    """Set the working directory to the shell's last one if it is allowed. Return the sentence about it."""
    try:
        # The command can write this file too: a pipe, a device or endless text must not stop this process.
        content = read_plain(ended_in, _MAX_PATH)
    except OSError:  # the shell was ended, replaced by `exec`, or its directory is gone
        return ""
    if b"\0" in content:
        return ""
    after = Path(os.fsdecode(content).rstrip("\n"))
    if not after.is_absolute() or after == Path(os.path.realpath(before)):
        return ""
    if not workplace.is_allowed(after):
        return f"[{after} is outside the allowed directories: the next command starts in {workplace.cwd} again]"
    workplace.change_directory(after)
    return f"[directory is now {after}]"


def allowed_directory(workplace: Workplace) -> Path:
    """Return the directory of the next command: the last one's, or an allowed directory when that is gone."""
    if workplace.cwd.is_dir():
        return workplace.cwd
    return next((root for root in workplace.roots if root.is_dir()), Path(os.sep))


def ensure_directory(workplace: Workplace) -> str:
    """Continue in an allowed directory when the present one is gone. Return the sentence about it."""
    gone = workplace.cwd
    workplace.change_directory(allowed_directory(workplace))
    return "" if workplace.cwd == gone else f"[{gone} is gone: the command ran in {workplace.cwd}]"
