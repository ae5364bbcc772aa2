"""Files of Teamwright and of other programs: atomic writes, bounded reads, and file patterns.

A write renames a temporary file into place, so readers see the old or the new content, never half. Reads accept plain
files only, up to a maximum size: a pipe would block, a device never ends, and a repository may contain links to both.
The callers have the file formats and the locks.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import now_ms
from teamwright.storage.paths import make_private

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def storage_error(problem: OSError, path: Path | str) -> StorageError:
    """Convert an error of the operating system to a StorageError: `disk-full` for no space, quota and size, else
    `io-failed`.

    A StorageError is returned unchanged.
    """
    if isinstance(problem, StorageError):
        return problem
    reason = problem.strerror or str(problem)
    if problem.errno in _FULL:
        return StorageError(
            "disk-full",
            f"{path} could not be written: {reason}",
            do=["make room on the disk and try again"],
            note="nothing half-written was left",
        )
    return StorageError("io-failed", f"{path}: {reason}", looked_at=[("path", str(path))])


def write_atomic(path: Path, content: bytes, *, fsync: bool = False) -> None:
    """Write the whole file, 0600, by rename; create missing parents, 0700.

    With `fsync` the content and the name are on the disk before this returns. Raises StorageError; then the old file is
    unchanged and no temporary file remains.
    """
    draft = PendingFile(path, content, fsync=fsync)
    try:
        draft.commit()
    finally:
        draft.close()


def write_new(path: Path, content: bytes) -> bool:
    """Write the whole file if no file has that name. Return False, and change nothing, when one exists.

    Of several writers exactly one gets True. Raises StorageError.
    """
    draft = PendingFile(path, content)
    try:
        os.link(draft.temporary_path, path)
    except FileExistsError:
        return False
    except OSError as problem:
        raise storage_error(problem, path) from problem
    finally:
        draft.discard()
        draft.close()
    return True


class PendingFile:
    """The next content of a file, written completely to a temporary file `<file>.tmp.<8 hex>` in the same directory.

    The caller may check its lock once more between construction and `commit`. `fd` stays open and is the new file after
    the commit. Raises StorageError.
    """

    __slots__ = ("_fsync", "fd", "path", "temporary_path")

    def __init__(self, path: Path, content: bytes, *, fsync: bool = False) -> None:
        self.path = path
        self.temporary_path = f"{path}.tmp.{secrets.token_hex(4)}"
        self._fsync = fsync
        try:
            self.fd = _create(self.temporary_path, path)
        except OSError as problem:
            raise storage_error(problem, path) from problem
        try:
            _write_all(self.fd, content)
            if fsync:
                os.fsync(self.fd)
        except OSError as problem:
            self.discard()
            self.close()
            raise storage_error(problem, path) from problem

    def commit(self) -> None:
        """Rename the temporary file into place. Raises StorageError; the temporary file is removed then."""
        try:
            os.rename(self.temporary_path, self.path)
            if self._fsync:
                _sync_directory(self.path.parent)
        except OSError as problem:
            self.discard()
            raise storage_error(problem, self.path) from problem

    def discard(self) -> None:
        """Remove the temporary file; harmless after a commit."""
        try:
            os.unlink(self.temporary_path)
        except FileNotFoundError:
            return

    def close(self) -> None:
        """Close the descriptor; harmless when already closed."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def detach(self) -> int:
        """Return the open descriptor; the caller closes it."""
        fd = self.fd
        self.fd = -1
        return fd


PENDING_MAX_AGE_S = 60.0
"""Age in seconds from which a temporary file belongs to a killed process: a write takes a moment."""

_PENDING_NAME = re.compile(r".+\.tmp\.[0-9a-f]{8}")


def keep_damaged_copy(path: Path, content: bytes | None = None) -> Path:
    """Copy the bytes of a damaged file to `<file>.bad.<ms since 1970>`. Return the path of the copy.

    `content` are the bytes to keep, by default those in the file. Raises StorageError.
    """
    if content is None:
        try:
            content = path.read_bytes()
        except OSError as problem:
            raise storage_error(problem, path) from problem
    moment = now_ms()
    while not write_new(copy := path.with_name(f"{path.name}.bad.{moment}"), content):
        moment += 1
    return copy


def remove_old_pending_files(*directories: Path) -> None:
    """Remove temporary files that interrupted writes left in these directories. Files that cannot be removed stay."""
    limit = time.time() - PENDING_MAX_AGE_S
    drafts = [
        entry
        for directory in directories
        for entry in _directory_entries(directory)
        if _PENDING_NAME.fullmatch(entry.name)
    ]
    for draft in drafts:
        with suppress(OSError):
            if draft.stat(follow_symlinks=False).st_mtime < limit:
                os.unlink(draft.path)


def _directory_entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(directory))
    except OSError:
        return []


def _create(tmp: str, path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(tmp, flags, 0o600)
    except FileNotFoundError:
        make_private(path.parent)
        return os.open(tmp, flags, 0o600)


def _write_all(fd: int, content: bytes) -> None:
    written = os.write(fd, content)
    while written < len(content):
        written += os.write(fd, memoryview(content)[written:])


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


MAX_BYTES = 16_000_000
"""The default maximum of bytes that are read."""

_BLOCK_BYTES = 1 << 20


def read_plain(path: str | Path, most: int = MAX_BYTES) -> bytes:
    """Return the content of a plain file, links followed. Raises OSError, also for a longer file and for a path that is
    no plain file."""
    fd = open_plain(path)
    try:
        if os.fstat(fd).st_size > most:
            raise _too_long(path, most)
        parts: list[bytes] = []
        left = most + 1
        while left > 0 and (part := os.read(fd, min(left, _BLOCK_BYTES))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(fd)
    if left <= 0:
        raise _too_long(path, most)
    return b"".join(parts)


def read_beginning(path: str | Path, length: int) -> bytes:
    """Return the first bytes of a plain file of any length, links followed. Raises OSError as `read_plain` does."""
    fd = open_plain(path)
    try:
        return os.read(fd, length)
    finally:
        os.close(fd)


def open_plain(path: str | Path) -> int:
    """Open a plain file for reading, links followed; the caller closes the descriptor. Raises OSError for other kinds
    of files."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no plain file", str(path))


def _too_long(path: str | Path, most: int) -> OSError:
    return OSError(errno.EFBIG, f"it is longer than {most:,} bytes", str(path))


MOST_BRACES = 200
"""The most patterns that the braces of one pattern become."""

_DIRECTORIES_ABOVE = "(?:[^/]*/)*?"
_MOST_CROSSING = 3
"""The most `**` beside other signs in a name, and the most names with one, which are slow to match."""


def compile_globs(patterns: Sequence[str]) -> re.Pattern[str]:
    """Return one expression that matches a relative path with `/` when one of the patterns does. Raises re.error.

    `*` and `?` stay in one directory, `**` crosses them, `{a,b}` is either, `[ab]` one character. A pattern without `/`
    matches the file name, at any depth.
    """
    return re.compile(
        "|".join(f"(?:{_pattern_expression(one)})" for pattern in patterns for one in alternatives(pattern))
    )


def alternatives(pattern: str) -> list[str]:
    """Return the patterns that result from expanding the braces, at most MOST_BRACES."""
    done: list[str] = []
    waiting = [pattern]
    while waiting and len(done) + len(waiting) <= MOST_BRACES:
        one = waiting.pop(0)
        found = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if found is None:
            done.append(one)
            continue
        waiting += [one[: found.start()] + choice + one[found.end() :] for choice in found.group(1).split(",")]
    return done + waiting


def _pattern_expression(pattern: str) -> str:
    pattern = pattern.removeprefix("./")
    if "/" not in pattern.rstrip("/"):
        pattern = f"**/{pattern}"
    pattern = pattern.lstrip("/")
    if pattern.endswith("/"):
        pattern += "**"
    *above, last = pattern.split("/")
    if sum("**" in name and name != "**" for name in (*above, last)) > _MOST_CROSSING:
        raise re.error("it has too many double stars")
    runs: list[list[str]] = [[]]
    for name in above:
        if name != "**":
            runs[-1].append(f"{_name_expression(name)}/")
        elif len(runs) == 1 or runs[-1]:
            runs.append([])
    first, *more = ["".join(run) for run in runs]
    end = (".*" if last == "**" else _name_expression(last)) + r"\Z"
    if not more:
        return first + end
    # The names after a `**` may be as early as possible, so that only the last one is ever tried again.
    *middle, final = more
    return "".join((first, *(f"(?>{_DIRECTORIES_ABOVE}{run})" for run in middle), _DIRECTORIES_ABOVE, final, end))


def _name_expression(name: str) -> str:
    """Return the expression of one name. What a star has matched is not tried again."""
    parts = re.findall(r"\*+|\?|\[!?\]?[^\]]*\]|.", name, re.DOTALL)
    if parts.count("**") > _MOST_CROSSING:
        raise re.error("it has too many double stars")
    if "**" in parts:
        return "".join(map(_sign_expression, parts))
    groups: list[str] = [""]
    for part in parts:
        if part[0] == "*":
            groups.append("")
        else:
            groups[-1] += _sign_expression(part)
    first, *more = groups
    return first + "".join(f"(?>[^/]*?{text})" for text in more[:-1]) + "".join(f"[^/]*{text}" for text in more[-1:])


def _sign_expression(part: str) -> str:
    match part:
        case "?":
            return r"[^/]"
        case _ if part[0] == "*":
            return ".*" if part == "**" else "[^/]*"
        case _ if part[0] == "[" and len(part) > 2:
            inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            return f"[^{inside[1:]}/]" if inside[0] == "!" else f"[{inside}]"
        case _:
            return re.escape(part)
