"""Protocol messages and values of calls as texts for people, without their JSON.

Depends on the protocol's types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from teamwright.protocol.mail import (
    IdleNotification,
    ModeChangeMessage,
    PermissionRequest,
    PermissionResponse,
    PlanApprovalRequest,
    PlanApprovalResponse,
    ProtocolMessage,
    ShutdownApproved,
    ShutdownRejected,
    ShutdownRequest,
    TaskAssignment,
    TaskCompleted,
    parse_protocol,
    wire_type,
)


def message_words(body: str) -> str:
    """Return a protocol message as a text for people; other text is returned unchanged."""
    message = parse_protocol(body)
    return body if message is None else _words(message)


def _words(message: ProtocolMessage) -> str:
    match message:
        case IdleNotification():
            return message.result or message.failure_reason or message.summary or "idle"
        case TaskAssignment(task_id=task, subject=subject):
            return f"#{task} is yours: {subject}"
        case TaskCompleted(task_id=task, task_subject=subject):
            return f"#{task} is completed{_reason(subject)}"
        case ShutdownRequest(reason=reason):
            return f"you may stop{_reason(reason)}"
        case ShutdownApproved():
            return "agrees to stop"
        case ShutdownRejected(reason=reason):
            return f"does not stop yet{_reason(reason)}"
        case ModeChangeMessage(mode=mode):
            return f"the mode is {mode}"
        case _:
            return _words_of_request(message)


def _words_of_request(message: ProtocolMessage) -> str:
    match message:
        case PlanApprovalRequest(plan_content=plan):
            return f"asks for approval of its plan:\n{plan}"
        case PlanApprovalResponse(approved=approved, feedback=feedback):
            return "your plan is approved" if approved else f"your plan is not approved: {feedback or 'no reason'}"
        case PermissionRequest(tool_name=tool, description=about):
            return f"asks for permission: {tool} {about}".rstrip()
        case PermissionResponse(subtype=subtype, error=error):
            return "the permission is given" if subtype == "success" else f"the permission is refused{_reason(error)}"
        case _:
            return getattr(message, "message", wire_type(message))


def _reason(text: str | None) -> str:
    return f": {text}" if text else ""


def value_lines(value: object) -> list[str]:
    """Return an object as lines `name: value`, parts further right; a text as its lines."""
    return list(_lines(value, ""))


def _lines(value: object, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, part in cast("Mapping[str, Any]", value).items():
            yield from _named_lines(f"{indent}{name}:", part, indent)
    elif isinstance(value, list | tuple):
        for part in cast("Sequence[object]", value):
            yield from _named_lines(f"{indent}-", part, indent)
    else:
        yield from (f"{indent}{line}" for line in _scalar(value).split("\n"))


def _named_lines(head: str, part: object, indent: str) -> Iterator[str]:
    if part and _is_large(part):
        yield head
        yield from _lines(part, f"{indent}  ")
    else:
        yield f"{head} {_scalar(part)}".rstrip()


def _is_large(part: object) -> bool:
    return isinstance(part, Mapping | list | tuple) or (isinstance(part, str) and "\n" in part)


def _scalar(value: object) -> str:
    match value:
        case None | {} | [] | ():
            return "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


def input_lines(tool_input: Mapping[str, Any]) -> list[str]:
    """Return the input of a call: the command of a shell, else each parameter with its value."""
    command = tool_input.get("command")
    return command.split("\n") if isinstance(command, str) else value_lines(tool_input)


def output_lines(output: str) -> list[str]:
    """Return the output of a call: an object as its values, any other text as its lines."""
    if output.startswith("{"):
        with suppress(ValueError, RecursionError):
            return value_lines(json.loads(output))
    return output.rstrip("\n").split("\n")
