"""What a person reads in a member's pane beside what events say: who it is, what it was told, that its lead is gone.

Pure; knows how mail looks to a model (`protocol.envelope`), which is how the member was told it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from textwrap import wrap

from teamwright.protocol.blocks import Block
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import (
    IdleNotification,
    ModeChanged,
    PlanApprovalResponse,
    ShutdownRequest,
    TaskAssignment,
    parse_protocol,
)
from teamwright.ui.terminal.lines import Narrator, shown
from teamwright.ui.terminal.text import cells, clean, cut

TOLD_LINES = 12
"""Lines of a message to the member that are shown; the rest is counted."""

NARROWEST = 20

_ENVELOPE = re.compile(r'<teammate-message teammate_id="([^"]*)"[^>]*>\n(.*?)\n</teammate-message>', re.DOTALL)
_TOLD_OTHERWISE = frozenset({"user", "task-list"})
"""Senders whose mail another line shows already."""


def header(name: str, team: str, model: str, mode: str, held: int, width: int) -> list[str]:
    """Who this is, and how to write to it. `held`: messages of an earlier life of its process."""
    who = clean(name)
    lines = [
        f"{who} · team {clean(team)} · {clean(model)} · {clean(mode)}",
        f"  what you type goes to {who} as mail from you · /help",
        "  Esc or Ctrl-C ends its turn · /stop ends it · closing the terminal ends it too",
    ]
    if held:
        lines.append(f"  it goes on; its conversation holds {held} messages")
    return [cut(line, max(width - 1, NARROWEST)) for line in lines]


def lead_lines(name: str, there: bool, grace_s: float | None) -> list[str]:
    """That its lead is gone and how long it stays, or that it is back."""
    if there:
        return [f"the lead of {name} is back"]
    stays = "until it is back" if grace_s is None else f"{grace_s:.0f} s for it to come back, and keeps its place"
    return [f"the lead of {name} is gone: {name} stays {stays}"]


def told_lines(content: Sequence[Block], name: str, narrator: Narrator) -> list[str]:
    """Mail that the member was just told, each with who wrote it."""
    lines: list[str] = []
    for sender, body in _mail(content):
        if sender in _TOLD_OTHERWISE:
            continue
        head = f"{narrator.name(sender)} → {narrator.name(name)}: "
        room = max(narrator.width, NARROWEST) - 1
        first, *rest = _wrapped(body, room - 2, room - cells(f"{shown(sender)} → {shown(name)}: "))
        lines += [head + first, *(f"  {line}" for line in rest[: TOLD_LINES - 1])]
        if len(rest) >= TOLD_LINES:
            lines.append(narrator.paint("dim", f"  … {len(rest) - TOLD_LINES + 1} more lines"))
    return lines


def _mail(content: Sequence[Block]) -> Iterator[tuple[str, str]]:
    for block in content:
        if block.get("type") == "text":
            for found in _ENVELOPE.finditer(str(block.get("text", ""))):
                yield html.unescape(found[1]) or LEAD, _plain(html.unescape(found[2]))


def _plain(body: str) -> str:
    """What a message of the protocol asks or says, for people; all else as it is."""
    match parse_protocol(body):
        case ShutdownRequest(reason=reason):
            return f"you may stop{f': {reason}' if reason else ''}"
        case TaskAssignment(task_id=task, subject=subject):
            return f"#{task} is yours: {subject}"
        case IdleNotification() as notice:
            return notice.result or notice.failure_reason or "idle"
        case PlanApprovalResponse(approved=approved, feedback=feedback):
            return "your plan is approved" if approved else f"your plan is not approved: {feedback or 'no reason'}"
        case ModeChanged(mode=mode):
            return f"the mode is {mode}"
        case None:
            return body
        case other:
            return other.TYPE


def _wrapped(text: str, room: int, first: int) -> list[str]:
    """The text in lines that fit; the first one is shorter by what stands before it."""
    lines: list[str] = []
    for part in clean(text).split("\n"):
        indent = "" if lines else " " * max(room - first, 0)
        lines += wrap(part, max(room, NARROWEST), initial_indent=indent, break_long_words=True) or [""]
    return [lines[0].strip(), *lines[1:]]
