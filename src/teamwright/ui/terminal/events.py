"""Events as lines of a terminal: one line with the member and its action, results of commands, diffs of changed files.

    lead       Bash pytest -q [c12]
               ✓ 12 passed in 3.42s · 41 more lines · 4.1 s

`EventFormatter` remembers which members were introduced, and their colours. Texts of agents are cleaned. The whole
output of a call is in the log (`/log c12`), which this module does not read.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from textwrap import wrap
from typing import cast

from msgspec import Struct, field

from teamwright.protocol.events import (
    Compacted,
    IntegrationChanged,
    LimitReached,
    MemberChanged,
    MessageSent,
    ModeChanged,
    ModelChanged,
    Notice,
    RequestClosed,
    RequestOpened,
    SandboxRefused,
    TaskChanged,
    TeamEvent,
    ToolCalled,
)
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.members import MemberState
from teamwright.protocol.task import IntegrationState
from teamwright.ui.display_text import cell_width, clean, cut, model_name, one_line, pad
from teamwright.ui.event_text import HIDDEN_PROTOCOL, TASK_MARKS, answer_text, notice_text, request_subject
from teamwright.ui.terminal.styles import Paint, hunk_lines, paint_lines

PROGRAM_DEFAULT_MODEL = "default"
"""The model name of a member that another program runs, when none was given."""

NAME_WIDTH = 10

MIN_WIDTH = 20
"""The minimum width in columns; in a narrower window lines wrap."""

SHELL = "shell"
"""The level of notices with the output of the person's own command, and the label of their lines."""

_INTEGRATION_TEXT = {
    IntegrationState.QUEUED: ("is queued for", ""),
    IntegrationState.CHECKING: ("is checked on", ""),
    IntegrationState.MERGED: ("is merged into", "green"),
    IntegrationState.CONFLICT: ("conflicts with", "yellow"),
    IntegrationState.FAILED: ("fails the check on", "red"),
}
"""The words and the style of a commit's line, by its state."""

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

_HIDDEN_PROTOCOL = HIDDEN_PROTOCOL | {"task_assignment", "shutdown_approved", "teammate_terminated"}
"""Protocol messages that another line reports already."""

_SHOWN_ELSEWHERE = {"TaskCreate": "", "TaskUpdate": "taskId", "SendMessage": ""}
"""Calls whose effect has a separate line, and the argument that names its object. A failed call is shown nevertheless.
"""


def display_name(name: str) -> str:
    """Return a name as people read it."""
    return LEAD_ALIAS if name == LEAD else "you" if name == "user" else clean(name)


class EventFormatter(Struct):
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
            case IntegrationChanged():
                return self._integration(event)
            case MemberChanged():
                return self._member(event)
            case RequestOpened():
                self._open_requests[event.request] = request_subject(event.kind, event.tool, event.what)
                return []
            case RequestClosed():
                return self._request_closed(event)
            case LimitReached() | ModeChanged() | ModelChanged():
                return [self.line(event.member, one_line(notice_text(event)), "yellow")]
            case Notice() | Compacted() | SandboxRefused():
                return self._notice(event)
            case _:
                return []

    def _notice(self, event: Notice | Compacted | SandboxRefused) -> list[str]:
        if isinstance(event, Notice):
            if event.level == SHELL:
                return shell_lines(event.text)
            warns = event.level == "warning"
        else:
            warns = isinstance(event, SandboxRefused) or event.state in {"failed", "crashed"}
        return [self.line(event.member, one_line(notice_text(event)), "yellow" if warns else "", whole=True)]

    def name(self, member: str, owner: str = "") -> str:
        """Return a member's name in its colour; a sub-agent has the colour of its owner."""
        return self.paint(self._style(owner or member), display_name(member))

    def _style(self, member: str) -> str:
        return "bold" if member in {LEAD, "user"} else self.colors.get(member, "")

    def line(self, member: str, text: str, style: str = "", *, whole: bool = False) -> str:
        """Return a line about a member, cut to the width of the window unless `whole`."""
        name = pad(display_name(member), NAME_WIDTH)
        room = max(self.width, MIN_WIDTH) - cell_width(name) - 1
        text = text if whole else cut(text, room)
        return f"{self.paint(self._style(member), name)} {self.paint(style, text)}".rstrip()

    def _tool_call(self, event: ToolCalled) -> list[str]:
        if self._is_already_shown(event):
            return []
        room = max(self.width, MIN_WIDTH) - NAME_WIDTH - 1
        indent = " " * (NAME_WIDTH + 1)
        result = result_line(event, room)
        diff = call_diff_lines(event, self.paint, max(self.width, MIN_WIDTH) - 2, self.rest_command)
        return [
            self.line(event.member, call_line(event, room)),
            *(f"{indent}{line}" for line in reason_lines(event, room)),
            *([indent + self.paint("dim", result)] if result else []),
            *(f"  {line}" for line in diff),
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
        question = self._open_requests.pop(event.request, "")
        if event.by in {"surface", "terminal"}:
            return []
        text = answer_text(event) + (f": {question}" if question else "")
        reason = f" ({one_line(event.reason)})" if event.reason else ""
        return [self.line(event.member, text + reason, whole=True)]

    def _task(self, event: TaskChanged) -> list[str]:
        if event.change == "updated":
            return []
        mark = TASK_MARKS.get(event.change, event.change)
        task = event.task
        self._shown_effects.add(
            (event.member, "TaskCreate", "") if event.change == "created" else (event.member, "TaskUpdate", task.id)
        )
        text = f"{mark} #{task.id} {one_line(task.subject)}"
        if event.change == "assigned" and task.owner:
            text += f" → {display_name(task.owner)}"
        if event.detail:
            text += f" ({one_line(event.detail)})"
        return [self.line(event.member, text, "green" if event.change == "completed" else "")]

    def _integration(self, event: IntegrationChanged) -> list[str]:
        """Return a line for each state: `#3 is merged into teamwright/shop/integration`."""
        text, style = _INTEGRATION_TEXT[event.state]
        what = f"#{event.task}" if event.task else event.tip[:12]
        paths = f": {one_line(', '.join(event.paths))}" if event.paths else ""
        return [self.line(event.member, f"{what} {text} {one_line(event.onto)}{paths}", style)]

    def _member(self, event: MemberChanged) -> list[str]:
        detail = one_line(event.detail)
        if event.member == LEAD:
            return [self.line(LEAD, detail)] if detail else []
        if event.color:
            self.colors[event.member] = event.color
        if event.state in _END_TEXT:
            self._introduced.discard(event.member)
            style = "" if event.state is MemberState.COMPLETED else "red"
            return [self.line(event.member, _END_TEXT[event.state] + (f": {detail}" if detail else ""), style)]
        if event.state in {MemberState.BLOCKED, MemberState.AWAITING}:
            return [self.line(event.member, f"waits for {detail}" if detail else "waits", "yellow")]
        if event.member not in self._introduced:
            self._introduced.add(event.member)
            model = (
                f" ({model_name(event.model)})"
                if event.model not in {"", PROGRAM_DEFAULT_MODEL, self.usual_model}
                else ""
            )
            return [self.line(event.member, f"joined{model}")]
        return []


def shell_lines(text: str) -> list[str]:
    """Return the person's own command and its whole output as lines."""
    command, _, output = clean(text).partition("\n")
    return [f"{SHELL:<10} {command}", *(f"  {line}" for line in output.rstrip("\n").split("\n") if output.strip())]


MAX_DIFF_LINES = 20
"""The number of diff lines that are shown; the rest is counted."""

MAX_REASON_LINES = 3
"""The number of lines of a reason that are shown below a refused call."""

SHOWN_SECONDS = 1.0
"""The time of a call from which the line of its result shows the time."""

_COLOR = re.compile(r"\x1b\[[0-9;]*m")

_WITH_TEXT = re.compile(r"\w")

_FRAME = " \t=*#~_│─━|-"
"""Characters that programs draw around the words of a last line."""


def output_lines(text: str) -> list[str]:
    """Return the lines of output that are not blank: colours removed, a line that was overwritten as it was last."""
    lines = (_COLOR.sub("", line).rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return [clean(line) for line in lines if line.strip()]


def last_words(text: str) -> str:
    """Return the last line of output that has a letter or a digit, without the frame around it; else an empty text."""
    found = next((line for line in reversed(output_lines(text)) if _WITH_TEXT.search(line)), "")
    return one_line(found.strip(_FRAME))


def call_line(event: ToolCalled, room: int) -> str:
    """Return what the call did, its result or the kind of its failure, and its number, in `room` columns."""
    number = f" [{event.call}]" if event.call else ""
    return _call_text(event, room - cell_width(number)) + number


def _call_text(event: ToolCalled, room: int) -> str:
    summary = one_line(event.summary)
    head = event.tool if summary == event.tool else f"{event.tool} {summary}"
    if event.outcome == "done":
        end = _diff_counts(event) or _brief(event)
        return cut(head, max(room - cell_width(end), room // 2)) + cut(end, max(room // 2, room - cell_width(head)))
    word = "refused" if event.outcome == "denied" else event.outcome
    why = failure_reason(event)
    end = f" — {word}: {why}"
    if not why or cell_width(head + end) > room < 2 * cell_width(end):
        end = f" — {word}"
    # The reason of a failure is more important than the end of a long command.
    return cut(head, room - cell_width(end)) + end


def _diff_counts(event: ToolCalled) -> str:
    added, removed = event.facts.get("added"), event.facts.get("removed")
    return f" (+{added} -{removed})" if isinstance(added, int) and isinstance(removed, int) else ""


def _brief(event: ToolCalled) -> str:
    """Return the tool's own line about its result. The result of a command has a separate line."""
    brief = one_line(str(event.facts.get("brief", "")))
    return f" · {brief}" if brief and not _is_command(event) else ""


def result_line(event: ToolCalled, room: int) -> str:
    """Return the result of a command: its last words, the number of lines that are not shown, and a long time.

    An empty text for a call that printed nothing in less than a second.
    """
    if not _is_command(event):
        return ""
    text = _last_words_of(event)
    hidden = hidden_lines(event)
    more = [f"{hidden:,} more line{'' if hidden == 1 else 's'}"] if hidden else []
    took = [f"{event.seconds:.1f} s"] if event.seconds >= SHOWN_SECONDS else []
    end = " · ".join([*more, *took])
    if not text and not end:
        return ""
    mark = "✓ " if event.outcome == "done" else "✗ "
    gap = " · " if text and end else ""
    return f"{mark}{cut(text, room - cell_width(mark + gap + end))}{gap}{end}"


def _is_command(event: ToolCalled) -> bool:
    """Return True for a command that has run: its facts are about its output."""
    return "end" in event.facts


def hidden_lines(event: ToolCalled) -> int:
    """Return the number of output lines of a command that its result does not show."""
    lines = event.facts.get("lines")
    return max(0, lines - bool(_last_words_of(event))) if isinstance(lines, int) else 0


def _last_words_of(event: ToolCalled) -> str:
    return last_words(str(event.facts.get("end", "")))


def failure_reason(event: ToolCalled) -> str:
    """Return the reason of a failed call, without what its line shows already."""
    if _is_command(event):
        return one_line(str(event.facts.get("brief", "")))
    return one_line(_extract_message(event.output).split("\n", 1)[0]).removeprefix("This call was not allowed: ")


def _extract_message(output: str) -> str:
    """Return the `message` of an answer that is a JSON object; any other answer is returned unchanged."""
    if output.startswith("{"):
        with suppress(ValueError, RecursionError):
            message = cast("dict[str, object]", json.loads(output)).get("message")
            return message if isinstance(message, str) else output
    return output


def reason_lines(event: ToolCalled, room: int) -> list[str]:
    """Return the reason of a failure below the call, when both do not fit on one line."""
    why = failure_reason(event)
    number = f" [{event.call}]" if event.call else ""
    if event.outcome == "done" or not why or call_line(event, room).endswith(why + number):
        return []
    lines = wrap(why, room)
    if len(lines) > MAX_REASON_LINES:
        lines = [*lines[: MAX_REASON_LINES - 1], cut(f"{lines[MAX_REASON_LINES - 1]}…", room)]
    return lines


def call_diff_lines(event: ToolCalled, paint: Paint, room: int, rest_command: str) -> list[str]:
    """Return the diff of a changed file; `rest_command` shows what is left out."""
    diff = event.facts.get("diff")
    if event.outcome != "done" or not isinstance(diff, str) or not diff:
        return []
    body = diff.removesuffix("\n").split("\n")[2:]  # without its two heads: the line of the call names the file
    lines = list(paint_lines(hunk_lines(cut(clean(line), room) for line in body[:MAX_DIFF_LINES]), paint))
    if len(body) > MAX_DIFF_LINES:
        more = f": {rest_command} {event.call}" if rest_command else ""
        lines.append(paint("dim", f"… {len(body) - MAX_DIFF_LINES} more lines{more}"))
    return lines
