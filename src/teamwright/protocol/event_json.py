"""Events as the log writes them, and back: an object a kind, unknown keys passed over.

Below it: the union of events. Refuses to know files and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, cast

from teamwright.protocol.events import (
    LIVE,
    AssistantText,
    Compacted,
    FileMark,
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
    SessionOpened,
    SubagentChanged,
    TaskChanged,
    TaskInfo,
    TeamChanged,
    TeamEvent,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.usage import Usage

SCHEMA = 1
"""Version of the event log's lines."""

_NOT_LOGGED = frozenset({"at", "responder", "facts", "origin"})
"""Fields that `to_json` writes first by itself, or that only live surfaces get."""

_LOGGED: dict[str, type[TeamEvent]] = {
    cls.KIND: cls
    for cls in (
        ToolCalled,
        ModelCallEnded,
        TurnEnded,
        MessageSent,
        MessageDelivered,
        TaskChanged,
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
        LimitReached,
        Notice,
        RunEnded,
    )
}


_LIVE: dict[str, type[TeamEvent]] = {cls.KIND: cls for cls in LIVE}


def to_json(event: TeamEvent) -> dict[str, Any]:
    """The event as an object: `type`, `at`, `member`, then its own fields."""
    out: dict[str, Any] = {"type": event.KIND, "at": round(event.at, 3)}
    names, values = _own_fields(type(event))
    out.update(zip(names, values(event), strict=True))
    if event.origin:
        out["origin"] = event.origin
    if isinstance(event, ModelCallEnded | RunEnded):
        out["usage"] = usage_to_json(event.usage)
        for name in _OPTIONAL_FIELDS:
            if out.get(name) in {"", 0}:
                del out[name]
    elif isinstance(event, TaskChanged | MessageSent):
        mark = event.file
        if mark is None:
            del out["file"]
        else:
            out["file"] = {"name": mark.name, "size": mark.size, "mtime_ns": mark.mtime_ns}
        if isinstance(event, TaskChanged):
            out["task"] = {name: getattr(event.task, name) for name in _TASK_FIELDS}
            if event.task.budget is None:
                del out["task"]["budget"]
    return out


_OPTIONAL_FIELDS = ("caller", "task", "aside", "counted", "ms")
"""Fields of a round that are written only where they say something."""

_TASK_FIELDS = tuple(item.name for item in fields(TaskInfo))


@cache
def _own_fields(kind: type[TeamEvent]) -> tuple[tuple[str, ...], Callable[[TeamEvent], tuple[Any, ...]]]:
    """What a kind of event writes behind `type` and `at`: the names, `member` first, and how to get their values."""
    names = tuple(item.name for item in fields(kind) if item.name not in _NOT_LOGGED)
    return names, cast("Callable[[TeamEvent], tuple[Any, ...]]", attrgetter(*names))


def live_to_json(event: TeamEvent) -> dict[str, Any]:
    """A live event as an object, for another process of the session."""
    out = to_json(event)
    if isinstance(event, AssistantText) and event.usage is not None:
        out["usage"] = usage_to_json(event.usage)
    return out


def live_from_json(data: Mapping[str, Any]) -> TeamEvent | None:
    """What `live_to_json` made, or None for what is none."""
    cls = _LIVE.get(str(data.get("type")))
    if cls is None:
        return None
    names = {item.name for item in fields(cls)}
    values = {key: value for key, value in data.items() if key in names}
    if isinstance(values.get("usage"), dict):
        values["usage"] = usage_from_json(values["usage"])
    try:
        return cls(**values)
    except TypeError:
        return None


def from_json(data: Mapping[str, Any]) -> TeamEvent | None:
    """The event of a log line, or None for a kind that this version does not know."""
    cls = _LOGGED.get(str(data.get("type")))
    if cls is None:
        return None
    known = {f.name for f in fields(cls)} - {"responder", "facts"}
    values = {key: value for key, value in data.items() if key in known}
    if isinstance(values.get("usage"), dict):
        values["usage"] = usage_from_json(values["usage"])
    if isinstance(values.get("task"), dict):
        task = cast("dict[str, Any]", values["task"])
        task["blocked_by"] = tuple(task.get("blocked_by", ()))
        values["task"] = TaskInfo(**task)
    if "file" in values:
        values["file"] = _parse_file_mark(values["file"])
    for key in ("message_ids", "options", "suggestions", "changed", "members"):
        if key in values:
            values[key] = tuple(values[key])
    try:
        return cls(**values)
    except TypeError:
        return None


def _parse_file_mark(data: Any) -> FileMark | None:
    try:
        return FileMark(name=str(data["name"]), size=int(data["size"]), mtime_ns=int(data["mtime_ns"]))
    except (KeyError, TypeError, ValueError):
        return None


def usage_to_json(usage: Usage) -> dict[str, Any]:
    """A usage with its requests and its money, as the log writes it."""
    return {**usage.as_json(), "requests": usage.requests, "usd": usage.usd}


def usage_from_json(data: Mapping[str, Any]) -> Usage:
    """What `usage_to_json` wrote."""
    return Usage(
        input_tokens=data.get("input_tokens", 0),
        output_tokens=data.get("output_tokens", 0),
        cache_read=data.get("cache_read_input_tokens", 0),
        cache_write=data.get("cache_creation_input_tokens", 0),
        requests=data.get("requests", 0),
        usd=data.get("usd"),
    )
