"""Mail: the entry of an inbox, and the union of protocol messages inside its text.

Keys and their order are as observed in the system we interoperate with. A body that is not a protocol message is always
plain text of its sender. Only the runtime creates protocol messages: text of a model that would parse as one is fenced
before it is sent (`fence_protocol`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

_quoted = json.JSONEncoder(ensure_ascii=False).encode
RUNTIME_SENDERS = frozenset({"system", "user", "task-list"})
"""Senders that only the runtime and the user's own commands use: their entries carry a proof."""

_ENTRY_KEYS = ("from", "text", "summary", "timestamp", "color", "msg_id", "read")


class InboxEntry(Struct, frozen=True):
    """One entry of an inbox file. Absent keys are None; a missing `read` means unread.

    `msg_id` is None until the inbox's owner gives an id to another program's entry; ids are never derived from
    content.
    """

    sender: str
    text: str
    summary: str | None = None
    timestamp: str | None = None
    color: str | None = None
    msg_id: str | None = None
    read: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """Return the entry as an object: `from text summary timestamp color <others' keys> msg_id read`.

        `msg_id` and `read` come last and together, so that the flag can be changed in place. The other product's newer
        format (`msgV`) has `type` between them.
        """
        out: dict[str, Any] = {"from": self.sender, "text": self.text}
        for key, value in (("summary", self.summary), ("timestamp", self.timestamp), ("color", self.color)):
            if value is not None:
                out[key] = value
        out |= dict(self.extra)
        if self.msg_id is not None:
            out["msg_id"] = self.msg_id
        if "msgV" in self.extra and "type" in self.extra:
            out["type"] = out.pop("type")  # there `type` is between the two, as observed
        out["read"] = self.read
        return out

    def encode(self) -> bytes:
        """Return the entry on one line of UTF-8 JSON."""
        if self.extra:
            return json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        line = f'{{"from":{_quoted(self.sender)},"text":{_quoted(self.text)}'  # the same, at a third of the cost
        for key in ("summary", "timestamp", "color", "msg_id"):
            value = getattr(self, key)
            if value is not None:
                line += f',"{key}":{_quoted(value)}'
        return f'{line},"read":{"true" if self.read else "false"}}}'.encode("utf-8", "replace")

    def copy_with(self, **changes: Any) -> InboxEntry:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


def parse_entry(data: Mapping[str, Any]) -> InboxEntry:
    """Return an object of an inbox array as an entry. Never raises: a missing sender becomes `undefined`, a `text` that
    is no string becomes its JSON, and other values of a wrong type count as absent."""
    return InboxEntry(
        sender=str(data.get("from", "undefined")),
        text=data["text"] if isinstance(data.get("text"), str) else json.dumps(data.get("text"), ensure_ascii=False),
        summary=_text(data.get("summary")),
        timestamp=_text(data.get("timestamp")),
        color=_text(data.get("color")),
        msg_id=_text(data.get("msg_id")),
        read=data.get("read") is True,
        extra={key: value for key, value in data.items() if key not in _ENTRY_KEYS},
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


# ── protocol messages ────────────────────────────────────────────────────────────────────────────────────────


_KEYS: Mapping[str, str] = {
    "sender": "from",
    "request_id": "requestId",
    "task_id": "taskId",
    "task_subject": "taskSubject",
    "assigned_by": "assignedBy",
    "completed_task_id": "completedTaskId",
    "completed_status": "completedStatus",
    "failure_reason": "failureReason",
    "pane_id": "paneId",
    "backend_type": "backendType",
    "plan_file_path": "planFilePath",
    "plan_content": "planContent",
    "permission_mode": "permissionMode",
    "handed_back": "handedBack",
}
"""Field names that differ from the keys on the wire."""


class _ProtocolMessage(Struct, frozen=True, kw_only=True, tag_field="type", rename=_KEYS, omit_defaults=True):
    """The base of the union. Fields are written in the order of their declaration, `type` first; None means absent."""

    def encode(self) -> str:
        """Return the message as the text of an entry: compact JSON."""
        # Python's JSON also writes lone surrogates, and numbers as the other product does.
        return json.dumps(msgspec.to_builtins(self), ensure_ascii=False, separators=(",", ":"))


class TaskAssignment(_ProtocolMessage, frozen=True, kw_only=True, tag="task_assignment"):
    """A notification of the new owner of a task."""

    task_id: str
    subject: str
    description: str
    assigned_by: str
    timestamp: str


class IdleNotification(_ProtocolMessage, frozen=True, kw_only=True, tag="idle_notification"):
    """A member went from working to idle; once for each change.

    `idle_reason` is available, interrupted or failed; `summary` lists peer mail sent in the turn (`[to bob] …`);
    `result` is the final text when nothing was sent to the lead.
    """

    sender: str
    timestamp: str
    idle_reason: str = field(default_factory=lambda: "available", name="idleReason")  # written in any case
    summary: str | None = None
    completed_task_id: str | None = None
    completed_status: str | None = None
    failure_reason: str | None = None
    result: str | None = None

    @property
    def is_contentless(self) -> bool:
        """True when the notice says only "idle": such a notice never starts a model call."""
        return not (self.result or self.failure_reason or self.summary or self.completed_task_id)

    @property
    def wakes_reader(self) -> bool:
        """True when it may start a model call: only a result or a failure does."""
        return bool(self.result or self.failure_reason)


class ShutdownRequest(_ProtocolMessage, frozen=True, kw_only=True, tag="shutdown_request"):
    """The lead asks a member to end; the member may object within the deadline."""

    request_id: str
    sender: str
    reason: str | None = None
    timestamp: str


class ShutdownApproved(_ProtocolMessage, frozen=True, kw_only=True, tag="shutdown_approved"):
    """The member agrees and ends; `pane_id` and `backend_type` are `in-process` for members of one process."""

    request_id: str
    sender: str
    timestamp: str
    pane_id: str | None = None
    backend_type: str | None = None


class ShutdownRejected(_ProtocolMessage, frozen=True, kw_only=True, tag="shutdown_rejected"):
    """The member objects, with a reason."""

    request_id: str
    sender: str
    reason: str | None = None
    timestamp: str


class PlanApprovalRequest(_ProtocolMessage, frozen=True, kw_only=True, tag="plan_approval_request"):
    """A member submits its plan. A plan that cannot be understood is reported where it is read."""

    sender: str
    timestamp: str
    plan_file_path: str
    plan_content: str
    request_id: Any


class PlanApprovalResponse(_ProtocolMessage, frozen=True, kw_only=True, tag="plan_approval_response"):
    """The answer to a plan."""

    request_id: str
    approved: bool
    feedback: str | None = None
    timestamp: str
    permission_mode: str | None = None


class PermissionRequest(_ProtocolMessage, frozen=True, kw_only=True, tag="permission_request", rename={}):
    """A member asks to run a tool call. What it asks about is checked where it is answered: a request that cannot be
    understood is denied, so its sender does not wait for ever.
    """

    request_id: str
    agent_id: str
    tool_name: Any
    tool_use_id: str
    description: Any
    input: Any
    permission_suggestions: Any


class PermissionResponse(_ProtocolMessage, frozen=True, kw_only=True, tag="permission_response", rename={}):
    """The answer: `subtype` success with `response` {updated_input, permission_updates}, or error with `error`."""

    request_id: str
    subtype: str
    response: dict[str, Any] | None = None
    error: str | None = None


class TaskCompleted(_ProtocolMessage, frozen=True, kw_only=True, tag="task_completed"):
    """A member reports that a task is done."""

    sender: str
    task_id: str
    task_subject: str | None = None
    timestamp: str


class ModeChangeMessage(_ProtocolMessage, frozen=True, kw_only=True, tag="mode_changed"):
    """The lead changed a member's permission mode (a message of Teamwright, not of the other product)."""

    sender: str
    mode: str
    timestamp: str


class TeammateTerminated(_ProtocolMessage, frozen=True, kw_only=True, tag="teammate_terminated"):
    """A member is gone; `system` notifies the lead, a member never writes it."""

    name: str
    cause: str
    message: str
    handed_back: list[str] | None = None


ProtocolMessage: TypeAlias = (
    TaskAssignment
    | IdleNotification
    | ShutdownRequest
    | ShutdownApproved
    | ShutdownRejected
    | PlanApprovalRequest
    | PlanApprovalResponse
    | PermissionRequest
    | PermissionResponse
    | TaskCompleted
    | ModeChangeMessage
    | TeammateTerminated
)
"""Every protocol message; `match` on it."""


def wire_type(message: ProtocolMessage | type[ProtocolMessage]) -> str:
    """Return the `type` of a message, or of all messages of a class."""
    return str(message.__struct_config__.tag)


def parse_protocol(text: str) -> ProtocolMessage | None:
    """Return the protocol message in an entry's text; None for plain text of its sender."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return msgspec.convert(json.loads(text), ProtocolMessage)
    except (ValueError, RecursionError):
        return None


def is_contentless(text: str) -> bool:
    """Return True when the text can wait for the next delivery and starts no model call."""
    message = parse_protocol(text)
    return isinstance(message, ModeChangeMessage) or (isinstance(message, IdleNotification) and message.is_contentless)


def looks_like_protocol(text: str) -> bool:
    """Return True when any reader, also of another product, could take the text for a protocol message."""
    stripped = text.strip()
    if not stripped.startswith("{"):
        return False
    try:
        data = json.loads(stripped)
    except RecursionError:
        return True  # too deep for this parser, perhaps not for another reader
    except ValueError:
        return False
    return isinstance(data, dict) and "type" in data


def fence_protocol(text: str) -> str:
    """Return the text as it may be sent: a body that reads like a protocol message becomes a quoted block of code."""
    return f"(quoted text)\n```json\n{text.strip()}\n```" if looks_like_protocol(text) else text
