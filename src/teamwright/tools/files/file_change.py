"""What the tools that change one file have in common: who is asked what, and that it goes through `change`.

A tool says which file its call means and, from the present content, the new one. Refuses to know what for.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.agent.tool import Input, Tool, ToolContext, ToolResult
from teamwright.permissions.verdict import Access
from teamwright.tools.files.change import Made, change
from teamwright.tools.files.preview import preview_change


class FileChange(Tool[Input]):
    """Base of Write, Edit and NotebookEdit."""

    def file_of(self, call: Input) -> str:
        """The path as the model gave it."""
        raise AssertionError(f"{type(self).__name__} has no file_of")

    def made(self, path: Path, call: Input, before: bytes | None) -> Made | ToolResult:
        """The new content from the present one (None: no such file), or why not. Reads and waits for nothing."""
        raise AssertionError(f"{type(self).__name__} has no made")

    def refusal(self, path: Path) -> ToolResult | None:
        """Why the tool does not change what is there, whatever the call; None where it does."""
        return ToolResult.error(f"{path} is a directory.", "Give the path of a file.") if path.is_dir() else None

    def summary(self, call: Input) -> str:
        """The path."""
        return self.file_of(call)

    def access(self, call: Input, ctx: ToolContext) -> Access:
        """One file is written."""
        return Access(writes=(ctx.workplace.resolve(self.file_of(call)),))

    def preview(self, call: Input, ctx: ToolContext) -> str:
        """The whole diff."""
        path = ctx.workplace.resolve(self.file_of(call))
        return preview_change(path, lambda before: self.made(path, call, before))

    async def run(self, call: Input, ctx: ToolContext) -> ToolResult:
        """Change it."""
        path = ctx.workplace.resolve(self.file_of(call))
        return self.refusal(path) or await change(ctx, path, lambda before: self.made(path, call, before))
