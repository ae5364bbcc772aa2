"""The Write tool: creates or replaces a whole file. A file whose present content this agent has not seen is refused."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from teamwright.agent.tool import ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.tools.files.file_change import FileChangeTool, FileText, NewContent, decode


class WriteInput(ToolInput):
    """Parameters of Write."""

    file_path: str = Field(description="Path of the file.")
    content: str = Field(description="Whole new content.")


class Write(FileChangeTool[WriteInput]):
    """The Write tool. A replaced file keeps its mode, byte order mark and line ends."""

    name = "Write"
    input_type = WriteInput

    def target_path(self, call: WriteInput) -> str:
        """Return the path; see FileChangeTool."""
        return call.file_path

    def new_content(self, path: Path, call: WriteInput, before: bytes | None) -> NewContent | ToolResult:
        """Return the new content; see FileChangeTool."""
        try:
            after = (FileText("") if before is None else decode(before)).with_text(call.content).encode()
        except UnicodeEncodeError:
            return ToolResult.error("The content holds characters that cannot be written (lone surrogates).")
        if after == before:
            return NewContent(after, f"{path} has this content already; nothing changed.")
        return NewContent(after, f"{'Created' if before is None else 'Replaced'} {path}")
