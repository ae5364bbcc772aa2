"""The Glob tool: finds files by a pattern of their path, the newest first."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field
from pydantic import Field, PrivateAttr

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.excluded_paths import ExcludedPaths, compile_patterns
from teamwright.permissions.verdict import Access
from teamwright.storage.files import compile_globs
from teamwright.tools.files.file_walk import LeftOut, WalkTimeout, is_excluded, is_reached, tracked_though_ignored, walk

MAX_FILES = 100
"""The most files in one answer."""

TIMEOUT_S = 20.0
"""The longest duration of a walk, in seconds."""

_MAGIC = re.compile(r"[*?\[{]")


class GlobInput(ToolInput):
    """Parameters of Glob."""

    pattern: str = Field(description="`src/**/*.ts`, `*.{js,ts}`.")
    path: str | None = Field(None, description="Directory to search.")
    _parts: tuple[Path, str] | None = PrivateAttr(default=None)

    def forget_split(self) -> None:
        """Forget the answer, because a new verdict is asked for."""
        self._parts = None

    def split(self, ctx: ToolContext) -> tuple[Path, str]:
        """Return the directory to search and the pattern below it. The answer stays the one of the verdict."""
        if self._parts is None:
            self._parts = _split(self, ctx)
        return self._parts


class _WalkResult(Struct):
    """The files of a walk as (mtime, path), and whether the walk was complete."""

    files: list[tuple[float, str]]
    is_complete: bool = True
    left_out: LeftOut = field(default_factory=LeftOut)


class Glob(Tool[GlobInput]):
    """The Glob tool."""

    name = "Glob"
    input_type = GlobInput

    def is_read_only(self, call: GlobInput) -> bool:
        """Return True always."""
        return True

    def summary(self, call: GlobInput) -> str:
        """Return the pattern and the directory."""
        return call.pattern + (f" in {call.path}" if call.path else "")

    def access(self, call: GlobInput, ctx: ToolContext) -> Access:
        """Return a read access to the directory."""
        call.forget_split()
        return Access(reads=(call.split(ctx)[0],))

    async def run(self, call: GlobInput, ctx: ToolContext) -> ToolResult:
        """Find the files."""
        place = ctx.workplace
        base, pattern = call.split(ctx)
        if not base.is_dir():
            return ToolResult.error(f"There is no directory {base}.", f"You are in {place.cwd}.")
        try:
            matcher = compile_globs(with_literal_brackets([pattern]))
        except re.error as problem:
            return ToolResult.error(f"The pattern cannot be read: {problem}.")
        left_out = ctx.excluded_paths(self.name, base)
        found = await asyncio.to_thread(_find, base, matcher, left_out, time.monotonic() + TIMEOUT_S)
        found.files.sort(key=lambda file: (-file[0], file[1]))
        lines = [relative_path(path, place.cwd) for _, path in found.files[:MAX_FILES]]
        if len(found.files) > MAX_FILES:
            lines.append(
                f"[the newest {MAX_FILES} of {len(found.files)}: give a narrower pattern or path for the others]"
            )
        if not found.is_complete:
            lines.append(f"[the search was ended after {TIMEOUT_S:g} s: give a narrower path]")
        if not found.files:
            lines.insert(0, f"No file matches {call.pattern} in {base}. {found.left_out.describe(base)}".rstrip())
        if note := left_out.note(str(base)):
            lines.append(note)
        count = len(found.files)
        return ToolResult("\n".join(lines), brief=f"{count} file{'' if count == 1 else 's'}", facts={"count": count})


def relative_path(path: str, cwd: Path) -> str:
    """Return a path for display: relative to the working directory if it is below it."""
    base = str(cwd).rstrip("/") + "/"
    return path[len(base) :] if path.startswith(base) else path


def with_literal_brackets(patterns: Sequence[str]) -> list[str]:
    """Return the patterns, and each with brackets also as the name that it spells: `[slug]` is a directory, too."""
    return [*patterns, *(one.replace("[", "[[]") for one in patterns if "[" in one)]


def _split(call: GlobInput, ctx: ToolContext) -> tuple[Path, str]:
    """Return the directory to walk and the pattern below it.

    A pattern may begin with fixed directories or at the root. Names that exist as they are written are fixed, also
    those with brackets or braces. Where a walk would get there too, the directory to search stays the given one.
    """
    base = ctx.resolve(call.path) if call.path else ctx.workplace.cwd
    pattern = call.pattern.strip()
    parts = pattern.removeprefix("./").split("/")
    begins = parts[0] in {"", "~", ".."} or pattern.startswith("~")
    start = os.path.join(base, os.path.expanduser(parts.pop(0) or "/")) if begins and len(parts) > 1 else str(base)
    depth = len(parts)
    while len(parts) > 1 and (
        (begins and not _MAGIC.search(parts[0])) or (parts[0] and os.path.isdir(os.path.join(start, parts[0])))
    ):
        start = os.path.join(start, parts.pop(0))
    is_odd = "[" in start[len(str(base)) :] or _is_literal(start, parts)
    if not begins and not is_odd and (len(parts) == depth or is_reached(base, Path(start))):
        return base, pattern
    last = parts[0].replace("[", "[[]") if _is_literal(start, parts) else "/".join(parts)
    return ctx.resolve(start), f"./{last}" if "/" in last else f"/{last}"


def _is_literal(start: str, parts: Sequence[str]) -> bool:
    return len(parts) == 1 and "[" in parts[0] and os.path.lexists(os.path.join(start, parts[0]))


def _find(base: Path, matcher: re.Pattern[str], left_out: ExcludedPaths, deadline: float) -> _WalkResult:
    start = len(str(base).rstrip("/")) + 1
    found = _WalkResult([])
    but = compile_patterns(left_out.patterns) if left_out.patterns else None
    try:
        for entry in _entries(base, deadline, but, found.left_out):
            if matcher.match(entry.path, start) is None:
                continue
            if not entry.is_symlink() or not left_out.forbids(entry.path):
                found.files.append((_modified_at(entry), entry.path))
    except WalkTimeout:
        found.is_complete = False
    return found


def _entries(base: Path, deadline: float, but: re.Pattern[str] | None, left_out: LeftOut) -> Iterator[DirectoryEntry]:
    """Walk the directory, then what git tracks although it is ignored."""
    yield from walk(base, deadline=deadline, excluded=but, left_out=left_out)
    for path in tracked_though_ignored(base) if left_out.ignored else ():
        if os.path.isdir(path) and not os.path.islink(path):
            inner = (entry for entry in walk(Path(path), deadline=deadline, left_out=left_out))
        else:
            inner = iter([_NamedFile(path)] if os.path.isfile(path) else [])
        start = len(str(base).rstrip("/")) + 1
        yield from (one for one in inner if but is None or not is_excluded(but, one.path, start))


class DirectoryEntry(Protocol):
    """An entry of a walk: an `os.DirEntry`, or a path that was named."""

    @property
    def path(self) -> str: ...

    def is_symlink(self) -> bool:
        """Return True for a link."""
        ...

    def stat(self) -> os.stat_result:
        """Return its status."""
        ...


class _NamedFile(Struct, frozen=True):
    path: str

    def is_symlink(self) -> bool:
        return os.path.islink(self.path)

    def stat(self) -> os.stat_result:
        return os.stat(self.path)


def _modified_at(entry: DirectoryEntry) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:  # the file was deleted during the walk
        return 0.0
