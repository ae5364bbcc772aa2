"""One change of one file: the stale check, the former content, the replacement, all while nobody else may.

Write, Edit and NotebookEdit say only what the new content is. Between our processes a lock on the file itself keeps
changes apart; the rename is atomic and keeps mode, owner and the link that was followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from teamwright.agent.tool import ToolContext, ToolResult
from teamwright.agent.workplace import Workplace
from teamwright.protocol.errors import StorageError
from teamwright.tools.files.former import digest, kept, record
from teamwright.tools.files.text import counted, decode, is_binary, shown, unified_diff

MOST = 64 * 1024 * 1024
"""Bytes of the largest file that is read or changed whole."""

HOP_FROM = 256 * 1024
"""Bytes from which on a file is read or changed in a thread; below it the hop would cost more than the work."""

_LOCK_WITHIN_S = 2.0
_CONFLICT_DIFF_LINES = 40
_NO_RENAME = frozenset({errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV})


@dataclass(frozen=True, slots=True)
class Made:
    """The new content, and what the model is told when it is in place."""

    content: bytes
    said: str


Make: TypeAlias = Callable[[bytes | None], Made | ToolResult]
"""From the present content (None: no such file) to the new one, or the reason why not. Reads and waits for nothing."""


async def change(ctx: ToolContext, path: Path, make: Make) -> ToolResult:
    """Change the file, unless this agent has not read it or it is no longer what was read.

    Nothing is written when the answer is an error. Raises nothing but `CancelledError` and StorageError.
    """
    real = Path(os.path.realpath(path))
    try:
        async with _held(real) as fd:
            if fd is None or os.fstat(fd).st_size < HOP_FROM:
                return _change(ctx, path, real, fd, make)
            return await _to_its_end(asyncio.to_thread(_change, ctx, path, real, fd, make))
    except _Refused as refused:
        return refused.result
    except StorageError:
        raise
    except OSError as problem:
        reason = problem.strerror or str(problem)
        return ToolResult.error(f"{path} could not be changed: {reason}.", "Nothing was written.")


def open_regular(path: Path) -> int:
    """A descriptor for reading. Raises OSError; a pipe or a device never blocks us and is refused as EINVAL."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return fd


def read_all(fd: int) -> bytes:
    """The whole content from the beginning."""
    size = os.fstat(fd).st_size
    pieces: list[bytes] = []
    at = 0
    while piece := os.pread(fd, max(65_536, size - at + 1), at):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _change(ctx: ToolContext, path: Path, real: Path, fd: int | None, make: Make) -> ToolResult:
    before = None if fd is None else _content(fd)
    refusal = None if before is None else _refusal(ctx.workplace, path, before)
    made = refusal or make(before)
    if isinstance(made, ToolResult):
        return made
    if made.content != before:
        record(ctx, real, before, made.content)
        _place(real, made.content, fd)
        ctx.workplace.edits.by[str(real)] = (ctx.member, digest(made.content))
    ctx.workplace.noted(real, made.content)
    return _told(path, real, before, made)


async def _to_its_end(work: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """The result of a thread's work. A thread cannot be stopped: cancelled, this waits for it, the lock still held."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class _Refused(Exception):
    def __init__(self, result: ToolResult) -> None:
        super().__init__()
        self.result = result


def _content(fd: int) -> bytes:
    if os.fstat(fd).st_size > MOST:
        raise _Refused(ToolResult.error("The file is larger than 64 MB.", "Change it with Bash."))
    return read_all(fd)


@asynccontextmanager
async def _held(real: Path) -> AsyncGenerator[int | None]:
    """The file, open and locked against our other processes; None when there is no such file."""
    deadline = asyncio.get_running_loop().time() + _LOCK_WITHIN_S
    while True:
        try:
            fd = open_regular(real)
        except FileNotFoundError:
            yield None
            return
        try:
            if _locked(fd) and _is_still(fd, real):
                yield fd
                return
        finally:
            os.close(fd)
        if asyncio.get_running_loop().time() > deadline:
            raise OSError(errno.EAGAIN, "another program has locked it")
        await asyncio.sleep(0.005)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: the stale check alone has to do
        return True
    return True


def _is_still(fd: int, real: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(fd), os.stat(real))
    return False


def _refusal(place: Workplace, path: Path, before: bytes) -> ToolResult | None:
    seen = place.last_seen(path)
    if seen is None:
        return ToolResult.error(f"You have not read {path} yet; nothing was written.", "Read it, then try again.")
    now = digest(before)
    if seen.digest == now:
        return None
    who, whose = place.edits.by.get(os.path.realpath(path), ("", ""))
    cause = f"{who} changed it" if whose == now else "a command or somebody outside the team changed it"
    said = f"Conflict: {path} is not what you read: {cause}. Nothing was written."
    return ToolResult(
        f"{said}\n{_since(place, path, seen.digest, before)}Read it again, then make your change where it still fits.",
        is_error=True,
        brief=said,
        facts={"conflict": {"path": str(path), "by": who if whose == now else None, "read": seen.digest, "now": now}},
    )


def _since(place: Workplace, path: Path, read: str, now: bytes) -> str:
    former = kept(place.history, read)
    if former is None or is_binary(former) or is_binary(now):
        return ""
    lines = shown(unified_diff(path.name, decode(former).text, decode(now).text)).split("\n")
    cut = [*lines[:_CONFLICT_DIFF_LINES], "[…]"] if len(lines) > _CONFLICT_DIFF_LINES else lines
    return "What changed since you read it:\n" + "\n".join(cut).rstrip("\n") + "\n"


def _place(real: Path, content: bytes, fd: int | None) -> None:
    """Put the content into its place: by rename; as a new file only if there still is none."""
    if fd is None:
        real.parent.mkdir(parents=True, exist_ok=True)
    elif not os.access(real, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only")
    tmp = real.with_name(f".{real.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        _write_beside(tmp, content, fd)
        if fd is not None:
            os.replace(tmp, real)
            return
        os.link(tmp, real)
    except FileExistsError:
        raise _Refused(_appeared(real)) from None
    except OSError as problem:
        if problem.errno not in _NO_RENAME:
            raise
        # A directory that takes no new names, or a file mounted by itself: the former content is kept already.
        _write_through(real, content, new=fd is None)
    finally:
        with contextlib.suppress(OSError):
            tmp.unlink(missing_ok=True)


def _write_beside(tmp: Path, content: bytes, fd: int | None) -> None:
    # A new file gets its mode from the umask; a replacement is closed to others until it has the old mode.
    made = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if fd is None else 0o600)
    try:
        with open(made, "wb", buffering=0, closefd=False) as file:
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]
        if fd is not None:
            old = os.fstat(fd)
            with contextlib.suppress(OSError):
                os.fchown(made, old.st_uid, old.st_gid)
            os.fchmod(made, stat.S_IMODE(old.st_mode))
    finally:
        os.close(made)


def _write_through(real: Path, content: bytes, *, new: bool) -> None:
    try:
        with open(real, "xb" if new else "r+b") as file:
            file.write(content)
            file.truncate()
    except FileExistsError:
        raise _Refused(_appeared(real)) from None


def _appeared(real: Path) -> ToolResult:
    return ToolResult.error(
        f"Conflict: {real} has appeared meanwhile. Nothing was written.", "Read it, then try again."
    )


def _told(path: Path, real: Path, before: bytes | None, made: Made) -> ToolResult:
    old, new = before or b"", made.content
    binary = is_binary(old) or is_binary(new)
    diff = "" if binary else shown(unified_diff(path.name, decode(old).text, decode(new).text))
    added, removed = counted(diff)
    brief = f"+{added} -{removed}"
    return ToolResult(
        f"{made.said} ({brief} lines)" if diff else made.said,
        brief=brief,
        facts={"path": str(real), "diff": diff, "added": added, "removed": removed},
    )
