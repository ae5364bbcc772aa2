"""JSON results and stream-json lines of a headless run, for programs that read stdout.

Field names are those of similar programs; fields of teams are under `team`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from teamwright.protocol.event_json import to_json
from teamwright.protocol.events import AssistantText, TeamEvent, TextDelta, ToolStarted
from teamwright.protocol.ids import LEAD
from teamwright.session.mcp_status import ServerStatus
from teamwright.session.result import Result, TaskResult

LIMIT_SUBTYPES = {"money": "error_max_budget_usd", "turns": "error_max_turns"}
"""The subtypes of similar programs for caps; other ends that are not done are `error_during_execution`."""

_SERVER_STATUS = {"running": "connected", "failed": "failed"}


def result_object(result: Result) -> dict[str, Any]:
    """Return the object of `--output-format json`, which is also the last line of stream-json."""
    if result.ok:
        subtype = "success"
    elif result.stop == "limit":
        subtype = LIMIT_SUBTYPES.get(result.limit, "error_during_execution")
    else:
        subtype = "error_during_execution"
    return {
        "type": "result",
        "subtype": subtype,
        "is_error": not result.ok,
        "duration_ms": result.duration_ms,
        "duration_api_ms": result.api_ms,
        "num_turns": result.turns,
        "result": result.text,
        "session_id": result.session_id,
        "total_cost_usd": result.usage.usd,
        "usage": result.usage.as_json(),
        "permission_denials": [dict(one) for one in result.denials],
        "team": _team(result),
        "uuid": str(uuid.uuid4()),
    }


def _team(result: Result) -> dict[str, Any]:
    return {
        "name": result.team or None,
        "stop": result.stop,
        "end": result.end or None,
        "limit": result.limit or None,
        "error": None if result.error is None else {"slug": result.error.slug, "what": result.error.what},
        "members": [
            {
                "name": one.name,
                "state": one.state,
                "model": one.model,
                "usage": one.usage.as_json(),
                "cost_usd": one.usage.usd,
                "error": one.error or None,
            }
            for one in result.members
        ],
        "tasks": [_task(task) for task in result.tasks],
        "tasks_done": sum(t.status == "completed" for t in result.tasks),
        "tasks_open": len(result.open_tasks),
        "messages": {
            "sent": result.messages_sent,
            "seen": result.messages_seen,
            "undelivered": result.messages_undelivered,
        },
        "cut_off": list(result.cut_off),
        "resume_command": result.resume_command,
    }


def _task(task: TaskResult) -> dict[str, Any]:
    said = {"id": task.id, "subject": task.subject, "status": task.status, "owner": task.owner}
    return said | ({"unverified": True} if task.unverified else {})


def init_object(
    session_id: str, cwd: str, model: str, mode: str, names: Mapping[str, list[str]], servers: Sequence[ServerStatus]
) -> dict[str, Any]:
    """Return the first line of stream-json. `names` lists tools, commands and agent types by kind."""
    return {
        "type": "system",
        "subtype": "init",
        "cwd": cwd,
        "session_id": session_id,
        **names,
        "mcp_servers": [{"name": one.name, "status": _SERVER_STATUS.get(one.state, "pending")} for one in servers],
        "model": model,
        "permissionMode": mode,
        "uuid": str(uuid.uuid4()),
    }


def control_response(request: Mapping[str, Any], commands: Sequence[str]) -> dict[str, Any]:
    """Return the answer to a `control_request` line of a client: success for `initialize`, else an error.

    `commands` are the names of the session's commands. A client's hooks, agents and skills are refused, because they
    would have no effect.
    """
    details: Mapping[str, Any] = request.get("request") or {}
    subtype = details.get("subtype")
    answer: dict[str, Any] = {"request_id": request.get("request_id")}
    refused = next((name for name in ("hooks", "agents", "skills") if details.get(name)), None)
    if subtype != "initialize":
        answer |= {"subtype": "error", "error": f"the control request {subtype!r} is not supported"}
    elif refused is not None:
        error = f"{refused} of a client are not supported: give them in settings, files or flags"
        answer |= {"subtype": "error", "error": error}
    else:
        described = [{"name": name, "description": "", "argumentHint": ""} for name in commands]
        answer |= {"subtype": "success", "response": {"commands": described, "models": [], "account": {}}}
    return {"type": "control_response", "response": answer}


def event_object(event: TeamEvent, session_id: str) -> dict[str, Any] | None:
    """Return an event as a line of stream-json; None for events that only terminals show."""
    if isinstance(event, TextDelta | ToolStarted):
        return None
    if isinstance(event, AssistantText):
        return _message_object(event, session_id)
    return {"type": "system", "subtype": "team_event", "session_id": session_id, "event": to_json(event)}


def _message_object(event: AssistantText, session_id: str) -> dict[str, Any]:
    role = str(event.message["role"])
    message: dict[str, Any] = {"role": role, "content": list(event.content)}
    if role == "assistant":
        message = {"id": event.id, "type": "message", "model": event.model, **message}
        message |= {"stop_reason": event.stop_reason or None, "stop_sequence": None}
        if event.usage is not None:
            message["usage"] = event.usage.as_json()
    body: Mapping[str, Any] = {
        "type": role,
        "message": message,
        "parent_tool_use_id": event.parent_call,
        "session_id": session_id,
        "uuid": str(uuid.uuid4()),
    }
    return {**body} if event.member == LEAD else {**body, "agent_id": event.agent_id}
