"""Outcomes of hooks: parsed from exit code and output, and merged for one event.

Exit 0 with text or JSON; exit 2 refuses with the text of stderr; any other exit code is an error of the hook and is
ignored. Of several outcomes the strictest counts. Reads the ecosystem's JSON; invalid output is at most a warning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from teamwright.hooks.hook_definitions import (
    ELICITATION,
    ELICITATION_RESULT,
    EXPANSION,
    PERMISSION,
    PRE_TOOL,
    SESSION_START,
    USER_PROMPT,
    WORKTREE_CREATE,
)

ALLOW, ASK, DENY = "allow", "ask", "deny"

REFUSAL_EXIT_CODE = 2
"""The exit code that refuses."""

MAX_TEXT = 10_000
"""Characters of a reason or a context that are used."""

ELICITATION_ACTIONS = ("accept", "decline", "cancel")

_TEXT_EVENTS = frozenset({SESSION_START, USER_PROMPT, EXPANSION})
"""Events at which plain output is a text for the model."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

_STRICTNESS = ("", ALLOW, ASK, DENY)
_OLD_DECISIONS = {"approve": ALLOW, "block": DENY}


class PermissionReply(Struct, frozen=True):
    """A hook's answer to a permission request: `allowed`, with another input and grants in the wire format, or not."""

    allowed: bool
    message: str = ""
    input: Mapping[str, Any] | None = None
    updates: tuple[Mapping[str, Any], ...] = ()


class ElicitationReply(Struct, frozen=True):
    """A hook's answer to a form of an MCP server, in place of the person: one of ELICITATION_ACTIONS, with values."""

    action: str
    content: Mapping[str, Any] | None = None


class HookOutcome(Struct, frozen=True):
    """The merged outcome of the hooks of one event.

    `blocked` with `reason`: the action does not happen, or the agent continues instead of ending. `permission` is
    allow, ask, deny or empty, for a tool call. `halted` with `halt_reason`: the agent of the event must stop.
    `contexts` are for the model, `messages` for people; `problem` reports errors of the hook itself.
    """

    blocked: bool = False
    reason: str = ""
    permission: str = ""
    permission_reason: str = ""
    input: Mapping[str, Any] | None = None
    contexts: tuple[str, ...] = ()
    halted: bool = False
    halt_reason: str = ""
    messages: tuple[str, ...] = ()
    answer: PermissionReply | None = None
    problem: str = ""
    elicitation: ElicitationReply | None = None
    worktree: str = ""
    """The directory that a hook of `WorktreeCreate` made."""


NO_OUTCOME = HookOutcome()


def read_outcome(event: str, exit_code: int, stdout: str, stderr: str) -> HookOutcome:
    """Return the outcome of one hook from its exit code and its output."""
    if exit_code == REFUSAL_EXIT_CODE:
        reason = cut_text(stderr.strip()) or "a hook refused it and gave no reason"
        denied = DENY if event == PRE_TOOL else ""
        answer = PermissionReply(False, reason) if event == PERMISSION else None
        return HookOutcome(True, reason, denied, reason if denied else "", answer=answer)
    if exit_code != 0:
        first_line = stderr.strip().split("\n", 1)[0][:200]
        return HookOutcome(problem=f"exit code {exit_code}" + (f": {first_line}" if first_line else ""))
    text = stdout.strip()
    if event == WORKTREE_CREATE and not text.startswith("{"):
        return HookOutcome(worktree=_ANSI.sub("", text).rpartition("\n")[2].strip())
    if not text.startswith("{"):
        return HookOutcome(contexts=(cut_text(text),)) if text and event in _TEXT_EVENTS else NO_OUTCOME
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return HookOutcome(problem="its output begins like JSON and is none")
    return parse_returned(event, cast("dict[str, Any]", answer))


def parse_returned(event: str, answer: object) -> HookOutcome:
    """Return the outcome of a function: None, or the JSON that a command would print, as a dict."""
    if answer is None:
        return NO_OUTCOME
    if not isinstance(answer, Mapping):
        return HookOutcome(problem=f"it returned {type(answer).__name__}, not a dict or None")
    return _from_json(event, dict(cast("Mapping[str, Any]", answer)))


def merge_outcomes(outcomes: Iterable[HookOutcome]) -> HookOutcome:
    """Merge the outcomes of several hooks, in their order: the stricter verdict, all contexts, the last changed
    input.
    """
    every = list(outcomes)
    if len(every) == 1:
        return every[0]
    blocking = [one for one in every if one.blocked]
    halting = [one for one in every if one.halted]
    strictest = max((one.permission for one in every), key=_STRICTNESS.index, default="")
    deciding = [one for one in every if one.permission == strictest] if strictest else []
    answers = [one.answer for one in every if one.answer is not None]
    forms = [one.elicitation for one in every if one.elicitation is not None]
    return HookOutcome(
        bool(blocking),
        _join_texts(one.reason for one in blocking),
        strictest,
        _join_texts(one.permission_reason for one in deciding),
        next((one.input for one in reversed(every) if one.input is not None), None),
        tuple(context for one in every for context in one.contexts),
        bool(halting),
        _join_texts(one.halt_reason for one in halting),
        tuple(message for one in every for message in one.messages),
        next((answer for answer in answers if not answer.allowed), answers[0] if answers else None),
        _join_texts(one.problem for one in every),
        next((form for form in forms if form.action != ELICITATION_ACTIONS[0]), forms[0] if forms else None),
        next((one.worktree for one in every if one.worktree), ""),
    )


def _from_json(event: str, answer: dict[str, Any]) -> HookOutcome:
    own = _object(answer, "hookSpecificOutput") or {}
    if own.get("hookEventName", event) != event:
        return HookOutcome(problem=f"it answered for the event {str(own.get('hookEventName'))[:40]!r}")
    decision = answer.get("decision")
    halted = answer.get("continue") is False
    reason = _text(answer, "reason")
    permission = ""
    if event == PRE_TOOL:
        permission = _OLD_DECISIONS.get(decision, "") if isinstance(decision, str) else ""
        requested_permission = own.get("permissionDecision")
        permission = (
            requested_permission
            if isinstance(requested_permission, str) and requested_permission in _STRICTNESS[1:]
            else permission
        )
    blocked = decision == "block" or permission == DENY
    why = _text(own, "permissionDecisionReason") or reason
    context = _text(own, "additionalContext")
    message = _text(answer, "systemMessage")
    return HookOutcome(
        blocked,
        (why or "a hook refused it and gave no reason") if blocked else "",
        permission,
        why if permission else "",
        _object(own, "updatedInput") if event == PRE_TOOL else None,
        (context,) if context else (),
        halted,
        (_text(answer, "stopReason") or "a hook ended it") if halted else "",
        (message,) if message else (),
        _reply(own) if event == PERMISSION else None,
        elicitation=_elicitation(own) if event in {ELICITATION, ELICITATION_RESULT} else None,
        worktree=_text(own, "worktreePath") if event == WORKTREE_CREATE else "",
    )


def _elicitation(own: dict[str, Any]) -> ElicitationReply | None:
    action = own.get("action")
    return ElicitationReply(str(action), _object(own, "content")) if action in ELICITATION_ACTIONS else None


def _reply(own: dict[str, Any]) -> PermissionReply | None:
    decision = _object(own, "decision") or {}
    if decision.get("behavior") == DENY:
        return PermissionReply(False, _text(decision, "message") or "a hook refused it and gave no reason")
    if decision.get("behavior") != ALLOW:
        return None
    updates: Any = decision.get("updatedPermissions")
    listed = cast("list[Any]", updates) if isinstance(updates, list) else []
    whole = tuple(cast("dict[str, Any]", one) for one in listed if isinstance(one, dict))
    return PermissionReply(True, "", _object(decision, "updatedInput"), whole)


def _object(fields: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    value = fields.get(key)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return cut_text(value.strip()) if isinstance(value, str) else ""


def cut_text(text: str) -> str:
    """Return the text of a hook, cut to the length that is used."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[… {len(text):,} characters in all]"


def _join_texts(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(text for text in texts if text))
