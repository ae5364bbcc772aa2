"""The hooks of settings files, by event.

Reads the ecosystem's form: events, groups with a matcher, hooks of five types. An unsupported hook is reported with
its file and never runs in part. Leaves trust, processes and requests to others.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.hooks.hook_actions import (
    ACTION_TYPES,
    PROMPT_TIMEOUT_S,
    HookAction,
    ModelQuestion,
    action_keys,
    parse_action,
)
from teamwright.protocol.ids import is_label, is_typo, nearest

TIMEOUT_S = 60.0
"""Seconds that a hook without a timeout may run."""

END_TIMEOUT_S = 5.0
"""The same for `SessionEnd`, during which a person waits at the prompt."""

MAX_TIMEOUT_S = 3_600.0

SESSION_START, SESSION_END = "SessionStart", "SessionEnd"
USER_PROMPT = "UserPromptSubmit"
PRE_TOOL, POST_TOOL, PERMISSION = "PreToolUse", "PostToolUse", "PermissionRequest"
TOOL_FAILURE = "PostToolUseFailure"
STOP, SUBAGENT_START, SUBAGENT_STOP = "Stop", "SubagentStart", "SubagentStop"
TEAMMATE_IDLE, TASK_CREATED, TASK_COMPLETED = "TeammateIdle", "TaskCreated", "TaskCompleted"
PRE_COMPACT, POST_COMPACT, NOTIFICATION = "PreCompact", "PostCompact", "Notification"
SETUP = "Setup"

ENV_FILE_VARIABLE = "CLAUDE_ENV_FILE"
"""The variable with the path of the file in which a hook sets variables for later commands."""

ENV_FILE_EVENTS = frozenset({SESSION_START, SETUP})
"""The events whose hooks may set variables."""

STOP_FAILURE, TOOL_BATCH, EXPANSION = "StopFailure", "PostToolBatch", "UserPromptExpansion"
ELICITATION, ELICITATION_RESULT = "Elicitation", "ElicitationResult"
WORKTREE_CREATE, WORKTREE_REMOVE = "WorktreeCreate", "WorktreeRemove"

EVENTS: Mapping[str, str] = {
    SETUP: "trigger",
    SESSION_START: "source",
    SESSION_END: "reason",
    USER_PROMPT: "",
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
    STOP_FAILURE: "error",
    TOOL_BATCH: "",
    EXPANSION: "command_name",
    ELICITATION: "mcp_server_name",
    ELICITATION_RESULT: "mcp_server_name",
    WORKTREE_CREATE: "",
    WORKTREE_REMOVE: "",
}
"""Every event, with the payload's key that matchers use; empty: a matcher has no effect."""

_TOOL_EVENTS = frozenset({PRE_TOOL, POST_TOOL, TOOL_FAILURE, PERMISSION})
"""Events with a tool call, to which a condition applies."""

SHELLS = ("bash", "powershell")

_PLAIN = re.compile(r"[\w\- |,]*")
_CONDITION = re.compile(r"[A-Za-z_][\w-]*\*?(?:\(.+\))?", re.DOTALL)
_COMMON_KEYS = frozenset({"type", "if", "timeout", "async", "statusMessage", "once"})
_COMMAND_KEYS = frozenset({"command", "args", "shell", "asyncRewake", "rewakeMessage", "rewakeSummary", "sandbox"})


HookFunction: TypeAlias = Callable[[Mapping[str, Any]], object]
"""A hook function of the program: it receives the payload and returns the JSON value that a command would print, or
None.

It may be a coroutine function. It must not change the payload.
"""


class HookSpec(Struct, frozen=True):
    """One command, action or function of the program at one event. `timeout_s` in seconds; `source` is the file.

    `detached`: the session does not wait for it; its notes are delivered later. A function has its name as command.
    `arguments`: the command is a program that runs without a shell, with these arguments. `condition` is a permission
    rule that the tool call must match. `wakes`: its refusal wakes the agent, after `wake_text`. `variables` are added
    to its environment. `action` replaces the command, which is then empty.
    `is_confined`: the command runs in the sandbox. `confined_because`: why it does so without that word. `is_outside`:
    a person said that it runs outside. `files_digest` is the digest of the project's files that it would run, when it
    was trusted. `runs_git`: it runs git, which may run what the repository names at that moment.
    `is_projects`: a repository brings it.
    """

    event: str
    matcher: str
    command: str
    timeout_s: float = TIMEOUT_S
    source: str = ""
    detached: bool = False
    function: HookFunction | None = None
    arguments: tuple[str, ...] | None = None
    shell: str = ""
    condition: str = ""
    wakes: bool = False
    wake_text: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    action: HookAction | None = None
    is_confined: bool = False
    is_outside: bool = False
    confined_because: str = ""
    files_digest: str = ""
    runs_git: bool = False
    is_projects: bool = False

    @property
    def command_line(self) -> str:
        """The command with its arguments; empty for an action."""
        return self.command if self.arguments is None else shlex.join((self.command, *self.arguments))

    @property
    def line(self) -> str:
        """The command with its arguments, or the whole action, for people."""
        return self.command_line if self.action is None else self.action.text

    @property
    def short_line(self) -> str:
        """The beginning of the command or action for notices, without a part of an address that may be secret."""
        text = self.line if self.action is None else self.action.short_text
        return text.split("\n", 1)[0][:100]

    @property
    def name(self) -> str:
        """The event, matcher, condition and command, for people."""
        condition = f"if {self.condition}" if self.condition else ""
        return " ".join(part for part in (self.event, self.matcher, condition) if part) + f": {self.line}"

    @property
    def identity(self) -> object:
        """The value that equal hooks of several files share: of them one runs."""
        return self.function or (
            *(self.command, self.arguments, self.condition, self.shell, self.variables, self.action, self.is_confined),
        )


Matcher: TypeAlias = Callable[[str], bool]


def compile_matcher(text: str) -> Matcher:
    """Return the matcher of a text: everything (`*` or empty), names (`Edit|Write`, `Edit, Write`), else a regular
    expression.

    Names match whole, an expression anywhere. Raises ValueError for an invalid expression.
    """
    if text.strip() in {"", "*"}:
        return lambda _: True
    if (names := matcher_names(text)) is not None:
        return frozenset(names).__contains__
    try:
        found = re.compile(text).search
    except (re.error, OverflowError, RecursionError) as problem:
        raise ValueError(str(problem)) from None
    return lambda name: found(name) is not None


def matcher_names(text: str) -> list[str] | None:
    """Return the names that a matcher lists; None when it is an expression, or matches everything."""
    names = [name for part in re.split(r"[|,]", text) if (name := part.strip())]
    return names if names and _PLAIN.fullmatch(text) else None


class ParsedHook(Struct, frozen=True):
    """One hook entry of a file: a hook, or why it cannot be used. `is_broken`: it is invalid, not only unsupported.

    `path` is its path from the top of the hooks; `warning` is the line for people.
    """

    event: str
    path: tuple[str | int, ...]
    value: Any = None
    hook: HookSpec | None = None
    reason: str = ""
    warning: str = ""
    is_broken: bool = False

    @property
    def name(self) -> str:
        """The name in lists."""
        command = self.hook.line if self.hook is not None else ""
        return f"{self.event}{f': {command}' if command else ''}"


class _UnusableHook(Exception):
    """The reason why a hook is left out. `is_broken` as in ParsedHook."""

    def __init__(self, why: str, *, broken: bool = True) -> None:
        super().__init__(why)
        self.is_broken = broken


def parse_hooks(value: object, source: str) -> tuple[list[HookSpec], list[str]]:
    """Return the hooks of one settings file, in their order, and a line for each unusable one. Never raises."""
    entries = parse_hook_entries(value)
    hooks = [replace(one.hook, source=source) for one in entries if one.hook is not None]
    return hooks, [f"{source}: {one.warning}" for one in entries if one.hook is None]


def parse_hook_entries(value: object) -> list[ParsedHook]:
    """Return all hook entries, in their order, without their source. Never raises."""
    if value is not None and not isinstance(value, dict):
        return [_broken("", (), "hooks is not an object")]
    found: list[ParsedHook] = []
    for event, groups in cast("dict[str, Any]", value or {}).items():
        if event not in EVENTS:
            near = nearest(event, EVENTS)
            why = "it is not an event of this program" + (f"; did you mean {near}?" if near else "")
            warning = f"hooks of the event {event[:60]} are not supported"
            known_event = next((known for known in EVENTS if is_typo(event, known)), None)
            warning += f"; did you mean {known_event}?" if known_event else ""
            found.append(ParsedHook(event[:60], (event,), groups, reason=why, warning=warning))
            continue
        for at, group in _items(event, (event,), groups, f"hooks.{event}", found):
            found += _parse_group(event, at, group)
    return found


def _parse_group(event: str, at: tuple[str | int, ...], group: Mapping[str, Any]) -> list[ParsedHook]:
    matcher = group.get("matcher", "")
    found: list[ParsedHook] = []
    try:
        if not isinstance(matcher, str):
            raise _UnusableHook("its matcher is not a text")
        try:
            compile_matcher(matcher)
        except ValueError as problem:
            raise _UnusableHook(f"its matcher {matcher[:60]!r} is no regular expression: {problem}") from None
    except _UnusableHook as problem:
        return [_unusable(event, at, group, problem)]
    strange = sorted(key for key in group if key not in {"matcher", "hooks"} and not is_label(key))
    for key in strange:
        why = f"{key[:40]!r} beside its hooks is not used"
        found.append(ParsedHook(event, (*at, key), reason=why, warning=f"a hook of {event}: {why}"))
    for place, hook in _items(event, (*at, "hooks"), group.get("hooks"), f"a hook of {event}: hooks", found):
        try:
            found.append(ParsedHook(event, place, hook, _parse_hook(event, matcher, hook)))
        except _UnusableHook as problem:
            found.append(_unusable(event, place, hook, problem))
    return found


def _parse_hook(event: str, matcher: str, hook: Mapping[str, Any]) -> HookSpec:
    """Return the hook. Raises _UnusableHook."""
    kind = hook.get("type", "command")
    command = hook.get("command")
    action = None
    if kind in ACTION_TYPES:
        command = ""
        keys = action_keys(kind)
        try:
            action = parse_action(kind, event, hook)
        except ValueError as problem:
            raise _UnusableHook(str(problem)) from None
    elif kind != "command":
        raise _UnusableHook(f"the type {str(kind)[:40]!r} is not supported", broken=False)
    elif not isinstance(command, str) or not command.strip() or "\0" in command:
        raise _UnusableHook("it has no command")
    else:
        keys = _COMMAND_KEYS
    strange = sorted(key for key in hook if key not in _COMMON_KEYS | keys and not is_label(key))
    if strange:
        # Without its condition it would run too often: a hook that refuses would refuse everything.
        raise _UnusableHook(f"{strange[0][:40]!r} is not supported", broken=False)
    if not isinstance(hook.get("sandbox", False), bool):
        raise _UnusableHook("its sandbox is neither true nor false")
    wakes = hook.get("asyncRewake") is True
    text = hook.get("rewakeMessage", "")
    return HookSpec(
        event,
        matcher,
        command,
        _timeout_s(event, action, hook),
        "",
        wakes or hook.get("async") is True,
        arguments=_arguments(hook),
        shell=_shell(hook),
        condition=_condition(event, hook),
        wakes=wakes,
        wake_text=text.strip() if isinstance(text, str) else "",
        action=action,
        is_confined=hook.get("sandbox", False),
        is_outside=hook.get("sandbox") is False,
    )


def _timeout_s(event: str, action: HookAction | None, hook: Mapping[str, Any]) -> float:
    asks_once = isinstance(action, ModelQuestion) and not action.uses_tools
    usual = END_TIMEOUT_S if event == SESSION_END else PROMPT_TIMEOUT_S if asks_once else TIMEOUT_S
    timeout = hook.get("timeout", usual)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise _UnusableHook("its timeout is not a number of seconds")
    return min(float(timeout), MAX_TIMEOUT_S)


def _arguments(hook: Mapping[str, Any]) -> tuple[str, ...] | None:
    value: Any = hook.get("args")
    if value is None:
        return None
    parts = cast("list[Any]", value) if isinstance(value, list) else [None]
    texts = tuple(part for part in parts if isinstance(part, str) and "\0" not in part)
    if len(texts) != len(parts):
        raise _UnusableHook("its args are not a list of texts")
    return texts


def _shell(hook: Mapping[str, Any]) -> str:
    shell = hook.get("shell", "")
    if shell not in ("", *SHELLS):
        raise _UnusableHook(f"its shell is none of {', '.join(SHELLS)}")
    return shell


def _condition(event: str, hook: Mapping[str, Any]) -> str:
    condition = hook.get("if", "")
    if condition == "":
        return ""
    if not isinstance(condition, str) or not _CONDITION.fullmatch(condition.strip()):
        raise _UnusableHook("its `if` is not one permission rule, such as Bash(git push:*)")
    if event not in _TOOL_EVENTS:
        raise _UnusableHook("its `if` never applies, because the event has no tool call")
    return condition.strip()


def _unusable(event: str, at: tuple[str | int, ...], value: object, problem: _UnusableHook) -> ParsedHook:
    warning = f"a hook of {event} is left out: {problem}"
    return ParsedHook(event, at, value, reason=str(problem), warning=warning, is_broken=problem.is_broken)


def _broken(event: str, at: tuple[str | int, ...], what: str) -> ParsedHook:
    return ParsedHook(event, at, reason=what, warning=what, is_broken=True)


def _items(
    event: str, at: tuple[str | int, ...], value: object, where: str, found: list[ParsedHook]
) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """Yield the objects of a list, each with its path; other elements are reported."""
    if not isinstance(value, list):
        found.append(_broken(event, at, f"{where} is not a list"))
        return
    for number, part in enumerate(cast("list[Any]", value)):
        if isinstance(part, dict):
            yield (*at, number), cast("dict[str, Any]", part)
        else:
            found.append(_broken(event, (*at, number), f"{where} holds something that is not an object"))
