"""Classes that describe a member, a pending request or an answer: each is listed, with what it is for.

They are found by their fields. A new one has to be one of these, or gets a reason here.
"""

from __future__ import annotations

import ast

from tests.structure.source import modules

MEMBER = {
    "RosterMember": "its entry in config.json",
    "Teammate": "the running member, with its operations",
    "MemberStatus": "what any view shows of it; folded from events, completed from files",
    "MemberResult": "its line in the result of a run",
}
"""Shapes of a member."""

START = {
    "AgentType": "a definition, from which agents start",
    "SpawnOptions": "the keyword arguments of a start in Python",
    "SpawnSpec": "the order to start an agent",
    "MemberFlags": "the command line of a member process",
    "Incarnation": "one start, in team.json",
    "MemberChanged": "the event of a change",
}
"""Classes with fields of a member that describe a start or a change."""

REQUEST = {
    "Question": "what an agent asks its approver; it has no id and no file",
    "PendingRequest": "what its file, the state of the log and every view say of it",
    "RequestOpened": "its event",
}
"""Shapes of a pending request."""

ANSWER = {
    "RequestAnswer": "an approver's answer: in its file, through the event, from the lead",
    "PermissionAnswer": "the checked answer that an agent continues with, also to a plan: its grants are parsed",
    "RequestClosed": "its event",
}
"""Shapes of an answer to a pending request."""

OTHER = {
    "SkippedInstruction": "a file that is no instruction",
    "PlanOutcome": "what a submission returns to ExitPlanMode",
    "AnswerOutcome": "what became of an answer from another process",
    "PermissionReply": "the output of a hook",
    "Decision": "a verdict of the rules, before anybody is asked",
    "PlanApprovalResponse": "a message of the wire format",
    "StructuredMessage": "the input of a tool",
    "PartVerdict": "a part of the line that `permissions check` explains",
    "CallVerdict": "the call that `permissions check` explains",
}
"""Classes with such fields that describe something else."""

_MEMBER_FIELDS = frozenset(
    [
        *("state", "agent_type", "agent_id", "model", "mode", "effort", "color", "incarnation", "turn", "turns"),
        *("usage", "unread", "backend", "backend_type", "place", "joined_at", "is_active", "plan_mode_required"),
    ]
)
_REQUEST_FIELDS = frozenset(
    [
        *("kind", "tool", "tool_name", "tool_use_id", "what", "rule", "always", "options", "deadline", "suggestions"),
        *("owner", "asker", "requester", "request_id", "plan_content"),
    ]
)
_VERDICT_FIELDS = frozenset(["verdict", "approve", "approved", "allowed"])
_REASON_FIELDS = frozenset(["by", "text", "reason", "feedback", "always", "updates", "mode", "message", "error"])
_LEAST = 4
"""The number of such fields that makes a class a shape of a member or a request."""


def member_shapes() -> set[str]:
    """Return the classes with the fields of a member."""
    return {name for name, fields in _fields().items() if len(fields & _MEMBER_FIELDS) >= _LEAST}


def request_shapes() -> set[str]:
    """Return the classes with the fields of a pending request."""
    return {name for name, fields in _fields().items() if len(fields & _REQUEST_FIELDS) >= _LEAST}


def answer_shapes() -> set[str]:
    """Return the classes with the fields of an answer."""
    return {name for name, fields in _fields().items() if fields & _VERDICT_FIELDS and fields & _REASON_FIELDS}


def _fields() -> dict[str, set[str]]:
    return {
        node.name: {
            field.target.id
            for field in node.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        }
        for module in modules()
        for node in module.classes()
    }
