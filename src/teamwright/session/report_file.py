"""Writing a file that the user named, completely or not at all, with Teamwright's errors.

An unusable path is refused before the run; later failures are reported after it.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.protocol.errors import StorageError, UsageError
from teamwright.storage.files import storage_error


def require_writable(path: Path) -> None:
    """Raise UsageError for a path that cannot be written: a directory, or a file in a missing or closed one."""
    target = Path(os.path.realpath(path))
    if not _special(path) and not target.parent.is_dir():
        why = f"there is no directory {target.parent}"
    elif path.is_dir():
        why = "it is a directory"
    elif not os.access(path if _special(path) else target.parent, os.W_OK):
        is_read_only = os.statvfs(target.parent).f_flag & os.ST_RDONLY
        why = "a read-only file system" if is_read_only else "permission denied"
    else:
        return
    raise UsageError(
        "usage",
        f"no report can be written to {path}",
        looked_at=[("reason", why)],
        do=["give another path with --report FILE"],
        note="nothing was started",
    )


def write_report(path: Path, text: str) -> None:
    """Write a text file at a path of the user's. Raises StorageError naming path and reason; the old file stays.

    Links are followed. Special files (`/dev/stdout`, a pipe with a reader) are written to and never replaced.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name[:80]}.{os.getpid()}.tmp")
    try:
        if _special(path):
            _write_into(path, text)
            return
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, target)
    except OSError as problem:
        draft.unlink(missing_ok=True)
        raise StorageError(
            storage_error(problem, path).slug,
            f"the report could not be written to {path}",
            looked_at=[("reason", problem.strerror or str(problem))],
            do=["give another path with --report FILE"],
            note="the run itself is done",
        ) from problem


def _write_into(target: Path, text: str) -> None:
    """Write into an existing file. A pipe without a reader is an error, because opening it would block."""
    fd = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    os.set_blocking(fd, True)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)


def _special(path: Path) -> bool:
    """Return True for a special file, or an open file by its number (`/dev/stdout`), which is written in place."""
    return path.exists() and (not path.is_file() or path.parts[:2] in (("/", "dev"), ("/", "proc")))
