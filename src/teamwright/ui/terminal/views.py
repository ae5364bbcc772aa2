"""What is looked up, as lines of a terminal: tasks, costs, a window; the same at the lead's and at a member's. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.app.looking.context import ContextView
from teamwright.app.looking.cost import CostLine, CostView
from teamwright.app.modes import meanings
from teamwright.app.result import TaskLine
from teamwright.ui.terminal.lines import shown
from teamwright.ui.terminal.text import clean, one_line

_MARKS = {"completed": "✓", "in_progress": "▸"}


def task_lines(tasks: Sequence[TaskLine]) -> list[str]:
    """The task list."""
    return [
        f"  {_MARKS.get(task.status, '·')} #{task.id:<3} {one_line(task.subject)}"
        + (f"  ({shown(task.owner)})" if task.owner else "")
        + ("  unverified" if task.unverified else "")
        for task in tasks
    ] or ["  no tasks"]


def cost_lines(cost: CostView, caps: str = "") -> list[str]:
    """Who used what, each task's share, each model's, and the sum with the caps that hold."""
    lines: list[str] = []
    for line in cost.members:
        lines += [_used(line.name, line), *(_used(f"└ {one.name}", one) for one in line.below)]
    for line in cost.tasks:
        lines.append(_used(f"#{line.name}" if line.name else "no task", line, line.subject))
    if len(cost.models) > 1:
        lines += [_used(line.name, line) for line in cost.models]
    return [*lines, _used("all", cost.total, f"caps: {caps}" if caps else "")]


def _used(name: str, line: CostLine, beside: str = "") -> str:
    words = f"  {clean(name):<14} {line.usage}"
    return f"{words}  {one_line(beside)}" if beside else words


def context_lines(view: ContextView) -> list[str]:
    """What fills a window, and when it is compacted."""
    rows = [*((part.name, part.tokens) for part in view.parts), ("free", view.free)]
    lines = [f"  {shown(view.member)}: {clean(view.model)}, {view.used:,} of {view.window:,} tokens"]
    lines += [f"  {name:<22} {tokens:>11,}  {100 * tokens / view.window:5.1f} %" for name, tokens in rows]
    lines.append(f"  {_how_measured(view.measured)}; the parts by their bytes")
    if view.compacts_at is None:
        return [*lines, "  it is compacted when the service says that it is full, or by /compact"]
    return [*lines, f"  it is compacted at {view.compacts_at:,} tokens: {view.left:,} more"]


def _how_measured(measured: bool) -> str:
    return "the sum as the service counted it, what is newer by bytes / 4" if measured else "all is bytes / 4"


def meaning_lines() -> list[str]:
    """All modes with what they mean."""
    return [f"  {name:<18} {about}" for name, about in meanings()]
