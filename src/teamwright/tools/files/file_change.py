"""Change one file under its lock: check for newer content, record the edit, replace the file.

Write, Edit and NotebookEdit provide only the new content. The lock is between processes of this program. The file is
replaced by a rename, which keeps mode, owner and the followed link. Of its text, byte order mark, UTF-16, Windows line
ends and bytes that are not UTF-8 stay as they are.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.tool import Input, Tool, ToolContext, ToolResult, Workplace
from teamwright.permissions.verdict import Access
from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import similar
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.files.edit_journal_writer import digest, load_content, record_edit


class FileChangeTool(Tool[Input]):
    """The base of Write, Edit and NotebookEdit."""

    def makes_known_change(self, call: Input) -> bool:
        """Return True: the file is as the input says."""
        return True

    def target_path(self, call: Input) -> str:
        """Return the path as the model gave it."""
        raise AssertionError(f"{type(self).__name__} has no file_of")

    def new_content(self, path: Path, call: Input, before: bytes | None) -> NewContent | ToolResult:
        """Return the new content for the present one (None: no such file), or the refusal.

        Reads no file and does not wait.
        """
        raise AssertionError(f"{type(self).__name__} has no made")

    def refusal(self, path: Path) -> ToolResult | None:
        """Return the refusal for files that the tool never changes; None for others."""
        return ToolResult.error(f"{path} is a directory.", "Give the path of a file.") if path.is_dir() else None

    def summary(self, call: Input) -> str:
        """Return the path."""
        return self.target_path(call)

    def access(self, call: Input, ctx: ToolContext) -> Access:
        """Return a write access to one file."""
        return Access(writes=(ctx.resolve(self.target_path(call)),))

    def preview(self, call: Input, ctx: ToolContext) -> str:
        """Return the whole diff."""
        path = ctx.resolve(self.target_path(call))
        return preview_change(path, lambda before: self.new_content(path, call, before))

    def watch_hooks(self, call: Input, ctx: ToolContext) -> Callable[[], str] | None:
        """Take over what hooks of the call do to its file: a formatter belongs to the edit that it formats."""
        path = ctx.resolve(self.target_path(call))
        try:
            before = _read_for_preview(path)
        except OSError:  # a directory, or too large: such a file is not changed by this call
            return None
        return lambda: take_over_change(ctx, path, before)

    async def run(self, call: Input, ctx: ToolContext) -> ToolResult:
        path = ctx.resolve(self.target_path(call))
        return self.refusal(path) or await change_file(ctx, path, lambda before: self.new_content(path, call, before))


class NewContent(Struct, frozen=True):
    """The new content, and the message for the model after the change."""

    content: bytes
    message: str


MakeContent: TypeAlias = Callable[[bytes | None], NewContent | ToolResult]
"""Returns the new content for the present one (None: no such file), or the refusal. Reads no file and does not wait."""

THREAD_FROM_BYTES = 256 * 1024
"""The size in bytes from which a file is read or changed in a thread. For smaller ones the switch would cost more."""


async def change_file(ctx: ToolContext, path: Path, make: MakeContent) -> ToolResult:
    """Change the file, unless this agent has not read it or its content has changed since.

    Nothing is written when the result is an error. Raises only `CancelledError` and StorageError.
    """
    real = Path(os.path.realpath(path))
    try:
        async with lock_file(real) as fd:
            if fd is None or os.fstat(fd).st_size < THREAD_FROM_BYTES:
                return _change_locked(ctx, path, real, fd, make)
            return await _finish_work(asyncio.to_thread(_change_locked, ctx, path, real, fd, make))
    except _ChangeRefused as refused:
        return refused.result
    except StorageError:
        raise
    except OSError as problem:
        reason = problem.strerror or str(problem)
        return ToolResult.error(f"{path} could not be changed: {reason}.", "Nothing was written.")


def _change_locked(ctx: ToolContext, path: Path, real: Path, fd: int | None, make: MakeContent) -> ToolResult:
    before = None if fd is None else _content(fd)
    refusal = None if before is None else _stale_refusal(ctx.workplace, path, before)
    result = refusal or make(before)
    if isinstance(result, ToolResult):
        return result
    if result.content != before:
        record_edit(ctx, real, before, result.content)
        try:
            write_file(real, result.content, fd)
        except FileExistsError:
            return ToolResult.error(
                f"Conflict: {real} was created since you looked. Nothing was written.", "Read it, then try again."
            )
        ctx.workplace.last_writers.by_path[str(real)] = (ctx.member, digest(result.content))
    ctx.workplace.note_seen(real, result.content)
    return _change_result(path, real, before, result)


async def _finish_work(work: Coroutine[Any, Any, ToolResult]) -> ToolResult:
    """Return the result of a thread's work.

    A thread cannot be stopped: a cancel waits for it while the lock is held.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class _ChangeRefused(Exception):
    def __init__(self, result: ToolResult) -> None:
        super().__init__()
        self.result = result


def _content(fd: int) -> bytes:
    if os.fstat(fd).st_size > MAX_BYTES:
        raise _ChangeRefused(ToolResult.error("The file is larger than 64 MB.", "Change it with Bash."))
    return read_all(fd)


def _stale_refusal(workplace: Workplace, path: Path, before: bytes) -> ToolResult | None:
    seen = workplace.last_seen(path)
    if seen is None:
        return ToolResult.error(f"You have not read {path} yet; nothing was written.", "Read it, then try again.")
    now = digest(before)
    if seen.digest == now:
        return None
    who, whose = workplace.last_writers.by_path.get(os.path.realpath(path), ("", ""))
    cause = f"{who} changed it" if whose == now else "a command or a program outside the team changed it"
    problem = f"Conflict: {path} is not what you read: {cause}. Nothing was written."
    return ToolResult(
        f"{problem}\n{_diff_since_read(workplace, path, seen.digest, before)}"
        "Read it again, then make your change where it still fits.",
        is_error=True,
        brief=problem,
        facts={"conflict": {"path": str(path), "by": who if whose == now else None, "read": seen.digest, "now": now}},
    )


def _diff_since_read(workplace: Workplace, path: Path, read: str, now: bytes) -> str:
    former = load_content(workplace.edit_history, read)
    diff = "" if former is None else _cut_diff(path, former, now)
    return f"What changed since you read it:\n{diff}\n" if diff else ""


_CONFLICT_DIFF_LINES = 40


def _cut_diff(path: Path, before: bytes, after: bytes) -> str:
    """Return the diff of a text, at most `_CONFLICT_DIFF_LINES` lines; empty for other content."""
    if is_binary(before) or is_binary(after):
        return ""
    lines = replace_surrogates(unified_diff(path.name, decode(before).text, decode(after).text)).split("\n")
    cut = [*lines[:_CONFLICT_DIFF_LINES], "[…]"] if len(lines) > _CONFLICT_DIFF_LINES else lines
    return "\n".join(cut).rstrip("\n")


def preview_change(path: Path, make: MakeContent) -> str:
    """Return the path and the diff, or the path and the reason why there is no diff."""
    try:
        before = _read_for_preview(path)
    except OSError as problem:
        return f"{path}\n({problem.strerror or problem})"
    result = make(before)
    if isinstance(result, ToolResult):
        return f"{path}\n({result.brief})"
    if is_binary(before or b"") or is_binary(result.content):
        return f"{path}\n(not a text: {len(result.content):,} bytes)"
    diff = replace_surrogates(unified_diff(path.name, decode(before or b"").text, decode(result.content).text))
    head = f"{path} (new file)" if before is None else str(path)
    return f"{head}\n{diff}".rstrip("\n")


def _read_for_preview(path: Path) -> bytes | None:
    try:
        fd = open_regular(path)
    except FileNotFoundError:
        return None
    try:
        if os.fstat(fd).st_size > MAX_BYTES:
            raise OSError("it is larger than 64 MB")
        return read_all(fd)
    finally:
        os.close(fd)


def take_over_change(ctx: ToolContext, path: Path, before: bytes | None) -> str:
    """Record what a hook of this agent's call did to the file since `before`, as a part of the call.

    The agent has seen the new content if it had seen the former one. Return the note for the model, with the diff;
    empty when nothing changed. Raises StorageError.
    """
    try:
        now = _read_for_preview(path)
    except OSError:
        return ""
    real = Path(os.path.realpath(path))
    if now == before or now is None:
        return ""
    who, whose = ctx.workplace.last_writers.by_path.get(str(real), ("", ""))
    if who != ctx.member and whose == digest(now):
        return ""  # another agent wrote it in this time
    try:
        record_edit(ctx, real, before, now)
    except StorageError:
        raise
    except OSError as problem:
        return f"A hook changed {path} too, which could not be recorded: {problem.strerror or problem}."
    seen = ctx.workplace.last_seen(path)
    if before is None or seen is None or seen.digest != digest(before):
        return f"A hook changed {path}. Read it before you change it."
    former = ctx.workplace.note_seen(real, now)
    ctx.workplace.last_writers.by_path[str(real)] = (ctx.member, former.digest)
    return f"A hook changed {path} too; that counts as part of this call.\n{escape_tags(_cut_diff(path, before, now))}"


def _change_result(path: Path, real: Path, before: bytes | None, content: NewContent) -> ToolResult:
    old = before or b""
    new = content.content
    binary = is_binary(old) or is_binary(new)
    diff = "" if binary else replace_surrogates(unified_diff(path.name, decode(old).text, decode(new).text))
    added, removed = count_changes(diff)
    brief = f"+{added} -{removed}"
    return ToolResult(
        f"{content.message} ({brief} lines)" if diff else content.message,
        brief=brief,
        facts={"path": str(real), "diff": diff, "added": added, "removed": removed},
    )


MAX_BYTES = 64 * 1024 * 1024
"""The largest file that is read or changed whole, in bytes."""

LOCK_TIMEOUT_S = 2.0
"""Seconds to wait for another program's lock on a file."""

_NO_RENAME_ERRORS = frozenset({errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV})


def open_regular(path: Path) -> int:
    """Return a descriptor for reading. Raises OSError; a pipe or a device never blocks and is refused as EINVAL."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return fd


def read_all(fd: int) -> bytes:
    """Return the whole content from the beginning."""
    size = os.fstat(fd).st_size
    pieces: list[bytes] = []
    at = 0
    while piece := os.pread(fd, max(65_536, size - at + 1), at):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


@asynccontextmanager
async def lock_file(real: Path) -> AsyncGenerator[int | None]:
    """Open the file and lock it against other processes of this program; None when it does not exist.

    Raises OSError.
    """
    deadline = asyncio.get_running_loop().time() + LOCK_TIMEOUT_S
    while True:
        try:
            fd = open_regular(real)
        except FileNotFoundError:
            yield None
            return
        try:
            if _try_lock(fd) and _is_same_file(fd, real):
                yield fd
                return
        finally:
            os.close(fd)
        if asyncio.get_running_loop().time() > deadline:
            raise OSError(errno.EAGAIN, "another program has locked it")
        await asyncio.sleep(0.005)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: only the check for newer content remains
        return True
    return True


def _is_same_file(fd: int, real: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(fd), os.stat(real))
    return False


def write_file(real: Path, content: bytes, fd: int | None) -> None:
    """Write the content: by rename, or as a new file only if there still is none.

    `fd` is the result of `lock_file`. Raises FileExistsError when a file has appeared, OSError when the write fails.
    """
    if fd is None:
        real.parent.mkdir(parents=True, exist_ok=True)
    elif not os.access(real, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only")
    tmp = real.with_name(f".{real.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        _write_temporary(tmp, content, fd)
        if fd is not None:
            os.replace(tmp, real)
            return
        os.link(tmp, real)
    except OSError as problem:
        if problem.errno not in _NO_RENAME_ERRORS:
            raise
        # The directory takes no new names, or the file is a mount point. The edit journal has the former content
        # already.
        _write_in_place(real, content, new=fd is None)
    finally:
        with contextlib.suppress(OSError):
            tmp.unlink(missing_ok=True)


def _write_temporary(tmp: Path, content: bytes, fd: int | None) -> None:
    # A new file gets its mode from the umask; a replacement is private until it has the old mode.
    descriptor = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if fd is None else 0o600)
    try:
        with open(descriptor, "wb", buffering=0, closefd=False) as file:
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]
        if fd is not None:
            old = os.fstat(fd)
            with contextlib.suppress(OSError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
    finally:
        os.close(descriptor)


def _write_in_place(real: Path, content: bytes, *, new: bool) -> None:
    with open(real, "xb" if new else "r+b") as file:
        if not new and os.fstat(file.fileno()).st_nlink > 1:
            raise OSError(errno.EMLINK, "it has another name (a hard link), and its directory takes no new file")
        file.write(content)
        file.truncate()


_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_PROBE = 8192
_CONTEXT = 3
_DIFFABLE_LINES = 5_000
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


class FileText(Struct, frozen=True):
    """A text with its encoding. With `crlf` every line ended in CR LF and `text` has plain line feeds."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    crlf: bool = False

    def encode(self) -> bytes:
        """Return the bytes. Raises UnicodeEncodeError for text that the encoding cannot represent."""
        text = self.text.replace("\n", "\r\n") if self.crlf else self.text
        return self.mark + text.encode(self.encoding, "surrogateescape")

    def with_text(self, text: str) -> FileText:
        """Return another text with the same encoding: with `crlf` both kinds of line ends in it become CR LF."""
        return replace(self, text=text.replace("\r\n", "\n") if self.crlf else text)


def decode(content: bytes) -> FileText:
    """Decode the bytes. Bytes that are not UTF-8 become lone surrogates, which `encode` turns back."""
    mark, encoding = next(((m, e) for m, e in _BYTE_ORDER_MARKS if content.startswith(m)), (b"", "utf-8"))
    text = content[len(mark) :].decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
    crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
    return FileText(text.replace("\r\n", "\n") if crlf else text, encoding, mark, crlf)


def is_binary(content: bytes) -> bool:
    """Return True for bytes that are not text: a NUL near the beginning, or a UTF-16 mark before other data."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "\ufffd" in decode(content).text
    return b"\0" in content[:_PROBE]


def replace_surrogates(text: str) -> str:
    """Return the text for a model or a screen: lone surrogates become the replacement character."""
    return text.encode("utf-8", "replace").decode() if _has_surrogates(text) else text


def unified_diff(name: str, before: str, after: str) -> str:
    """Return a unified diff, empty for equal texts.

    Equal ends are not compared, so a small change in a large file is cheap; two texts with thousands of different lines
    are given as counts.
    """
    old, new = _lines(before), _lines(after)
    start = _common_length(old, new)
    end = _common_length(old[start:][::-1], new[start:][::-1])
    first, last = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    old_part = old[first : len(old) - last]
    new_part = new[first : len(new) - last]
    heads = f"--- a/{name}\n+++ b/{name}\n"
    if len(old_part) + len(new_part) > _DIFFABLE_LINES:
        return f"{heads}@@ {len(old_part)} lines replaced by {len(new_part)} from line {first + 1} on @@\n"
    import difflib

    lines = list(difflib.unified_diff(old_part, new_part, n=_CONTEXT))[2:]
    return heads + "".join(_diff_line(line, first) for line in lines) if lines else ""


def count_changes(diff: str) -> tuple[int, int]:
    """Return the numbers of added and removed lines in a unified diff."""
    lines = diff.split("\n")[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _common_length(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        count += 1
    return count


def _diff_line(line: str, offset: int) -> str:
    if found := _HUNK.match(line):
        old, old_size, new, new_size = found.groups()
        return f"@@ -{int(old) + offset}{old_size or ''} +{int(new) + offset}{new_size or ''} @@\n"
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def similar_files(path: Path) -> list[Path]:
    """Return the files beside a missing one whose names are like its name."""
    try:
        names = sorted(os.listdir(path.parent))[:5_000]
    except OSError:
        return []
    return [path.parent / name for name in similar(path.name, names, 3)]


def no_file_error(path: Path) -> ToolResult:
    """Return the refusal to change a file that is missing, with the files that may be meant."""
    near = " or ".join(map(str, similar_files(path)))
    hint = f"Did you mean {near}?" if near else "Look for it with Glob, or create it with Write."
    return ToolResult.error(f"There is no file {path}.", hint)
