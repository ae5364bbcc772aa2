"""The shell in which commands run: the user's if it is bash or zsh, else bash, else sh.

Depends on names and files of shells. Starts none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import cache

from teamwright.protocol.errors import CannotStart
from teamwright.protocol.values import dataclass

STARTUP_SHELLS = ("bash", "zsh")
"""Shells whose startup files are read for commands."""

_KNOWN_SHELLS = (*STARTUP_SHELLS, "sh", "dash")


@dataclass(frozen=True, slots=True)
class UserShell:
    """A shell: its absolute path, its kind (`bash`, `zsh`, `sh` or `dash`), and the reason for people."""

    path: str
    kind: str
    reason: str


@cache
def plain_shell() -> str:
    """Return the shell of hooks, checks and commands that are proven to be read-only: bash if there is one, else sh."""
    return shutil.which("bash") or "/bin/sh"


def user_shell(setting: str, env: Mapping[str, str]) -> UserShell:
    """Return the shell that the setting `bash.shell` names, else `$SHELL` of this environment, else bash, else sh.

    Raises CannotStart (`bad-settings`) for a name that is not a working shell.
    """
    if setting:
        return _named_shell(setting)
    own = env.get("SHELL", "")
    kind = os.path.basename(own)
    if kind in STARTUP_SHELLS and os.path.isabs(own) and os.access(own, os.X_OK):
        return UserShell(own, kind, "your $SHELL")
    reason = f"$SHELL is {own}, which is neither bash nor zsh" if own else "there is no $SHELL"
    path = plain_shell()
    return UserShell(path, os.path.basename(path), reason)


def _named_shell(setting: str) -> UserShell:
    wanted = os.path.expanduser(setting)
    path = shutil.which(wanted) if "/" not in wanted or os.path.isabs(wanted) else None
    kind = os.path.basename(wanted)
    if path is None or not os.path.isabs(path) or kind not in _KNOWN_SHELLS:
        reason = (
            f"it is none of {', '.join(_KNOWN_SHELLS)}" if kind not in _KNOWN_SHELLS else "there is no such program"
        )
        raise CannotStart(
            "bad-settings",
            f"bash.shell names a shell that cannot be used: {setting[:200]!r}",
            looked_at=[("reason", reason)],
            do=["name bash, zsh, sh, or the whole path of one", "leave it out: then it is your $SHELL"],
            note="nothing was started",
        )
    return UserShell(path, kind, "the setting bash.shell")
