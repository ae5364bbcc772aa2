"""Write: a whole file, new or replaced. A file that this agent has not seen as it is now is left alone."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult
from teamwright.permissions.verdict import Access
from teamwright.tools.files.change import Made, change
from teamwright.tools.files.preview import preview_change
from teamwright.tools.files.text import Text, decode


class WriteInput(ToolInput):
    """Parameters of Write."""

    file_path: str = Field(description="The file.")
    content: str = Field(description="All of its new content.")


class Write(Tool[WriteInput]):
    """Creates or replaces a file; a replaced one keeps its mode, byte order mark and line ends."""

    name = "Write"
    input_type = WriteInput

    def summary(self, call: WriteInput) -> str:
        """The path."""
        return call.file_path

    def access(self, call: WriteInput, ctx: ToolContext) -> Access:
        """One file is written."""
        return Access(writes=(ctx.workplace.resolve(call.file_path),))

    def preview(self, call: WriteInput, ctx: ToolContext) -> str:
        """The whole diff."""
        path = ctx.workplace.resolve(call.file_path)
        return preview_change(path, lambda before: _made(path, call, before))

    async def run(self, call: WriteInput, ctx: ToolContext) -> ToolResult:
        """Write it."""
        path = ctx.workplace.resolve(call.file_path)
        if path.is_dir():
            return ToolResult.error(f"{path} is a directory.", "Give the path of a file.")
        return await change(ctx, path, lambda before: _made(path, call, before))


def _made(path: Path, call: WriteInput, before: bytes | None) -> Made | ToolResult:
    try:
        after = (Text("") if before is None else decode(before)).with_text(call.content).encode()
    except UnicodeEncodeError:
        return ToolResult.error("The content holds characters that cannot be written (lone surrogates).")
    if after == before:
        return Made(after, f"{path} has this content already; nothing changed.")
    return Made(after, f"{'Created' if before is None else 'Replaced'} {path}")
