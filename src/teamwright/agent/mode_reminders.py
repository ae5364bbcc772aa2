"""Reminders of an agent's mode, appended to its user messages.

One table has the texts for all modes and roles. A reminder is part of its message and stays there: sent bytes never
change, so that a service finds them in its cache. Therefore the full text comes at the start of a turn only, and a
short line with each set of results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from teamwright.permissions.verdict import Mode

Remind: TypeAlias = Callable[[bool], str]
"""Return the reminder for the next user message; empty for none.

The parameter is true at the start of a turn, false with results.
"""


def no_reminder(_begins: bool) -> str:
    """Return no reminder."""
    return ""


class ReminderRole(StrEnum):
    """The role of the agent whose mode it is."""

    LEAD = "lead"
    MEMBER = "member"


class ReminderTexts(Struct, frozen=True):
    """Texts for a mode: `at_start` of the mode or a turn, `each_call` with results, `at_end` once after the mode."""

    at_start: str
    each_call: str
    at_end: str = ""


MODE_MEANINGS: Mapping[Mode, str] = {
    Mode.DEFAULT: "reading inside the directories is allowed, the rest asks",
    Mode.ACCEPT_EDITS: "as default, and files inside the directories may be changed",
    Mode.PLAN: "only what changes nothing, until a plan was approved",
    Mode.DELEGATE: "a lead only coordinates; a member edits and asks its lead",
    Mode.DONT_ASK: "as default, and what would ask is denied",
    Mode.BYPASS: "everything is allowed that no deny rule names",
    Mode.BUBBLE: "the mode of the agent that started it, also when that changes",
}
"""The meaning of each mode in one line, for people and for models."""

REMINDERS: Mapping[tuple[ReminderRole, Mode], ReminderTexts] = {
    (ReminderRole.LEAD, Mode.DELEGATE): ReminderTexts(
        "You are in delegate mode: you coordinate, your teammates do the work.\n"
        "What works: TeamCreate, TeamDelete, Agent with a name, SendMessage, the Task tools, ListAgents, "
        "AskUserQuestion. Everything else is refused, reading files too. Give each piece of work to a teammate: as a "
        "task, or as a message. Only the user ends this mode.",
        "Delegate mode: coordinate. Teammates do all other work.",
        "Delegate mode has ended. All your tools work again.",
    ),
    (ReminderRole.LEAD, Mode.PLAN): ReminderTexts(
        "You are in plan mode: read, search and think; change nothing.\n"
        "When the plan is whole, call ExitPlanMode with it: its result says how you continue.",
        "Plan mode: read and think; change nothing.",
        "Plan mode has ended.",
    ),
    (ReminderRole.MEMBER, Mode.PLAN): ReminderTexts(
        "You are in plan mode: read, search and think; change nothing.\n"
        "When the plan is whole, call ExitPlanMode with it: its result says how you continue.",
        "Plan mode: read and think; change nothing.",
        "Plan mode has ended.",
    ),
}
"""The texts by role and mode. A mode without texts is announced once, when it changes."""


def mode_notice(mode: Mode) -> str:
    """Return the notice of a new mode."""
    return f"The permission mode is {mode} now: {MODE_MEANINGS[mode]}."


class ModeReminder:
    """The reminder of one agent. `mode` returns its current mode, its caller's when it has none.

    `known_mode` is the mode that its conversation knows, None when that is unknown. `announces`: mode changes are
    announced here; teammates learn of them by mail.
    """

    def __init__(
        self, mode: Callable[[], Mode], role: ReminderRole, known_mode: Mode | None, *, announces: bool
    ) -> None:
        self._mode = mode
        self._role = role
        self._known_mode = known_mode
        self._announces = announces
        self._full_text_next = True

    def __call__(self, begins: bool) -> str:
        """Return the reminder; see Remind."""
        mode, before = self._mode(), self._known_mode
        words = REMINDERS.get((self._role, mode))
        if mode is before and words is None:
            return ""
        self._known_mode = mode
        lines = self._change_lines(before, mode, known=words is not None) if mode is not before else []
        if words is not None:
            whole = begins or self._full_text_next or mode is not before
            lines.append(words.at_start if whole else words.each_call)
        self._full_text_next = False
        return "\n".join(lines)

    def _change_lines(self, before: Mode | None, mode: Mode, *, known: bool) -> list[str]:
        if not self._announces:
            return []
        old = REMINDERS.get((self._role, before)) if before is not None else None
        lines = [old.at_end] if old is not None and old.at_end else []
        return lines if known else [*lines, mode_notice(mode)]
