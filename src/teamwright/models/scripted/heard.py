"""What a conversation tells a scripted model: texts with their senders, and the results of its calls.

Reads the envelopes of `protocol.envelope` back into sender and unescaped body, so that a script's patterns see
what was written, not how it was wrapped. Text outside of envelopes is the user's or the runtime's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from teamwright.protocol.blocks import Block, text_of
from teamwright.protocol.envelope import MESSAGE, PEER_NOTE, REMINDER, SHOWN_MESSAGE, restored, sender_shown
from teamwright.protocol.values import dataclass

TASK_LIST = "task-list"
"""The sender of claimed tasks."""

_ENVELOPE = re.compile(rf"(?:{re.escape(PEER_NOTE)}\n)?{SHOWN_MESSAGE}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Note:
    """A text that an agent was told. `sender` is a name, `user`, or `system` for reminders of the runtime."""

    sender: str
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a tool call, as text."""

    call_id: str
    text: str
    is_error: bool


def heard(content: str | Iterable[Block]) -> tuple[list[Note], list[Outcome]]:
    """The texts and results of one user message, in order."""
    if isinstance(content, str):
        return _notes(content), []
    notes: list[Note] = []
    outcomes: list[Outcome] = []
    for block in content:
        kind = block.get("type")
        if kind == "text":
            notes += _notes(block["text"])
        elif kind == "tool_result":
            body = block.get("content") or ""
            text = body if isinstance(body, str) else text_of(body)
            outcomes.append(Outcome(block["tool_use_id"], text, bool(block.get("is_error"))))
    return notes, outcomes


def _notes(text: str) -> list[Note]:
    if f"<{MESSAGE} " not in text:
        return _plain(text)
    notes: list[Note] = []
    at = 0
    for found in _ENVELOPE.finditer(text):
        notes += _plain(text[at : found.start()])
        notes.append(Note(sender_shown(found[1]), restored(found[2])))
        at = found.end()
    return notes + _plain(text[at:])


def _plain(text: str) -> list[Note]:
    text = text.strip()
    if not text:
        return []
    return [Note("system" if text.startswith(f"<{REMINDER}") else "user", text)]
