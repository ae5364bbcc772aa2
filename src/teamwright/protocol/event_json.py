"""Events as JSON objects, as the log contains them: one object for each kind, unknown keys ignored.

Depends on the union of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teamwright.protocol.events import (
    LIVE,
    Compacted,
    FileMark,
    HookEnded,
    IntegrationChanged,
    LimitReached,
    MemberChanged,
    MessageDelivered,
    MessageSent,
    ModeChanged,
    ModelCallEnded,
    ModelChanged,
    Notice,
    Progress,
    Reloaded,
    RequestClosed,
    RequestOpened,
    RunEnded,
    SandboxRefused,
    SessionOpened,
    SideCallEnded,
    SubagentChanged,
    TaskChanged,
    TaskInfo,
    TeamChanged,
    TeamEvent,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.members import parse_state
from teamwright.protocol.task import IntegrationState
from teamwright.protocol.usage import Usage

SCHEMA = 2
"""The version of the event log's lines. Lines of version 1 are read too."""

_KINDS_OF_VERSION_1 = {
    "round_ended": "model_call_ended",
    "message_seen": "message_delivered",
    "agent_changed": "subagent_changed",
    "underway": "progress",
}
"""The kind of an event by its name in version 1."""

_LOGGED: dict[str, type[TeamEvent]] = {
    cls.KIND: cls
    for cls in (
        ToolCalled,
        ModelCallEnded,
        SideCallEnded,
        HookEnded,
        TurnEnded,
        MessageSent,
        MessageDelivered,
        TaskChanged,
        IntegrationChanged,
        MemberChanged,
        SubagentChanged,
        ModeChanged,
        ModelChanged,
        Reloaded,
        Compacted,
        Progress,
        TeamChanged,
        SessionOpened,
        RequestOpened,
        RequestClosed,
        SandboxRefused,
        LimitReached,
        Notice,
        RunEnded,
    )
}


_LIVE: dict[str, type[TeamEvent]] = {cls.KIND: cls for cls in LIVE}


def to_json(event: TeamEvent) -> dict[str, Any]:
    """Return the event as an object: `type`, `at`, `member`, its other fields, and `origin` if it is set."""
    return event.as_json()


_TASK_FIELDS = TaskInfo.__struct_fields__


def live_from_json(data: Mapping[str, Any]) -> TeamEvent | None:
    """Return the event that `to_json` encoded; None for any other object."""
    cls = _LIVE.get(str(data.get("type")))
    if cls is None:
        return None
    names = frozenset(cls.__struct_fields__)
    values = {key: value for key, value in data.items() if key in names}
    if isinstance(values.get("usage"), dict):
        values["usage"] = usage_from_json(values["usage"])
    try:
        return cls(**values)
    except TypeError:
        return None


def from_json(data: Mapping[str, Any]) -> TeamEvent | None:
    """Return the event of a log line; None for an unknown kind, and for an object without the kind's fields."""
    if data.get("v") == 1:
        data = _from_version_1(data)
    cls = _LOGGED.get(str(data.get("type")))
    if cls is None:
        return None
    known = frozenset(cls.__struct_fields__) - {"responder", "facts"}
    values = {key: value for key, value in data.items() if key in known}
    if isinstance(values.get("usage"), dict):
        values["usage"] = usage_from_json(values["usage"])
    if cls is MemberChanged and "state" in values:
        values["state"] = parse_state(values["state"])
    if "file" in values:
        values["file"] = _parse_file_mark(values["file"])
    try:
        if cls is TaskChanged:
            values["task"] = _parse_task_info(values["task"])
        elif cls is IntegrationChanged:
            values["state"] = _parse_integration(values["state"])
        for key in _TUPLES & values.keys():
            values[key] = tuple(values[key])
        return cls(**values)
    except (KeyError, TypeError):
        return None


_TUPLES = frozenset({"message_ids", "options", "suggestions", "changed", "members", "refused", "paths"})
"""Fields that are lists in JSON."""


def _parse_task_info(data: Mapping[str, Any]) -> TaskInfo:
    """Return the task of an event; unknown keys are ignored. Raises TypeError when a required one is missing."""
    values = {name: data[name] for name in _TASK_FIELDS if name in data}
    values["blocked_by"] = tuple(values.get("blocked_by", ()))
    values["writes"] = tuple(values.get("writes", ()))
    if "integration" in values:
        values["integration"] = _parse_integration(values["integration"])
    return TaskInfo(**values)


def _parse_integration(value: object) -> IntegrationState:
    """Return the state. Raises TypeError for an unknown one."""
    if value not in tuple(IntegrationState):
        raise TypeError(f"{value!r} is not a state of an integration")
    return IntegrationState(str(value))


def _from_version_1(data: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = str(data.get("type"))
    event = {**data, "type": _KINDS_OF_VERSION_1.get(kind, kind)}
    if "life" in data:
        event["incarnation"] = data["life"]
    if kind == "round_ended" and isinstance(ms := data.get("ms"), int | float):
        event["seconds"] = ms / 1000
    return event


def _parse_file_mark(data: Any) -> FileMark | None:
    try:
        return FileMark(name=str(data["name"]), size=int(data["size"]), mtime_ns=int(data["mtime_ns"]))
    except (KeyError, TypeError, ValueError):
        return None


def usage_to_json(usage: Usage) -> dict[str, Any]:
    """Return a usage with its requests and its money, as the log contains it."""
    return usage.as_priced_json()


def usage_from_json(data: Mapping[str, Any]) -> Usage:
    """Return the usage that `usage_to_json` encoded."""
    return Usage(
        input_tokens=data.get("input_tokens", 0),
        output_tokens=data.get("output_tokens", 0),
        cache_read=data.get("cache_read_input_tokens", 0),
        cache_write=data.get("cache_creation_input_tokens", 0),
        requests=data.get("requests", 0),
        usd=data.get("usd"),
    )
