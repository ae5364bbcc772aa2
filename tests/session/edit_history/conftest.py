"""Edits as agents make them, with the real tools, in a directory with a history; and what undoes them."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from teamwright.agent.tool import LastWriters, ToolContext, ToolResult, Workplace
from teamwright.edit_history.edit_journal_reader import read_journal
from teamwright.edit_history.session_diff import FileChange, file_changes
from teamwright.edit_history.undo import UndoRequest, UndoResult, apply_undo, require_plan
from teamwright.tools.files.edit import Edit, EditInput
from teamwright.tools.files.edit_journal_writer import record_prompt
from teamwright.tools.files.read import Read, ReadInput
from teamwright.tools.files.write import Write, WriteInput


@dataclass
class Desk:
    """One session: its directory of work, its history, who edits, and what the lead was told."""

    work: Path
    history: Path
    told: list[str] = field(default_factory=list)
    shared: LastWriters = field(default_factory=LastWriters)
    places: dict[str, Workplace] = field(default_factory=dict)
    calls: int = 0

    def prompt(self, text: str) -> None:
        record_prompt(self.history, f"prompt:{text}", text)

    def ctx(self, who: str) -> ToolContext:
        self.calls += 1
        made = Workplace(self.work, lambda: (self.work,), self.history.parent, self.history, last_writers=self.shared)
        return ToolContext(who, self.places.setdefault(who, made), f"c{self.calls}")

    async def read(self, who: str, path: str) -> ToolResult:
        return await Read().run(ReadInput(file_path=path), self.ctx(who))

    async def writes(self, who: str, path: str, content: str) -> None:
        if (self.work / path).exists():
            await self.read(who, path)
        done = await Write().run(WriteInput(file_path=path, content=content), self.ctx(who))
        assert not done.is_error, done.content

    async def edit(self, who: str, path: str, old: str, new: str) -> ToolResult:
        return await Edit().run(EditInput(file_path=path, old_string=old, new_string=new), self.ctx(who))

    async def undo(self, *by: str, left: tuple[str, ...] = ()) -> UndoResult:
        wish = UndoRequest(by, tuple(str(self.work / path) for path in left), " ".join(by))
        plan = require_plan(read_journal(self.history), self.history, str(self.work), wish)
        return await apply_undo(self.history, str(self.work), plan, lambda _id, text: self.told.append(text))

    def diff(self, *by: str) -> dict[str, FileChange]:
        found = file_changes(read_journal(self.history), self.history, str(self.work), by)
        return {change.path: change for change in found}

    def text(self, path: str) -> str | None:
        file = self.work / path
        return file.read_text() if file.exists() else None


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    work = tmp_path / "work"
    work.mkdir()
    return Desk(work, tmp_path / "session" / "history")
