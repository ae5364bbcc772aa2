"""The repository of a run: its top, name and commit, and changes of its tree.

`footprint` stats files; the other functions read git's data. Git runs without the repository's own configuration.
"""

from __future__ import annotations

import os
import pwd
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from teamwright.git.git_calls import git_argv, git_env, git_program, run_git
from teamwright.git.repository import find_git_dir
from teamwright.protocol.errors import CannotStart, UsageError

FOOTPRINT_MOST = 200_000
"""Maximum number of compared files; a larger tree is reported as not compared."""


class Repository(Struct, frozen=True):
    """A repository: `top` is its work tree, `commit` the short id of HEAD, empty before the first commit."""

    top: Path
    name: str
    commit: str


def repository_at(path: Path) -> Repository | None:
    """Return the repository that contains the path, or None outside git.

    Raises UsageError when the directory does not exist, CannotStart when git is missing or refuses the repository.
    """
    if not os.path.isdir(path):
        raise UsageError("usage", f"{path} is not a directory", do=["--repo DIR names a directory"])
    found = find_git_dir(path)
    if found is None:
        return None
    top = found[0]
    head = run_git(top, "rev-parse", "--short=8", "--verify", "-q", "HEAD")
    if head.exit_code == 127:
        raise _no_git()
    if "dubious ownership" in head.errors:
        raise CannotStart(
            "no-git",
            "git refuses to read this repository: it belongs to another user",
            looked_at=[("repository", str(top))],
            do=[f"git config --global --add safe.directory {shlex.quote(str(top))}"],
            note="nothing was started",
        )
    return Repository(top, top.name or "repository", head.output.strip() if head.ok else "")


def foreign_owner_warnings(path: Path) -> tuple[str, ...]:
    """Return a line about a repository that git refuses to read because it belongs to another user; none elsewhere."""
    found = find_git_dir(path)
    try:
        owner = -1 if found is None else os.stat(found[0]).st_uid
    except OSError:
        owner = -1
    if found is None or owner in {-1, os.geteuid()}:
        return ()
    top = str(found[0])
    if "dubious ownership" not in run_git(found[0], "rev-parse", "--git-dir").errors:
        return ()
    fix = f"git config --global --add safe.directory {shlex.quote(top)}"
    return (f"git refuses to read {top}, which belongs to {_user_name(owner)}; to allow it: {fix}",)


def _user_name(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} (user {number})"
    except KeyError:
        return f"user {number}"


def _no_git() -> CannotStart:
    return CannotStart("no-git", "git is not installed", do=["install git, then run this again"])


def clone_bundle(bundle: Path, into: Path) -> None:
    """Unpack a git bundle into a new directory. Raises CannotStart when git is missing or refuses."""
    argv = git_argv("clone", "-q", os.path.abspath(bundle), os.path.abspath(into))[1:]
    try:
        with (
            _signals_wait() as deliver,
            subprocess.Popen(
                [git_program(), "-c", "protocol.file.allow=always", *argv],
                cwd="/",
                env=git_env(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            ) as process,
        ):
            try:
                deliver()
                errors = process.communicate()[1].decode(errors="replace").strip()
            except BaseException:
                process.kill()
                raise
    except FileNotFoundError:
        raise _no_git() from None
    if process.returncode:
        raise CannotStart("no-git", "the sample repository could not be unpacked", looked_at=[("git", errors)])


@contextmanager
def _signals_wait() -> Generator[Callable[[], None]]:
    """Delay SIGINT and SIGTERM until the returned function is called, or until the block ends.

    A signal that interrupts the start of a process would leave that process running.
    """
    came: list[int] = []
    before: dict[signal.Signals, Any] = {}

    def deliver() -> None:
        while before:
            signal.signal(*before.popitem())
        while came:
            signal.raise_signal(came.pop())

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(signal.getsignal(number)):
                before[number] = signal.signal(number, lambda got, _frame: came.append(got))
    try:
        yield deliver
    finally:
        deliver()


def footprint(top: Path) -> dict[str, tuple[int, int, int]] | None:
    """Return size, mtime and inode of every file below, `.git` and ignored ones included; None for a tree too large."""
    seen: dict[str, tuple[int, int, int]] = {}
    for directory, _, files in os.walk(top):
        for name in files:
            path = os.path.join(directory, name)
            try:
                stat = os.lstat(path)
            except FileNotFoundError:
                continue
            seen[path] = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
        if len(seen) > FOOTPRINT_MOST:
            return None
    return seen


def differences(before: dict[str, tuple[int, int, int]], after: dict[str, tuple[int, int, int]]) -> list[str]:
    """Return the paths that were added, removed or changed."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
