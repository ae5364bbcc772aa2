"""Plain sentences for the protocol messages that need no request file: what a model reads instead of their JSON.

Depends on mail and envelopes. The wire format, plans and permissions are left to others. A message whose sender may not
write it is shown as it is.
"""

from __future__ import annotations

from teamwright.protocol.envelope import RuntimeTags, harmless
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.mail import (
    RUNTIME_SENDERS,
    Entry,
    IdleNotification,
    ModeChanged,
    ShutdownApproved,
    ShutdownRejected,
    ShutdownRequest,
    TaskAssignment,
    TaskCompleted,
    TeammateTerminated,
    parse_protocol,
)


def notice_words(reader: str, entry: Entry, tags: RuntimeTags) -> str | None:
    """Return the message as the reader's model is shown it; None for plain text and for messages of other kinds."""
    message = parse_protocol(entry.text)
    if isinstance(message, ShutdownRequest) and entry.sender == LEAD != reader:
        return f"{_shown(entry, _asked_to_stop(message), tags)}\n{tags.reminder(_how_to_answer(message.request_id))}"
    body = _sentence(reader, entry, message)
    return None if body is None else _shown(entry, body, tags)


def _shown(entry: Entry, body: str, tags: RuntimeTags) -> str:
    return tags.entry(entry.with_(text=body, summary=None), plain=entry.sender in RUNTIME_SENDERS)


def _sentence(reader: str, entry: Entry, message: object) -> str | None:
    name = LEAD_ALIAS if entry.sender == LEAD else entry.sender
    match message:
        case IdleNotification():
            return _idle(name, message)
        case TaskAssignment():
            by = name if entry.sender not in RUNTIME_SENDERS else message.assigned_by
            head = f"{LEAD_ALIAS if by == LEAD else by} gave you task #{message.task_id}: {message.subject}"
            return f"{head}\n\n{message.description}".rstrip()
        case TaskCompleted():
            subject = f": {message.task_subject}" if message.task_subject else ""
            return f"{name} completed task #{message.task_id}{subject}"
        case ModeChanged() if entry.sender == LEAD:
            return f"Your permission mode is {message.mode} now."
        case ShutdownApproved() if reader == LEAD:
            return f'{name} agreed to stop (request_id "{message.request_id}").'
        case ShutdownRejected() if reader == LEAD:
            why = f" Its reason: {message.reason}" if message.reason else ""
            return f'{name} objects to its shutdown and continues (request_id "{message.request_id}").{why}'
        case TeammateTerminated() if entry.sender == "system":
            return message.message
        case _:
            return None


def _idle(name: str, notice: IdleNotification) -> str:
    """Return how the turn ended, what the member did in it, and its last text."""
    if notice.failure_reason:
        lines = [f"{name}'s turn failed: {str(notice.failure_reason).rstrip('.')}."]
    elif notice.idle_reason == "interrupted":
        lines = [f"{name}'s turn was interrupted by a person. {name} is idle."]
    else:
        lines = [f"{name} is idle."]
    if notice.completed_task_id:
        lines.append(f"It completed task #{notice.completed_task_id}.")
    if notice.summary:
        lines.append(f"It sent a message in this turn: {notice.summary}")
    if not notice.result:
        return " ".join(lines)
    return f"{' '.join(lines)} {'Its last text' if notice.failure_reason else 'Its report'}:\n\n{notice.result}"


def _asked_to_stop(message: ShutdownRequest) -> str:
    why = f" Reason: {message.reason}" if message.reason else ""
    return f'The lead asks you to stop (shutdown_request, request_id "{message.request_id}").{why}'


def _how_to_answer(id: object) -> str:
    return (
        'Call SendMessage once, to "lead", with one of these as `message`:\n'
        f'- to stop: {{"type": "shutdown_response", "request_id": "{harmless(str(id))}", "approve": true}}\n'
        '- to object because work would be lost: the same with "approve": false and a "reason"'
    )
