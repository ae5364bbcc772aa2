"""What an event says in the demo, behind time and name; None for what would only be noise.

Pure: an event and the board as it stands with it. Knows no script and no repository.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from teamwright.protocol.events import (
    LimitReached,
    MemberChanged,
    MessageSent,
    Notice,
    TaskChanged,
    TeamEvent,
    ToolCalled,
)
from teamwright.protocol.ids import LEAD
from teamwright.ui.demo.board import WIDTH, Board, filled, numbered, quiet
from teamwright.ui.headless.progress import shown
from teamwright.ui.terminal.text import cells, clean, cut, one_line, padded

ABOUT = 20
"""Columns for what a command is for."""

_MISHAPS = {"failed": "failed: ", "denied": "refused: "}
_TASKS = {"created": "adds #{0} {1}", "claimed": "claims #{0}", "completed": "✓ #{0}", "released": "gives #{0} back"}
_ENDED = frozenset({"completed", "failed", "crashed", "killed"})


def line_of(event: TeamEvent, board: Board, *, new: bool = False) -> str | None:
    """The line. `new`: the event is the first of its member."""
    match event:
        case ToolCalled():
            return _call(event)
        case TaskChanged():
            return _task(event, board)
        case MessageSent(wire="idle_notification") if not quiet(event):
            return f"→ {shown(event.to)}   {one_line(event.summary)}"
        case MemberChanged() if event.member != LEAD:
            return _member(event, new=new)
        case LimitReached() if event.detail:
            return event.detail
        case Notice(level="warning"):
            return one_line(event.text)
        case _:
            return None


def laid_out(left: str, said: str) -> str:
    """The line within 80 columns; a receipt at its end is never cut."""
    said = clean(said).replace("\n", " ")
    body, bracket, receipt = said.rpartition(" [c")
    if not (bracket and receipt.endswith("]")):
        return left + cut(said, WIDTH - cells(left))
    tail = f" [c{receipt}"
    width = WIDTH - cells(left) - cells(tail)
    return left + padded(cut(body, width), width) + tail


def _call(event: ToolCalled) -> str | None:
    mishap = _MISHAPS.get(event.outcome, "")
    match event.tool:
        case "Bash":
            return _command(event, mishap)
        case "SendMessage" if not mishap:
            return _message(event)
        case "TaskUpdate" if event.input.get("addBlockedBy") and not mishap:
            waits_for = [str(one) for one in cast("Sequence[object]", event.input["addBlockedBy"])]
            return f"#{one_line(str(event.input.get('taskId', '')))} waits for {numbered(waits_for)}"
        case "TeamCreate" if not mishap:
            return f"creates the team {one_line(str(event.input.get('team_name', '')))}"
        case "TeamDelete" if not mishap:
            return "deletes the team"
        case "Agent" if event.input.get("name") and not mishap:
            return None  # whoever joins says so
        case "Read" | "Glob" | "Grep" | "Agent":
            return f"{event.tool} {filled(event.summary, ABOUT)} {mishap}{_first_line(event)} [{event.call}]"
        case _:
            return f"{event.tool} {one_line(event.summary)} ({mishap}{_first_line(event)})" if mishap else None


def _command(event: ToolCalled, mishap: str) -> str:
    """What a command was for, and the first line that it printed; the command itself is behind the receipt."""
    first = _first_line(event)
    said = mishap + (first.partition(": ")[2] or first)
    return f"Bash {filled(str(event.input.get('description') or event.summary), ABOUT)} {said} [{event.call}]"


def _first_line(event: ToolCalled) -> str:
    return one_line(next((line for line in event.output.splitlines() if line.strip()), ""))


def _message(event: ToolCalled) -> str | None:
    """What somebody wrote, or asked, or answered; that somebody agrees to stop is told by the end itself."""
    to = one_line(str(event.input.get("to") or event.input.get("recipient") or ""))
    body = event.input.get("message")
    if not isinstance(body, dict):
        about = event.input.get("summary") or body or event.input.get("content") or ""
        return f"→ {'all' if to == '*' else shown(to)}   {one_line(str(about))}"
    asked = cast("Mapping[str, Any]", body)
    if asked.get("type") == "shutdown_request":
        return f"shutdown? → {shown(to)}"
    if asked.get("type") == "shutdown_response" and not asked.get("approve"):
        return one_line(str(asked.get("reason") or "not yet"))
    return None


def _task(event: TaskChanged, board: Board) -> str | None:
    task = event.task
    if event.change == "lost":
        return f"#{task.id} went to another member: {one_line(event.detail)}"
    if event.change not in _TASKS:
        return None
    said = _TASKS[event.change].format(task.id, one_line(task.subject))
    if event.change == "completed" and (free := board.freed_by(task.id)):
        said += f"   {numbered(free)} {'is' if len(free) == 1 else 'are'} free now"
    return said


def _member(event: MemberChanged, *, new: bool) -> str | None:
    if event.state in _ENDED:
        return f"ended: {one_line(event.detail)}" if event.detail else "ended"
    return "joins the team" if new else None
