"""The Glob tool: finds files by a pattern of their path, the newest first."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

from msgspec import Struct
from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.excluded_paths import ExcludedPaths, compile_patterns
from teamwright.permissions.verdict import Access
from teamwright.storage.globs import compile_globs
from teamwright.tools.files.file_walk import WalkTimeout, walk

MAX_FILES = 100
"""The most files in one answer."""

TIMEOUT_S = 20.0
"""The longest duration of a walk, in seconds."""

_MAGIC = re.compile(r"[*?\[{]")


class GlobInput(ToolInput):
    """Parameters of Glob."""

    pattern: str = Field(description="Path pattern, e.g. `src/**/*.ts` or `*.{js,ts}`.")
    path: str | None = Field(None, description="Directory to search.")


class _WalkResult(Struct):
    """The files of a walk as (mtime, path), and whether the walk was complete."""

    files: list[tuple[float, str]]
    is_complete: bool = True


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
        return Access(reads=(_split(call, ctx)[0],))

    async def run(self, call: GlobInput, ctx: ToolContext) -> ToolResult:
        """Find the files."""
        place = ctx.workplace
        base, pattern = _split(call, ctx)
        if not base.is_dir():
            return ToolResult.error(f"There is no directory {base}.", f"You are in {place.cwd}.")
        try:
            matcher = compile_globs([pattern])
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
            lines.insert(0, f"No file matches {call.pattern} in {base}. (What git ignores is left out.)")
        if note := left_out.note(str(base)):
            lines.append(note)
        count = len(found.files)
        return ToolResult("\n".join(lines), brief=f"{count} file{'' if count == 1 else 's'}", facts={"count": count})


def relative_path(path: str, cwd: Path) -> str:
    """Return a path for display: relative to the working directory if it is below it."""
    base = str(cwd).rstrip("/") + "/"
    return path[len(base) :] if path.startswith(base) else path


def _split(call: GlobInput, ctx: ToolContext) -> tuple[Path, str]:
    """Return the directory to walk and the pattern below it.

    A pattern may begin with fixed directories or at the root.
    """
    base = ctx.resolve(call.path) if call.path else ctx.workplace.cwd
    pattern = call.pattern.strip()
    if not pattern.startswith(("/", "~", "../")):
        return base, pattern
    fixed: list[str] = []
    parts = pattern.split("/")
    while len(parts) > 1 and not _MAGIC.search(parts[0]):
        fixed.append(parts.pop(0))
    start = os.path.join(base, os.path.expanduser("/".join(fixed) or "/"))
    return ctx.resolve(start), "./" + "/".join(parts) if len(parts) > 1 else "/" + parts[0]


def _find(base: Path, matcher: re.Pattern[str], left_out: ExcludedPaths, deadline: float) -> _WalkResult:
    start = len(str(base).rstrip("/")) + 1
    found = _WalkResult([])
    but = compile_patterns(left_out.patterns) if left_out.patterns else None
    try:
        for entry in walk(base, deadline=deadline, excluded=but):
            if matcher.match(entry.path, start) is None:
                continue
            if not entry.is_symlink() or not left_out.forbids(entry.path):
                found.files.append((_modified_at(entry), entry.path))
    except WalkTimeout:
        found.is_complete = False
    return found


def _modified_at(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:  # the file was deleted during the walk
        return 0.0
