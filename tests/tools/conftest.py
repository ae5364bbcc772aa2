"""A place to work in for tools: a directory, a scratch directory, a history."""

from pathlib import Path

import pytest

from teamwright.agent.tool import LastWriters, ToolContext, Workplace


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def ctx(tmp_path: Path, work: Path) -> ToolContext:
    """What a tool is handed when ada calls it."""
    place = Workplace(work, lambda: (work,), tmp_path / "session" / "scratch", tmp_path / "session" / "history")
    return ToolContext("ada", place, "c1")


@pytest.fixture
def other(tmp_path: Path, work: Path, ctx: ToolContext) -> ToolContext:
    """What a tool is handed when bob calls it: same directory, same run, his own readings."""
    edits: LastWriters = ctx.workplace.last_writers
    place = Workplace(work, lambda: (work,), ctx.workplace.scratch, ctx.workplace.edit_history, last_writers=edits)
    return ToolContext("bob", place, "c2")
