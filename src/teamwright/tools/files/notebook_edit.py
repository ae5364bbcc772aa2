"""The NotebookEdit tool: replaces, inserts or deletes one cell of a notebook."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from teamwright.agent.tool import ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.tools.files import notebook
from teamwright.tools.files.file_change import FileChangeTool, NewContent, no_file_error
from teamwright.tools.files.notebook import Cell, EditMode, Notebook


class NotebookEditInput(ToolInput):
    """Parameters of NotebookEdit."""

    notebook_path: str = Field(description="Path of the notebook.")
    new_source: str = Field("", description="New text of the cell.")
    cell_id: str | None = Field(None, description="Id or number (from 0) of the cell; for insert, of the cell before.")
    cell_type: Literal["code", "markdown"] | None = Field(None, description="Type of the cell.")
    edit_mode: EditMode = Field("replace", description="Kind of change.")


class NotebookEdit(FileChangeTool[NotebookEditInput]):
    """The NotebookEdit tool. Other cells keep their outputs."""

    name = "NotebookEdit"
    input_type = NotebookEditInput

    def target_path(self, call: NotebookEditInput) -> str:
        """Return the path; see FileChangeTool."""
        return call.notebook_path

    def refusal(self, path: Path) -> ToolResult | None:
        """Return the refusal; see FileChangeTool."""
        return None if path.suffix == ".ipynb" else ToolResult.error(f"{path} is not a notebook (.ipynb).", "Use Edit.")

    def summary(self, call: NotebookEditInput) -> str:
        """Return the change and the cell."""
        return f"{call.edit_mode} in {call.notebook_path}"

    def preview(self, call: NotebookEditInput, ctx: ToolContext) -> str:
        """Return the change and the whole diff of the file."""
        return f"{call.edit_mode} in {super().preview(call, ctx)}"

    def new_content(self, path: Path, call: NotebookEditInput, before: bytes | None) -> NewContent | ToolResult:
        """Return the new content; see FileChangeTool."""
        if before is None:
            return no_file_error(path)
        try:
            book = notebook.parse(before)
        except ValueError as problem:
            return ToolResult.error(f"{path} is no notebook that can be read: {problem}.", "Nothing was written.")
        at = None if call.cell_id is None else notebook.find_cell(book, call.cell_id)
        if at is None and not (call.edit_mode == "insert" and call.cell_id is None):
            count = len(notebook.cells(book))
            return ToolResult.error(
                f"There is no cell {call.cell_id!r}; nothing was written." if call.cell_id else "cell_id is missing.",
                f"Cells have the numbers 0 to {count - 1}; Read shows their ids."
                if count
                else "The notebook has no cells.",
            )
        place = -1 if at is None else at
        summary = _EDIT_MODES[call.edit_mode](book, place, call)
        try:
            content = notebook.replace_bytes(before, book, place + (call.edit_mode == "insert"), call.edit_mode)
        except ValueError as problem:
            return ToolResult.error(f"{path} could not be changed: {problem}.", "Nothing was written.")
        return NewContent(content, f"{summary} in {path}")


def _replace(document: Notebook, at: int, call: NotebookEditInput) -> str:
    cell = notebook.cells(document)[at]
    cell["cell_type"] = call.cell_type or cell.get("cell_type", "code")
    is_text = isinstance(cell.get("source"), str)
    cell["source"] = call.new_source if is_text else notebook.split_source(call.new_source)
    if cell["cell_type"] == "code":  # the output of the old code is not that of the new
        cell["outputs"] = []
        cell["execution_count"] = None
    else:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    return f"Replaced cell {at}"


def _insert(document: Notebook, at: int, call: NotebookEditInput) -> str:
    kind = call.cell_type or "code"
    cell: Cell = {"cell_type": kind}
    name = ""
    if (int(document.get("nbformat", 4)), int(document.get("nbformat_minor", 5))) >= (4, 5):
        cell["id"] = name = secrets.token_hex(4)
    cell["metadata"] = dict[str, Any]()
    cell["source"] = notebook.split_source(call.new_source)
    if kind == "code":
        cell |= {"execution_count": None, "outputs": list[Any]()}
    notebook.cells(document).insert(at + 1, cell)
    return f"Inserted cell {at + 1}" + (f" (id {name})" if name else "")


def _delete(document: Notebook, at: int, call: NotebookEditInput) -> str:
    del notebook.cells(document)[at]
    return f"Deleted cell {at}"


_EDIT_MODES: dict[str, Callable[[Notebook, int, NotebookEditInput], str]] = {
    "replace": _replace,
    "insert": _insert,
    "delete": _delete,
}
