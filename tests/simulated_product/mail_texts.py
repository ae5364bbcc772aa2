"""What the other product puts inside mail, and how its models read mail. Key order is the observed one."""

import random
import string
from typing import Any
from xml.sax.saxutils import escape

from simulated_product.disk import compact, now_ms, stamp

LEAD = "team-lead"


def idle(name: str, *, peer: str = "", result: str | None = None) -> str:
    body: dict[str, Any] = {"type": "idle_notification", "from": name, "timestamp": stamp(now_ms())}
    body["idleReason"] = "available"
    if peer:
        body["summary"] = peer
    if result is not None:
        body["result"] = result
    return compact(body)


def assignment(task: dict[str, Any], by: str) -> str:
    body = {"type": "task_assignment", "taskId": task["id"], "subject": task["subject"]}
    return compact(body | {"description": task["description"], "assignedBy": by, "timestamp": stamp(now_ms())})


def shutdown_request(id: str, sender: str, reason: str | None) -> str:
    body = {"type": "shutdown_request", "requestId": id, "from": sender}
    return compact(body | ({"reason": reason} if reason else {}) | {"timestamp": stamp(now_ms())})


def shutdown_approved(id: str, name: str, entry: dict[str, Any] | None) -> str:
    """Pane and backend are those of its roster entry, absent when that is gone."""
    body: dict[str, Any] = {"type": "shutdown_approved", "requestId": id, "from": name, "timestamp": stamp(now_ms())}
    if entry is not None:
        body |= {"paneId": entry.get("tmuxPaneId"), "backendType": entry.get("backendType")}
    return compact(body)


def shutdown_rejected(id: str, name: str, reason: str) -> str:
    body = {"type": "shutdown_rejected", "requestId": id, "from": name, "reason": reason}
    return compact(body | {"timestamp": stamp(now_ms())})


def plan_request(name: str, path: str, plan: str, id: str, at: str) -> str:
    body = {"type": "plan_approval_request", "from": name, "timestamp": at}
    return compact(body | {"planFilePath": path, "planContent": plan, "requestId": id})


def plan_response(id: str, *, approved: bool, feedback: str = "", mode: str = "") -> str:
    body: dict[str, Any] = {"type": "plan_approval_response", "requestId": id, "approved": approved}
    if not approved:
        body["feedback"] = feedback or "Plan needs revision"
    body["timestamp"] = stamp(now_ms())
    if approved and mode:
        body["permissionMode"] = mode
    return compact(body)


def permission_request(id: str, name: str, call: dict[str, Any], description: str, suggestions: list[Any]) -> str:
    body: dict[str, Any] = {"type": "permission_request", "request_id": id, "agent_id": name}
    body |= {"tool_name": call["tool"], "tool_use_id": call["id"], "description": description}
    return compact(body | {"input": call["input"], "permission_suggestions": suggestions})


def permission_allowed(id: str, input_: dict[str, Any], updates: list[Any]) -> str:
    response = {"updated_input": input_, "permission_updates": updates}
    return compact({"type": "permission_response", "request_id": id, "subtype": "success", "response": response})


def permission_denied(id: str, error: str) -> str:
    return compact({"type": "permission_response", "request_id": id, "subtype": "error", "error": error})


def permission_id() -> str:
    return f"perm-{now_ms()}-{''.join(random.choices(string.ascii_lowercase + string.digits, k=7))}"


def rendered(entry: dict[str, Any], body: dict[str, Any], *, newer: bool, verifying: bool) -> str:
    """An entry as the model reads it; `body` is what its text says as JSON, empty for plain text."""
    text = entry.get("text", "")
    if newer and body.get("type") == "plan_approval_response" and body.get("approved") is False:
        text = f"[Plan Rejected] {body.get('feedback', '')}"
    named = {"teammate_id": entry.get("from", "undefined")}
    named |= {key: entry[key] for key in ("color", "summary") if entry.get(key)}
    if newer and verifying and named["teammate_id"] == LEAD and not entry.get("lead_sig"):
        named["verified"] = "false"
    quoted = {key: escape(str(value), {'"': "&quot;"}) if newer else value for key, value in named.items()}
    attributes = " ".join(f'{key}="{value}"' for key, value in quoted.items())
    return f"<teammate-message {attributes}>\n{text}\n</teammate-message>"
