"""The task list below the members: what is open, by whom, and what it waits for; the rest is counted. Pure."""

from __future__ import annotations

from collections.abc import Callable

from teamwright.app.looking.board import Board
from teamwright.protocol.events import TaskInfo
from teamwright.ui.terminal.lines import shown
from teamwright.ui.terminal.paint import Paint
from teamwright.ui.terminal.text import cells, cut, one_line

_MARKS = {"in_progress": "▸"}


def task_rows(board: Board, width: int, most: int, paint: Paint, mask: Callable[[str], str] = str) -> list[str]:
    """At most `most` rows of at most `width` columns: what is in hand first, then what is free, then what waits."""
    done = f"{board.done} done" if board.done else ""
    if not board.open:
        return [paint("dim", cut(f"   no open task{f', {done}' if done else ''}", width))]
    tasks = sorted(board.open.values(), key=lambda task: _order(board, task))
    room = len(tasks) if len(tasks) + bool(done) <= most else max(1, most - 1)
    rows = [_row(board, task, width, mask) for task in tasks[:room]]
    left = [f"… {len(tasks) - room} more open"] if len(tasks) > room else []
    rest = ", ".join([*left, *([done] if done else [])])
    return [*rows, paint("dim", cut(f"   {rest}", width))] if rest else rows


def _order(board: Board, task: TaskInfo) -> tuple[int, int, str]:
    rank = 0 if task.status == "in_progress" else 2 if board.waits_for(task) else 1
    return rank, int(task.id) if task.id.isdecimal() else 0, task.id


def _row(board: Board, task: TaskInfo, width: int, mask: Callable[[str], str]) -> str:
    waits = board.waits_for(task)
    owner = f"  {one_line(shown(task.owner))}" if task.owner else ""
    end = owner + (f"  waits for {' '.join(f'#{id}' for id in waits)}" if waits else "")
    head = f" {_MARKS.get(task.status, '·')} #{task.id} "
    # Whose it is and what it waits for matter more than the end of a long subject.
    room = max(8, width - cells(head) - cells(end))
    return cut(head + cut(mask(one_line(task.subject)), room) + end, width)
