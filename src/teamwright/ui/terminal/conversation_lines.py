"""A conversation as lines of a terminal: messages to the member, its answers, and one line for each call.

Depends on `protocol.message_xml`, the form in which messages reach a model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, cast

from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import (
    IdleNotification,
    ModeChangeMessage,
    PlanApprovalResponse,
    ShutdownRequest,
    TaskAssignment,
    parse_protocol,
)
from teamwright.protocol.message_xml import MESSAGE_PATTERN, REMINDER_PATTERN, parse_sender, unescape_tags
from teamwright.protocol.messages import Block
from teamwright.ui.display_text import cell_width, clean, cut, one_line, pad
from teamwright.ui.terminal.narrator import NAME_WIDTH, Narrator, display_name
from teamwright.views.conversation import Message, describe_input

MAX_MESSAGE_LINES = 12
"""The number of lines of a message to the member that are shown; the rest is counted."""

MIN_WIDTH = 20

_ENVELOPE = re.compile(MESSAGE_PATTERN, re.DOTALL)
_REMINDER = re.compile(REMINDER_PATTERN, re.DOTALL)
SENDERS_SHOWN_ELSEWHERE: Collection[str] = frozenset({"user", "task-list"})
"""Senders whose messages have another line when they are sent."""


def history_lines(messages: Sequence[Message], name: str, narrator: Narrator) -> list[str]:
    """Return received and written texts, oldest first. A call is one line, without its result unless it failed."""
    failed = {str(block["tool_use_id"]) for block in _blocks(messages, "tool_result") if block.get("is_error")}
    lines: list[str] = []
    for message in messages:
        if message["role"] == "user":
            lines += received_lines(message["content"], name, narrator, shown_elsewhere=(), with_prompts=True)
        else:
            lines += answer_lines([message])
            lines += [_call(call, name, narrator, failed) for call in _blocks([message], "tool_use")]
    return lines


def answer_lines(messages: Sequence[Message]) -> list[str]:
    """Return the lines of the member's answers."""
    texts = [str(block.get("text", "")) for block in _blocks(messages, "text")]
    return [clean(line) for text in texts if text.strip() for line in text.strip("\n").split("\n")]


def _blocks(messages: Sequence[Message], kind: str) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        for block in cast("list[Block]", message["content"]):
            if block.get("type") == kind:
                yield block


def _call(call: Mapping[str, Any], name: str, narrator: Narrator, failed: Collection[str]) -> str:
    room = max(narrator.width, MIN_WIDTH) - NAME_WIDTH - 1
    end = " — failed" if call.get("id") in failed else ""
    said = f"{clean(str(call.get('name', '')))} {one_line(describe_input(call))}".rstrip()
    painted = narrator.name(name) + pad("", max(0, NAME_WIDTH - cell_width(display_name(name))))
    return f"{painted} {cut(said, room - cell_width(end))}{end}"


def received_lines(
    content: Sequence[Block],
    name: str,
    narrator: Narrator,
    *,
    shown_elsewhere: Collection[str] = SENDERS_SHOWN_ELSEWHERE,
    with_prompts: bool = False,
) -> list[str]:
    """Return the lines of received messages with their senders, except those from `shown_elsewhere`.

    With `with_prompts` texts without an envelope are included: prompts of the user or of the agent that started the
    member.
    """
    lines: list[str] = []
    for sender, body in _mail(content, words=with_prompts):
        if sender in shown_elsewhere:
            continue
        head = f"{narrator.name(sender)} → {narrator.name(name)}: "
        room = max(narrator.width, MIN_WIDTH) - 1
        first, *rest = _wrap(body, room - 2, room - cell_width(f"{display_name(sender)} → {display_name(name)}: "))
        lines += [head + first, *(f"  {line}" for line in rest[: MAX_MESSAGE_LINES - 1])]
        if len(rest) >= MAX_MESSAGE_LINES:
            lines.append(narrator.paint("dim", f"  … {len(rest) - MAX_MESSAGE_LINES + 1} more lines"))
    return lines


def _mail(content: Sequence[Block], *, words: bool) -> Iterator[tuple[str, str]]:
    for block in content:
        if block.get("type") == "text":
            text = str(block.get("text", ""))
            for found in _ENVELOPE.finditer(text):
                yield parse_sender(found[1]) or LEAD, _protocol_text(unescape_tags(found[2]))
            bare = _REMINDER.sub("", _ENVELOPE.sub("", text)).strip() if words else ""
            if bare:
                yield LEAD, bare


def _protocol_text(body: str) -> str:
    """Return a protocol message as a text for people; other text is returned unchanged."""
    match parse_protocol(body):
        case ShutdownRequest(reason=reason):
            return f"you may stop{f': {reason}' if reason else ''}"
        case TaskAssignment(task_id=task, subject=subject):
            return f"#{task} is yours: {subject}"
        case IdleNotification() as notice:
            return notice.result or notice.failure_reason or "idle"
        case PlanApprovalResponse(approved=approved, feedback=feedback):
            return "your plan is approved" if approved else f"your plan is not approved: {feedback or 'no reason'}"
        case ModeChangeMessage(mode=mode):
            return f"the mode is {mode}"
        case None:
            return body
        case other:
            return other.TYPE


def _wrap(text: str, room: int, first: int) -> list[str]:
    """Wrap the text; the first line is shorter by the width of its label."""
    lines: list[str] = []
    for part in clean(text).split("\n"):
        indent = "" if lines else " " * max(room - first, 0)
        lines += wrap(part, max(room, MIN_WIDTH), initial_indent=indent, break_long_words=True) or [""]
    return [lines[0].strip(), *lines[1:]]
