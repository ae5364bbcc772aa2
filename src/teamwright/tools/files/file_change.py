"""One change of one file under its lock: the check for newer content, the journal entry, and the replacement.

Write, Edit and NotebookEdit provide only the new content. Depends on the record of seen files and the edit journal;
locking and replacing a file is in `replace_file`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from teamwright.agent.tool import Input, Tool, ToolContext, ToolResult, Workplace
from teamwright.permissions.verdict import Access
from teamwright.protocol.errors import StorageError
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.files.edit_journal_writer import digest, load_content, record_edit
from teamwright.tools.files.file_text import count_changes, decode, is_binary, replace_surrogates, unified_diff
from teamwright.tools.files.replace_file import MAX_BYTES, lock_file, open_regular, read_all, write_file


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
        """Change the file."""
        path = ctx.resolve(self.target_path(call))
        return self.refusal(path) or await change_file(ctx, path, lambda before: self.new_content(path, call, before))


THREAD_FROM_BYTES = 256 * 1024
"""The size in bytes from which a file is read or changed in a thread. For smaller ones the switch would cost more."""

_CONFLICT_DIFF_LINES = 40


class NewContent(Struct, frozen=True):
    """The new content, and the message for the model after the change."""

    content: bytes
    message: str


MakeContent: TypeAlias = Callable[[bytes | None], NewContent | ToolResult]
"""Returns the new content for the present one (None: no such file), or the refusal. Reads no file and does not wait."""


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
            return _appeared_error(real)
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


def _cut_diff(path: Path, before: bytes, after: bytes) -> str:
    """Return the diff of a text, at most `_CONFLICT_DIFF_LINES` lines; empty for other content."""
    if is_binary(before) or is_binary(after):
        return ""
    lines = replace_surrogates(unified_diff(path.name, decode(before).text, decode(after).text)).split("\n")
    cut = [*lines[:_CONFLICT_DIFF_LINES], "[…]"] if len(lines) > _CONFLICT_DIFF_LINES else lines
    return "\n".join(cut).rstrip("\n")


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


def _appeared_error(real: Path) -> ToolResult:
    return ToolResult.error(
        f"Conflict: {real} was created since you looked. Nothing was written.", "Read it, then try again."
    )


def _change_result(path: Path, real: Path, before: bytes | None, content: NewContent) -> ToolResult:
    old, new = before or b"", content.content
    binary = is_binary(old) or is_binary(new)
    diff = "" if binary else replace_surrogates(unified_diff(path.name, decode(old).text, decode(new).text))
    added, removed = count_changes(diff)
    brief = f"+{added} -{removed}"
    return ToolResult(
        f"{content.message} ({brief} lines)" if diff else content.message,
        brief=brief,
        facts={"path": str(real), "diff": diff, "added": added, "removed": removed},
    )
