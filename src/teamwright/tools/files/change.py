"""One change of one file: the stale check, the former content, the replacement, all while nobody else may.

Write, Edit and NotebookEdit say only what the new content is. Knows what agents have read, and the way back; how a
file is locked and replaced is in `replacing`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

from teamwright.agent.tool import ToolContext, ToolResult
from teamwright.agent.workplace import Workplace
from teamwright.protocol.errors import StorageError
from teamwright.protocol.values import dataclass
from teamwright.tools.files.former import digest, kept, record
from teamwright.tools.files.replacing import MOST, held, place, read_all
from teamwright.tools.files.text import counted, decode, is_binary, shown, unified_diff

HOP_FROM = 256 * 1024
"""Bytes from which on a file is read or changed in a thread; below it the hop would cost more than the work."""

_CONFLICT_DIFF_LINES = 40


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
        async with held(real) as fd:
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


def _change(ctx: ToolContext, path: Path, real: Path, fd: int | None, make: Make) -> ToolResult:
    before = None if fd is None else _content(fd)
    refusal = None if before is None else _refusal(ctx.workplace, path, before)
    made = refusal or make(before)
    if isinstance(made, ToolResult):
        return made
    if made.content != before:
        record(ctx, real, before, made.content)
        try:
            place(real, made.content, fd)
        except FileExistsError:
            return _appeared(real)
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


def _refusal(place: Workplace, path: Path, before: bytes) -> ToolResult | None:
    seen = place.last_seen(path)
    if seen is None:
        return ToolResult.error(f"You have not read {path} yet; nothing was written.", "Read it, then try again.")
    now = digest(before)
    if seen.digest == now:
        return None
    who, whose = place.edits.by.get(os.path.realpath(path), ("", ""))
    cause = f"{who} changed it" if whose == now else "a command or a program outside the team changed it"
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


def _appeared(real: Path) -> ToolResult:
    return ToolResult.error(
        f"Conflict: {real} was created since you looked. Nothing was written.", "Read it, then try again."
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
