"""The Read tool: a text file with line numbers, an image as an image, a notebook as its cells.

The version that was read is recorded: a later change is refused when the file has another.
"""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from pathlib import Path

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult, Workplace
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.verdict import Access
from teamwright.protocol.messages import image_block, image_problem, image_type, text_block
from teamwright.tools.files import notebook
from teamwright.tools.files.file_change import (
    MAX_BYTES,
    THREAD_FROM_BYTES,
    decode,
    is_binary,
    open_regular,
    read_all,
    replace_surrogates,
    similar_files,
)

DEFAULT_LINES = 2_000
"""The default number of lines."""

MAX_LINE = 2_000
"""The most characters of one line."""

MAX_TEXT = 60_000
"""The most characters of one answer: some 15,000 tokens."""


class ReadInput(ToolInput):
    """Parameters of Read."""

    file_path: str = Field(description="Path of the file.")
    offset: int | None = Field(None, ge=0, description="First line, from 1.")
    limit: int | None = Field(None, ge=1)


class Read(Tool[ReadInput]):
    """The Read tool."""

    name = "Read"
    input_type = ReadInput

    def is_read_only(self, call: ReadInput) -> bool:
        """Return True always."""
        return True

    def summary(self, call: ReadInput) -> str:
        """Return the path, and the first line."""
        return call.file_path + (f":{call.offset}" if call.offset else "")

    def access(self, call: ReadInput, ctx: ToolContext) -> Access:
        """Return a read access to one file."""
        return Access(reads=(ctx.resolve(call.file_path),))

    async def run(self, call: ReadInput, ctx: ToolContext) -> ToolResult:
        """Read the file."""
        path = ctx.resolve(call.file_path)
        try:
            found = os.stat(path)
            if stat.S_ISDIR(found.st_mode):
                return ToolResult.error(f"{path} is a directory.", f'List it with Glob: pattern "*", path "{path}".')
            if found.st_size > MAX_BYTES:
                return ToolResult.error(
                    f"{path} has {found.st_size:,} bytes; 64 MB is the most.",
                    "Search it with Grep, or take a part with head, tail or sed.",
                )
            content = _content(path) if found.st_size < THREAD_FROM_BYTES else await asyncio.to_thread(_content, path)
        except (FileNotFoundError, NotADirectoryError):
            return await asyncio.to_thread(_missing_file_error, path, ctx.workplace)
        except OSError as problem:
            return ToolResult.error(f"{path} cannot be read: {problem.strerror or problem}.")
        result = _render(path, content, call, ctx.workplace)
        if not result.is_error:
            ctx.workplace.note_seen(path, content)
        return result


def _content(path: Path) -> bytes:
    fd = open_regular(path)
    try:
        return read_all(fd)
    finally:
        os.close(fd)


def _render(path: Path, content: bytes, call: ReadInput, workplace: Workplace) -> ToolResult:
    kind = image_type(content)
    if kind is not None:
        return _image(path, content, kind, workplace)
    if is_binary(content):
        return ToolResult.error(
            f"{path} is not a text file ({len(content):,} bytes).", "Look at it with `file` or `xxd` in Bash."
        )
    if path.suffix == ".ipynb":
        try:
            rendered = notebook.render(notebook.parse(content))
        except (ValueError, TypeError, AttributeError):
            rendered = ""  # not a valid notebook: it is shown as text
        if rendered:
            return _text(path, rendered, call, numbered=False)
    return _text(path, decode(content).text, call, numbered=True)


def _image(path: Path, content: bytes, kind: str, workplace: Workplace) -> ToolResult:
    if not workplace.accepts_images:
        return ToolResult.error(
            f"{path} is an image, and this model cannot see images.",
            "Work without it, or report it to the user; `file` in Bash gives its size.",
        )
    if why := image_problem(content):
        return ToolResult.error(f"{path} {why}.", "Make a smaller or whole copy and read that.")
    blocks = [text_block(f"{path} ({kind})"), image_block(kind, base64.b64encode(content).decode())]
    return ToolResult(blocks, brief=f"image, {len(content):,} bytes", facts={"path": str(path), "media_type": kind})


def _text(path: Path, text: str, call: ReadInput, *, numbered: bool) -> ToolResult:
    lines = replace_surrogates(text).split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return ToolResult(f"{path} is empty.", brief="empty", facts={"path": str(path)})
    first = max(1, call.offset or 1)
    if first > len(lines):
        return ToolResult.error(f"{path} has only {len(lines)} lines.", "Give a smaller offset.")
    output_lines: list[str] = []
    room = MAX_TEXT
    for number, line in enumerate(lines[first - 1 : first - 1 + (call.limit or DEFAULT_LINES)], first):
        cut = line.removesuffix("\r")
        if len(cut) > MAX_LINE:
            cut = f"{cut[:MAX_LINE]} [… {len(cut) - MAX_LINE:,} characters more]"
        room -= len(cut) + 8
        if room < 0 and output_lines:
            break
        output_lines.append(f"{number:6}\t{cut}" if numbered else cut)
    last = first + len(output_lines) - 1
    note = f"\n[lines {first} to {last} of {len(lines)}]" if (first, last) != (1, len(lines)) else ""
    more = f" Continue with offset {last + 1}." if last < len(lines) else ""
    brief = f"{len(output_lines)} line{'' if len(output_lines) == 1 else 's'}"
    facts = {"path": str(path), "first": first, "last": last, "lines": len(lines)}
    return ToolResult("\n".join(output_lines) + note + more, brief=brief, facts=facts)


def _missing_file_error(path: Path, workplace: Workplace) -> ToolResult:
    """Return the error with likely paths: similar names beside it, else the same name below the working directory."""
    near = similar_files(path)
    if not near and len(path.parts) > 1:
        tail = [workplace.cwd.joinpath(*path.parts[n:]) for n in range(1, len(path.parts))]
        near = [one for one in tail if one.exists()][:1]
    suggestion = " or ".join(str(one) for one in near)
    return ToolResult.error(
        f"There is no file {path}.",
        f"Did you mean {suggestion}?" if suggestion else f"Look for it with Glob. You are in {workplace.cwd}.",
    )
