"""The mark of the commands that agents run: a variable, and a hard limit that no process can raise again.

A process inherits its limits through `env -i`, `setsid`, any number of forks and the end of its parents. The limit is
one that the system does not apply (file locks on Linux, resident memory elsewhere), so no program notices it. Depends
on the system's shells and `resource`; does not know who asks, nor what a marked process may do.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

AGENT = "TEAMWRIGHT"
"""The variable that is set in every command of an agent."""

_LINUX = sys.platform.startswith("linux")
LIMITED = "file locks" if _LINUX else "resident memory"
"""What the limit is of, in words."""

_BASE = 2**50
_MOST_PID = 2**22
_UNIT = 1 if _LINUX else 1024
"""Bytes, or locks, in the number that `ulimit` takes."""

_LOCKS = 10
"""RLIMIT_LOCKS of Linux, which Python's `resource` does not name."""

_OPTION = {"bash": "x", "sh": "w"} if _LINUX else {"bash": "m", "sh": "m"}


def with_mark(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> list[str]:
    """The arguments that start the same program with the mark. The limit names this process.

    A line for bash sets the limit itself; every other program is started by a shell that sets it. Raises
    FileNotFoundError where there is no such program: the shell could not say so.
    """
    at = _line_of_bash(argv)
    if at:
        return [*argv[:at], f"\\builtin {_set_limit('bash')}; {argv[at]}", *argv[at + 1 :]]
    program = os.path.join(cwd, argv[0]) if os.sep in argv[0] else argv[0]
    if shutil.which(program, path=env.get("PATH", os.defpath)) is None and not os.path.exists(program):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    return [*_starter(), *argv]


def limit_mark() -> int | None:
    """The pid of the program that marked this process by its limit; None without the mark, 0 where nobody can tell."""
    import resource

    _, hard = resource.getrlimit(_LOCKS if _LINUX else resource.RLIMIT_RSS)
    if hard == resource.RLIM_INFINITY or hard < 0 or hard // _UNIT > _BASE + _MOST_PID:
        return None
    return max(0, hard // _UNIT - _BASE)


def _set_limit(shell: str) -> str:
    # A process that has a lower limit is marked already: then it fails, and says so to nobody.
    return f"ulimit -HS{_OPTION[shell]} {_BASE + os.getpid()} 2>/dev/null"


def _line_of_bash(argv: Sequence[str]) -> int:
    """Where the line stands in the arguments of a bash that is given one; 0 for anything else."""
    if os.path.basename(argv[0]) != "bash" or "-c" not in argv[:-1]:
        return 0
    at = argv.index("-c")
    return at + 1 if all(option.startswith("-") and option != "--" for option in argv[1:at]) else 0


def _starter() -> tuple[str, ...]:
    bash = _bash()
    if bash:  # privileged: it reads no file of `BASH_ENV`, and hands functions on as they came
        return (bash, "-p", "-c", f'{_set_limit("bash")}; exec "$@"', "bash")
    return ("/bin/sh", "-c", f'{_set_limit("sh")}; exec "$@"', "sh")


@cache
def _bash() -> str:
    return shutil.which("bash") or ""
