"""The hooks that settings name, by event: which of them an event runs.

Reads the ecosystem's form: events, groups with a matcher, hooks of type `command`. Whatever of it we cannot run is
said with its file and is never run by half. Knows no process; whether a hook is trusted is decided above.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

TIMEOUT_S = 60.0
"""How long a hook may run that does not say."""

END_TIMEOUT_S = 5.0
"""The same for `SessionEnd`, which keeps a person at the prompt waiting."""

LONGEST_S = 3_600.0

SESSION_START, SESSION_END = "SessionStart", "SessionEnd"
PROMPT = "UserPromptSubmit"
PRE_TOOL, POST_TOOL, PERMISSION = "PreToolUse", "PostToolUse", "PermissionRequest"
TOOL_FAILURE = "PostToolUseFailure"
STOP, SUBAGENT_START, SUBAGENT_STOP = "Stop", "SubagentStart", "SubagentStop"
TEAMMATE_IDLE, TASK_CREATED, TASK_COMPLETED = "TeammateIdle", "TaskCreated", "TaskCompleted"
PRE_COMPACT, POST_COMPACT, NOTIFICATION = "PreCompact", "PostCompact", "Notification"

EVENTS: Mapping[str, str] = {
    SESSION_START: "source",
    SESSION_END: "reason",
    PROMPT: "",
    PRE_TOOL: "tool_name",
    POST_TOOL: "tool_name",
    TOOL_FAILURE: "tool_name",
    PERMISSION: "tool_name",
    STOP: "",
    SUBAGENT_START: "agent_type",
    SUBAGENT_STOP: "agent_type",
    TEAMMATE_IDLE: "",
    TASK_CREATED: "",
    TASK_COMPLETED: "",
    PRE_COMPACT: "trigger",
    POST_COMPACT: "trigger",
    NOTIFICATION: "notification_type",
}
"""Every event, with the payload's key that matchers look at; empty: a matcher has no effect."""

_PLAIN = re.compile(r"[\w\- |]*")
_UNDERSTOOD = frozenset({"type", "command", "timeout", "async", "statusMessage", "description", "name"})


Function: TypeAlias = Callable[[Mapping[str, Any]], object]
"""A hook of the program itself: it gets the payload and returns what a command would print as JSON, or None.

It may be a coroutine function. It must not change the payload.
"""


@dataclass(frozen=True, slots=True)
class Hook:
    """One command, or one function of the program, at one event. `timeout_s` in seconds; `source` is the file.

    `detached`: nobody waits for it, and what it says counts for nothing. A function has its name for a command.
    """

    event: str
    matcher: str
    command: str
    timeout_s: float = TIMEOUT_S
    source: str = ""
    detached: bool = False
    function: Function | None = None


Matches: TypeAlias = Callable[[str], bool]


def matcher_of(text: str) -> Matches:
    """What a matcher lets through: everything (`*` or empty), names (`Edit|Write`), else a regular expression.

    Names match whole, an expression anywhere. Raises ValueError for an expression that is none.
    """
    if text in {"", "*"}:
        return lambda _: True
    if _PLAIN.fullmatch(text):
        names = frozenset(part.strip() for part in text.split("|"))
        return names.__contains__
    try:
        found = re.compile(text).search
    except (re.error, OverflowError, RecursionError) as problem:
        raise ValueError(str(problem)) from None
    return lambda name: found(name) is not None


def parse_hooks(value: object, source: str) -> tuple[list[Hook], list[str]]:
    """The hooks of one settings file, in their order, and a line for each that cannot be used. Never raises."""
    hooks: list[Hook] = []
    warnings: list[str] = []
    for event, groups in _object(value).items():
        if event not in EVENTS:
            warnings.append(f"{source}: hooks of the event {event[:60]} are not supported")
            continue
        for group in _list(groups, warnings, f"{source}: hooks.{event}"):
            _group(event, group, source, hooks, warnings)
    if value is not None and not isinstance(value, dict):
        warnings.append(f"{source}: hooks is not an object")
    return hooks, warnings


def _group(event: str, group: Mapping[str, Any], source: str, hooks: list[Hook], warnings: list[str]) -> None:
    matcher = group.get("matcher", "")
    where = f"{source}: a hook of {event}"
    if not isinstance(matcher, str):
        warnings.append(f"{where} is left out: its matcher is not a text")
        return
    try:
        matcher_of(matcher)
    except ValueError as problem:
        warnings.append(f"{where} is left out: its matcher {matcher[:60]!r} is no regular expression: {problem}")
        return
    for hook in _list(group.get("hooks"), warnings, f"{where}: hooks"):
        made = _hook(event, matcher, hook, source)
        if isinstance(made, str):
            warnings.append(f"{where} is left out: {made}")
        else:
            hooks.append(made)


def _hook(event: str, matcher: str, hook: Mapping[str, Any], source: str) -> Hook | str:
    kind, command = hook.get("type", "command"), hook.get("command")
    if kind != "command":
        return f"the type {str(kind)[:40]!r} is not supported"
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        return "it has no command"
    strange = sorted(set(hook) - _UNDERSTOOD)
    if strange:
        # Run without its condition it would run too often: a hook that refuses would refuse everything.
        return f"{strange[0][:40]!r} is not supported"
    timeout = hook.get("timeout", END_TIMEOUT_S if event == SESSION_END else TIMEOUT_S)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        return "its timeout is not a number of seconds"
    return Hook(event, matcher, command, min(float(timeout), LONGEST_S), source, hook.get("async") is True)


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object, warnings: list[str], where: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        warnings.append(f"{where} is not a list")
        return []
    parts = cast("list[Any]", value)
    if any(not isinstance(part, dict) for part in parts):
        warnings.append(f"{where} holds something that is not an object")
    return [cast("dict[str, Any]", part) for part in parts if isinstance(part, dict)]


class HookBook:
    """The hooks of a session. An event that no hook is for costs a look into a dict."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self.hooks = tuple(hooks)
        self._by_event: dict[str, list[tuple[Matches, Hook]]] = {}
        for hook in self.hooks:
            self._by_event.setdefault(hook.event, []).append((matcher_of(hook.matcher), hook))
        self._found: dict[tuple[str, tuple[str, ...]], tuple[Hook, ...]] = {}

    def has(self, *events: str) -> bool:
        """Whether any hook is for one of these events, whatever its matcher."""
        return any(event in self._by_event for event in events)

    def matching(self, event: str, subjects: tuple[str, ...] = ("",)) -> tuple[Hook, ...]:
        """The hooks of an event that concern one of these names (a tool's name and aliases); a command once."""
        among = self._by_event.get(event)
        if among is None:
            return ()
        key = event, subjects
        found = self._found.get(key)
        if found is None:
            every = not EVENTS[event]
            matching = [hook for fits, hook in among if every or any(map(fits, subjects))]
            once: dict[object, Hook] = {}
            for hook in matching:
                once.setdefault(hook.function or hook.command, hook)
            found = tuple(once.values())
            if len(self._found) < 1_000:
                self._found[key] = found
        return found
