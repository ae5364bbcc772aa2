"""Reports as lines of a terminal, for the lead's and members' terminals: tasks, cost, context window, modes."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.agent.context_window import ContextView
from teamwright.sandbox.policy import SandboxReport
from teamwright.session.permission_modes import describe_modes
from teamwright.session.result import TaskResult
from teamwright.ui.display_text import clean, one_line
from teamwright.ui.terminal.event_formatter import display_name
from teamwright.views.cost import CostRow, CostView

_MARKS = {"completed": "✓", "in_progress": "▸"}


def task_lines(tasks: Sequence[TaskResult]) -> list[str]:
    """Return the lines of the task list."""
    return [
        f"  {_MARKS.get(task.status, '·')} #{task.id:<3} {one_line(task.subject)}"
        + (f"  ({display_name(task.owner)})" if task.owner else "")
        + ("  unverified" if task.unverified else "")
        + (f"  {task.integration}" if task.integration is not None else "")
        + "".join(f"  {one_line(note)}" for note in task.notes)
        for task in tasks
    ] or ["  no tasks"]


def cost_lines(cost: CostView, caps: str = "") -> list[str]:
    """Return the cost by member, task and model, and the total with its caps."""
    lines: list[str] = []
    for line in cost.members:
        lines += [_usage_line(line.name, line), *(_usage_line(f"└ {one.name}", one) for one in line.below)]
    for line in cost.tasks:
        lines.append(_usage_line(f"#{line.name}" if line.name else "no task", line, line.subject))
    if len(cost.models) > 1:
        lines += [_usage_line(line.name, line) for line in cost.models]
    return [*lines, _usage_line("all", cost.total, f"caps: {caps}" if caps else "")]


def _usage_line(name: str, line: CostRow, about: str = "") -> str:
    words = f"  {clean(name):<14} {line.usage}"
    return f"{words}  {one_line(about)}" if about else words


def context_lines(view: ContextView) -> list[str]:
    """Return the contents of a context window, and when it is compacted."""
    rows = [*((part.name, part.tokens) for part in view.parts), ("free", view.free)]
    lines = [f"  {display_name(view.member)}: {clean(view.model)}, {view.used:,} of {view.window:,} tokens"]
    lines += [f"  {name:<22} {tokens:>11,}  {100 * tokens / view.window:5.1f} %" for name, tokens in rows]
    lines.append(f"  {_measure_text(view.measured)}; the parts by their bytes")
    if view.compacts_at is None:
        return [*lines, "  it is compacted when the service says that it is full, or by /compact"]
    return [*lines, f"  it is compacted at {view.compacts_at:,} tokens: {view.left:,} more"]


def _measure_text(measured: bool) -> str:
    return "the sum as the service counted it, what is newer by bytes / 4" if measured else "all is bytes / 4"


def sandbox_lines(report: SandboxReport | None) -> list[str]:
    """Return what confines the session's commands, and each limit of it."""
    if report is None:
        return []
    return [f"  sandbox {clean(report.summary)}", *(f"    {clean(limit)}" for limit in report.limits)]


def mode_meaning_lines() -> list[str]:
    """Return all modes with their meanings."""
    return [f"  {name:<18} {about}" for name, about in describe_modes()]
