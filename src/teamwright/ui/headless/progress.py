"""Progress of a run on stderr: one plain line an event. Pure: an event in, a line or nothing out."""

from __future__ import annotations

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
from teamwright.ui.compacted import compacted_words

_CHANGES = {"created": "+", "claimed": "▸", "completed": "✓", "released": "·", "deleted": "✗", "assigned": "→"}
_UNTOLD = frozenset({"mode_changed", "permission_request", "permission_response"})
"""Protocol messages that another line tells already."""

_QUIET_STATES = frozenset({"working", "pending", "stopping"})


def shown(name: str) -> str:
    """A member's name as people read it."""
    return LEAD_ALIAS if name == LEAD else name


def line_of(event: TeamEvent) -> str | None:
    """The line for an event, without a time; None for what would only be noise."""
    who = shown(event.member)
    match event:
        case ToolCalled(outcome=outcome):
            mark = {"failed": "  (failed)", "denied": "  (refused)"}.get(outcome, "")
            return f"{who:<12} {event.tool} {_one_line(event.summary)}{mark}  [{event.call}]"
        case MessageSent():
            if event.wire in _UNTOLD or (event.wire == "idle_notification" and event.summary == "idle"):
                return None
            return f"{who:<12} → {shown(event.to)}: {_one_line(event.summary)}"
        case TaskChanged(change=change):
            owner = f" ({event.task.owner})" if change == "assigned" else ""
            return f"{who:<12} {_CHANGES.get(change, change)} #{event.task.id} {_one_line(event.task.subject)}{owner}"
        case MemberChanged(state=state):
            if state in _QUIET_STATES or event.member == LEAD:
                return f"{who:<12} {event.detail}" if event.detail and event.member == LEAD else None
            return f"{who:<12} {state}" + (f": {_one_line(event.detail)}" if event.detail else "")
        case RequestOpened() | RequestClosed():
            return f"{who:<12} {_asked(event)}"
        case LimitReached() | ModeChanged() | ModelChanged() | Notice() | Compacted():
            return f"{who:<12} {_said(event)}"
        case _:
            return None


def _said(event: LimitReached | ModeChanged | ModelChanged | Notice | Compacted) -> str:
    match event:
        case Compacted():
            return compacted_words(event)
        case LimitReached():
            return f"limit: {event.detail}"
        case ModeChanged():
            return f"is in mode {event.mode} now"
        case ModelChanged():
            return f"runs on {event.model} now"
        case Notice():
            return event.text


def _asked(event: RequestOpened | RequestClosed) -> str:
    from teamwright.ui.asked import closed_words, opened_words, short_id  # only a run in which somebody asks pays

    if isinstance(event, RequestOpened):
        return f"{_one_line(opened_words(event))}  [{short_id(event.request)}]"
    reason = f": {_one_line(event.reason)}" if event.reason else ""
    return f"{closed_words(event)}{reason}  [{short_id(event.request)}]"


def _one_line(text: str, width: int = 90) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
