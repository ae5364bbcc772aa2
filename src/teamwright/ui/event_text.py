"""Progress lines of a run for stderr: one plain line for each event."""

from __future__ import annotations

import shlex

from teamwright.models.model import SLOT_WAIT
from teamwright.protocol.events import (
    Compacted,
    LimitReached,
    MemberChanged,
    MessageSent,
    ModeChanged,
    ModelChanged,
    Notice,
    Progress,
    RequestClosed,
    RequestOpened,
    SandboxRefused,
    TaskChanged,
    TeamEvent,
    ToolCalled,
    reading_text,
)
from teamwright.protocol.ids import LEAD, display_name
from teamwright.protocol.members import MemberState
from teamwright.storage.paths import command_with_home
from teamwright.ui.display_text import exact_line, one_line


def compaction_text(event: Compacted) -> str:
    """Return the line for a compaction that starts or has ended."""
    if event.trigger == "clear":
        return f"begins with an empty conversation; prompt and tools are about {event.after:,} tokens"
    match event.state:
        case "begun":
            return f"compacts its conversation ({event.before:,} tokens)"
        case "done":
            return f"continues from a summary: {event.before:,} tokens became about {event.after:,}"
        case _:
            return f"was not compacted, nothing changed: {event.detail}"


_ANSWERED_BY = {
    "terminal": "at its terminal",
    "another terminal": "from another terminal",
    "program": "by the program",
    "hook": "by a hook",
    "lead": "by the lead",
    "policy": "by policy",
    "deadline": "at its deadline",
}
"""The origins of an answer, as people read them."""

_MIN_ID_CHARS = 5
"""The minimum length of the last part of an id that is used as a short id."""


def request_subject(kind: str, tool: str, what: str) -> str:
    """Return the subject of a request on one line: the tool and the first line of the command, question or plan."""
    first = first_line(what, counts=kind == "permission" and tool == "Bash")
    return first if kind == "question" else f"{one_line(tool)} {first}".strip()


def first_line(what: str, *, counts: bool) -> str:
    """Return the first line of a text. `counts`: it is a command, so that the number of further lines comes after it,
    and nothing in it is invisible.
    """
    first, *rest = what.strip().split("\n")
    if not counts:
        return one_line(first)
    more = sum(not line.isspace() and line != "" for line in rest)
    return exact_line(first) + (f" (and {more} more line{'s' if more > 1 else ''})" if more else "")


def short_id(request: str) -> str:
    """Return the part of a request's id that identifies it."""
    tail = request.rpartition("-")[2]
    return tail if len(tail) >= _MIN_ID_CHARS else request


def answer_command(request: str, kind: str, root: str | None) -> str:
    """Return the command that approves a request from any terminal. `root` is the home that was named for this run."""
    answer = " --answer TEXT" if kind == "question" else ""
    return command_with_home(f"teamwright requests allow {shlex.quote(short_id(one_line(request)))}{answer}", root)


def deny_command(request: str, root: str | None) -> str:
    """Return the command that denies a request from any terminal, as `answer_command`."""
    return command_with_home(f"teamwright requests deny {shlex.quote(short_id(one_line(request)))} --reason TEXT", root)


def request_text(event: RequestOpened) -> str:
    """Return the text of a request, without the member's name."""
    subject = request_subject(event.kind, event.tool, event.what)
    return f"asks for approval: {subject}" if event.kind in {"plan", "review"} else f"asks: {subject}"


def answer_text(event: RequestClosed) -> str:
    """Return the outcome of a request and the approver."""
    if event.by == "cancelled":
        return "no longer asks"
    verdict = {"allow": "allowed", "deny": "denied"}.get(event.verdict, event.verdict)
    return f"{verdict} {_ANSWERED_BY.get(event.by) or f'by {one_line(event.by)}'}"


TASK_MARKS = {"created": "+", "claimed": "▸", "assigned": "→", "completed": "✓", "released": "↩", "deleted": "✗"}
"""The marks of a task's changes."""

HIDDEN_PROTOCOL = frozenset({"mode_changed", "permission_request", "permission_response"})
"""Protocol messages that another line reports already."""

_QUIET_STATES = frozenset({MemberState.WORKING, MemberState.PENDING, MemberState.STOPPING})


def event_line(event: TeamEvent) -> str | None:
    """Return the line for an event, without a time; None for an event that is not worth a line."""
    who = display_name(event.member)
    match event:
        case ToolCalled(outcome=outcome):
            mark = {"failed": "  (failed)", "denied": "  (refused)"}.get(outcome, "")
            return f"{who:<12} {event.tool} {_flatten(event.summary)}{mark}  [{event.call}]"
        case MessageSent():
            if event.wire in HIDDEN_PROTOCOL or (event.wire == "idle_notification" and event.summary == "idle"):
                return None
            return f"{who:<12} → {display_name(event.to)}: {_flatten(event.summary)}"
        case TaskChanged(change=change):
            owner = f" ({event.task.owner})" if change == "assigned" else ""
            return f"{who:<12} {TASK_MARKS.get(change, change)} #{event.task.id} {_flatten(event.task.subject)}{owner}"
        case MemberChanged(state=state):
            if state in _QUIET_STATES or event.member == LEAD:
                return f"{who:<12} {event.detail}" if event.detail and event.member == LEAD else None
            return f"{who:<12} {state}" + (f": {_flatten(event.detail)}" if event.detail else "")
        case RequestOpened() | RequestClosed():
            return f"{who:<12} {_request_text(event)}"
        case SandboxRefused():
            return f"{who:<12} {_flatten(notice_text(event), 300)}"
        case LimitReached() | ModeChanged() | ModelChanged() | Notice() | Compacted():
            return f"{who:<12} {notice_text(event)}"
        case Progress(doing="prompt", what=what):
            return f"{who:<12} {reading_text(what)}"
        case Progress(doing="pause", what=what) if what == SLOT_WAIT:
            return f"{who:<12} waits for {what}"
        case _:
            return None


def notice_text(event: LimitReached | ModeChanged | ModelChanged | Notice | Compacted | SandboxRefused) -> str:
    """Return the text of an event that only informs, without the member's name."""
    match event:
        case Compacted():
            return compaction_text(event)
        case LimitReached():
            return f"limit: {event.detail}"
        case SandboxRefused():
            return f"the sandbox refused to {', to '.join(event.refused)}. {event.allow}"
        case ModeChanged():
            return f"is in mode {event.mode} now"
        case ModelChanged():
            return f"runs on {event.model} now"
        case Notice():
            return event.text


def _request_text(event: RequestOpened | RequestClosed) -> str:
    if isinstance(event, RequestOpened):
        return f"{_flatten(request_text(event))}  [{short_id(event.request)}]"
    reason = f": {_flatten(event.reason)}" if event.reason else ""
    return f"{answer_text(event)}{reason}  [{short_id(event.request)}]"


def _flatten(text: str, width: int = 90) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
