"""Events as lines of a terminal: one line with the member and its action, diffs of changed files, output of commands.

`Narrator` remembers which members were introduced, and their colours. Texts of agents are cleaned.
"""

from __future__ import annotations

import json
from contextlib import suppress
from textwrap import wrap
from typing import cast

from msgspec import Struct, field

from teamwright.protocol.events import (
    Compacted,
    LimitReached,
    MemberChanged,
    MessageSent,
    ModeChanged,
    ModelChanged,
    Notice,
    RequestClosed,
    RequestOpened,
    TaskChanged,
    TeamEvent,
    ToolCalled,
)
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.states import MemberState
from teamwright.ui.display_text import cell_width, clean, cut, model_name, one_line, pad
from teamwright.ui.event_text import answer_text, compaction_text, request_subject
from teamwright.ui.terminal.paint import DIFF_STYLES, Paint

MAX_DIFF_LINES = 20
"""The number of diff lines that are shown; the rest is counted."""

MAX_REASON_LINES = 3
"""The number of lines of a reason that are shown below a refused call."""

PROGRAM_DEFAULT_MODEL = "default"
"""The model name of a member that another program runs, when none was given."""

NAME_WIDTH = 10
MIN_WIDTH = 20
"""The minimum width in columns; in a narrower window lines wrap."""

_TASK_MARKS = {"created": "+", "claimed": "▸", "assigned": "→", "completed": "✓", "released": "↩", "deleted": "✗"}
_END_TEXT = {
    MemberState.COMPLETED: "has ended",
    MemberState.FAILED: "failed",
    MemberState.CRASHED: "crashed",
    MemberState.KILLED: "was stopped",
}
_PROTOCOL_TEXT = {
    "shutdown_request": "please stop",
    "shutdown_rejected": "not yet",
    "plan_approval_request": "asks for approval of its plan",
    "plan_approval_response": "answers on the plan",
}
_HIDDEN_PROTOCOL = frozenset(
    {
        *("task_assignment", "mode_changed", "shutdown_approved", "teammate_terminated"),
        *("permission_request", "permission_response"),
    }
)
"""Protocol messages that another line reports already."""


_SHOWN_ELSEWHERE = {"TaskCreate": "", "TaskUpdate": "taskId", "SendMessage": ""}
"""Calls whose effect has a separate line, and the argument that names its object. A failed call is shown nevertheless.
"""


def display_name(name: str) -> str:
    """Return a name as people read it."""
    return LEAD_ALIAS if name == LEAD else "you" if name == "user" else clean(name)


class Narrator(Struct):
    """A formatter of events for a person. `width` is that of the window in columns.

    `rest_command` is the command that shows the rest of a long diff. `usual_model` is the default model, which is not
    named when a member joins.
    """

    paint: Paint = field(default_factory=Paint)
    width: int = 80
    colors: dict[str, str] = field(default_factory=dict[str, str])
    rest_command: str = ""
    usual_model: str = ""
    _introduced: set[str] = field(default_factory=set[str])
    _open_requests: dict[str, str] = field(default_factory=dict[str, str])
    _shown_effects: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    """Effects that a line has just reported, so that the line of their call is left out."""

    def lines(self, event: TeamEvent) -> list[str]:
        """Return the lines for an event; empty for an event that is not worth a line."""
        match event:
            case ToolCalled():
                return self._tool_call(event)
            case MessageSent():
                return self._message(event)
            case TaskChanged():
                return self._task(event)
            case MemberChanged():
                return self._member(event)
            case RequestOpened():
                self._open_requests[event.request] = request_subject(event.kind, event.tool, event.what)
                return []
            case ModeChanged() | ModelChanged():
                now = f"is in mode {event.mode}" if isinstance(event, ModeChanged) else f"runs on {event.model}"
                return [self._line(event.member, f"{one_line(now)} now", "yellow")]
            case RequestClosed():
                return self._request_closed(event)
            case LimitReached():
                return [self._line(event.member, f"limit: {one_line(event.detail)}", "yellow")]
            case Notice() | Compacted():
                return self._notice(event)
            case _:
                return []

    def _notice(self, event: Notice | Compacted) -> list[str]:
        if isinstance(event, Compacted):
            level, said = "warning" if event.state in {"failed", "crashed"} else "info", compaction_text(event)
        else:
            level, said = event.level, event.text
        if level == SHELL:
            return shell_lines(said)
        return [self._line(event.member, one_line(said), "yellow" if level == "warning" else "", whole=True)]

    def name(self, member: str, owner: str = "") -> str:
        """Return a member's name in its colour; a sub-agent has the colour of its owner."""
        return self.paint(self._style(owner or member), display_name(member))

    def _style(self, member: str) -> str:
        return "bold" if member in {LEAD, "user"} else self.colors.get(member, "")

    def _line(self, member: str, text: str, style: str = "", *, whole: bool = False) -> str:
        name = pad(display_name(member), NAME_WIDTH)
        room = max(self.width, MIN_WIDTH) - cell_width(name) - 1
        text = text if whole else cut(text, room)
        return f"{self.paint(self._style(member), name)} {self.paint(style, text)}".rstrip()

    def _tool_call(self, event: ToolCalled) -> list[str]:
        if self._is_already_shown(event):
            return []
        room = max(self.width, MIN_WIDTH) - NAME_WIDTH - 1
        printed = [f"{'':<{NAME_WIDTH}} {self.paint('dim', line)}" for line in last_lines(event, room)]
        return [
            self._line(event.member, self._call_text(event)),
            *self._reason_lines(event),
            *printed,
            *self._diff_lines(event),
        ]

    def _is_already_shown(self, event: ToolCalled) -> bool:
        """Return True when another line has reported the effect of this call."""
        key = _SHOWN_ELSEWHERE.get(event.tool)
        if key is None:
            return False
        about = (event.member, event.tool, str(event.input.get(key, "")) if key else "")
        is_shown = about in self._shown_effects
        self._shown_effects.discard(about)
        return is_shown and event.outcome == "done"

    def _call_text(self, event: ToolCalled) -> str:
        summary = one_line(event.summary)
        head = event.tool if summary == event.tool else f"{event.tool} {summary}"
        if event.outcome == "done" and event.tool == "Bash" and event.seconds >= SHOWN_SECONDS:
            took = f" ✓ {event.seconds:.1f} s"
            return cut(head, max(self.width, MIN_WIDTH) - NAME_WIDTH - 1 - cell_width(took)) + took
        if event.outcome == "done":
            return f"{head}{_diff_counts(event)}"
        word = "refused" if event.outcome == "denied" else event.outcome
        why, room = _failure_reason(event), max(self.width, MIN_WIDTH) - NAME_WIDTH - 1
        end = f" — {word}: {why}"
        if not why or cell_width(head + end) > room < 2 * cell_width(end):
            end = f" — {word}"
        # The reason of a failure is more important than the end of a long command.
        return cut(head, room - cell_width(end)) + end

    def _reason_lines(self, event: ToolCalled) -> list[str]:
        """Return the reason of a failure below the call, when both do not fit on one line."""
        why, room = _failure_reason(event), max(self.width, MIN_WIDTH) - NAME_WIDTH - 1
        if event.outcome == "done" or not why or self._call_text(event).endswith(why):
            return []
        lines = wrap(why, room)
        if len(lines) > MAX_REASON_LINES:
            lines = [*lines[: MAX_REASON_LINES - 1], cut(f"{lines[MAX_REASON_LINES - 1]}…", room)]
        return [f"{'':<{NAME_WIDTH}} {line}" for line in lines]

    def _diff_lines(self, event: ToolCalled) -> list[str]:
        diff = event.facts.get("diff")
        if event.outcome != "done" or not isinstance(diff, str) or not diff:
            return []
        body = [line for line in diff.rstrip("\n").split("\n") if not line.startswith(("--- ", "+++ "))]
        room = max(self.width, MIN_WIDTH) - 2
        shown_lines = [f"  {diff_line(self.paint, cut(clean(line), room))}" for line in body[:MAX_DIFF_LINES]]
        if len(body) > MAX_DIFF_LINES:
            more = f": {self.rest_command} {event.call}" if self.rest_command else ""
            shown_lines.append(self.paint("dim", f"  … {len(body) - MAX_DIFF_LINES} more lines{more}"))
        return shown_lines

    def _message(self, event: MessageSent) -> list[str]:
        contentless = event.wire == "idle_notification" and event.summary == "idle"
        if contentless or event.wire in _HIDDEN_PROTOCOL or event.member in {"system", "task-list"}:
            return []
        if event.wire != "idle_notification":  # an idle notification comes from no call
            self._shown_effects.add((event.member, "SendMessage", ""))
        text = _PROTOCOL_TEXT.get(event.wire) or one_line(event.summary)
        head = f"{self.name(event.member)} → {self.name(event.to)}: "
        taken = cell_width(f"{display_name(event.member)} → {display_name(event.to)}: ")
        return [head + cut(text, max(self.width, MIN_WIDTH) - taken)]

    def _request_closed(self, event: RequestClosed) -> list[str]:
        """Return the approver of a request, unless the person here answered it."""
        asked = self._open_requests.pop(event.request, "")
        if event.by in {"surface", "terminal"}:
            return []
        text = answer_text(event) + (f": {asked}" if asked else "")
        reason = f" ({one_line(event.reason)})" if event.reason else ""
        return [self._line(event.member, text + reason, whole=True)]

    def _task(self, event: TaskChanged) -> list[str]:
        if event.change == "updated":
            return []
        mark = _TASK_MARKS.get(event.change, event.change)
        task = event.task
        self._shown_effects.add(
            (event.member, "TaskCreate", "") if event.change == "created" else (event.member, "TaskUpdate", task.id)
        )
        text = f"{mark} #{task.id} {one_line(task.subject)}"
        if event.change == "assigned" and task.owner:
            text += f" → {display_name(task.owner)}"
        if event.detail:
            text += f" ({one_line(event.detail)})"
        return [self._line(event.member, text, "green" if event.change == "completed" else "")]

    def _member(self, event: MemberChanged) -> list[str]:
        detail = one_line(event.detail)
        if event.member == LEAD:
            return [self._line(LEAD, detail)] if detail else []
        if event.color:
            self.colors[event.member] = event.color
        if event.state in _END_TEXT:
            self._introduced.discard(event.member)
            style = "" if event.state is MemberState.COMPLETED else "red"
            return [self._line(event.member, _END_TEXT[event.state] + (f": {detail}" if detail else ""), style)]
        if event.state in {MemberState.BLOCKED, MemberState.AWAITING}:
            return [self._line(event.member, f"waits for {detail}" if detail else "waits", "yellow")]
        if event.member not in self._introduced:
            self._introduced.add(event.member)
            model = (
                f" ({model_name(event.model)})"
                if event.model not in {"", PROGRAM_DEFAULT_MODEL, self.usual_model}
                else ""
            )
            return [self._line(event.member, f"joined{model}")]
        return []


def diff_line(paint: Paint, line: str) -> str:
    """Return a line of a unified diff in its colour."""
    return paint(DIFF_STYLES.get(line[:1], ""), line)


def _failure_reason(event: ToolCalled) -> str:
    """Return the reason of a failed call, without what its line shows already."""
    return one_line(_extract_message(event.output).split("\n", 1)[0]).removeprefix("This call was not allowed: ")


def _extract_message(output: str) -> str:
    """Return the `message` of an answer that is a JSON object; any other answer is returned unchanged."""
    if output.startswith("{"):
        with suppress(ValueError, RecursionError):
            message = cast("dict[str, object]", json.loads(output)).get("message")
            return message if isinstance(message, str) else output
    return output


def _diff_counts(event: ToolCalled) -> str:
    added, removed = event.facts.get("added"), event.facts.get("removed")
    return f" (+{added} -{removed})" if isinstance(added, int) and isinstance(removed, int) else ""


SHOWN_SECONDS = 1.0
"""The time of a command from which the line of its call shows the time."""

LAST_LINES = 3
"""The number of output lines of an agent's command that are shown."""

SHELL = "shell"
"""The level of notices with the output of the person's own command, and the label of their lines."""


def last_lines(event: ToolCalled, room: int) -> list[str]:
    """Return the last output lines of an agent's command, cut to `room` columns, and the number of earlier lines."""
    if event.tool != "Bash" or event.outcome not in {"done", "failed"}:
        return []
    text = str(event.facts.get("end") or event.output)
    lines = [line for line in clean(text).split("\n") if line.strip()]
    if event.outcome == "failed":
        lines = lines[1:]  # the first line is the reason shown with the call
    before = len(lines) - LAST_LINES
    shown = [cut(line, room) for line in lines[-LAST_LINES:]]
    more = "more lines" if "end" in event.facts else f"{before} more line{'' if before == 1 else 's'}"
    return [*([f"… {more}: /log {event.call}"] if before > 0 else []), *shown]


def hides_output(event: ToolCalled) -> bool:
    """Return True when the terminal shows only the last lines of a call's output."""
    return any(line.startswith("… ") for line in last_lines(event, 80)[:1])


def shell_lines(text: str) -> list[str]:
    """Return the person's own command and its whole output as lines."""
    command, _, output = clean(text).partition("\n")
    return [f"{SHELL:<10} {command}", *(f"  {line}" for line in output.rstrip("\n").split("\n") if output.strip())]
