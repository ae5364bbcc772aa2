"""Reminders: what an agent is told of the mode that it is in, at the end of whatever it is told.

One table of words for all modes and roles. A reminder is a part of the line that it comes with, and stays there: what
was sent stays as it was sent, so that a service finds it again. Hence the whole words at the beginning of a turn only,
and one short line with each round. Knows the words of `permissions`; refuses to decide anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeAlias

from teamwright.permissions.verdict import Mode
from teamwright.protocol.values import dataclass

Remind: TypeAlias = Callable[[bool], str]
"""The reminder behind what is told now; empty: none. It is given whether a turn begins, else results are told."""


def no_reminder(_begins: bool) -> str:
    """For agents that are reminded of nothing."""
    return ""


class ReminderRole(StrEnum):
    """Whose mode it is."""

    LEAD = "lead"
    MEMBER = "member"


@dataclass(frozen=True, slots=True)
class ReminderTexts:
    """`begins`: when the mode or a turn begins; `goes_on`: with the results of each round; `over`: once, afterwards."""

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
"""A line a mode, for people and for models."""

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
        "When the plan is whole, call ExitPlanMode with it: its result says how you go on.",
        "Plan mode: read and think; change nothing.",
        "Plan mode has ended.",
    ),
    (ReminderRole.MEMBER, Mode.PLAN): ReminderTexts(
        "You are in plan mode: read, search and think; change nothing.\n"
        "When the plan is whole, call ExitPlanMode with it: its result says how you go on.",
        "Plan mode: read and think; change nothing.",
        "Plan mode has ended.",
    ),
}
"""What is told of a mode to whom. A mode without words is told once, when it changes."""


def mode_notice(mode: Mode) -> str:
    """What is said once of a mode that begins."""
    return f"The permission mode is {mode} now: {MODE_MEANINGS[mode]}."


class ModeReminder:
    """Reminds one agent of its mode. `mode` gives the one it is in now, its caller's where it has none of its own.

    `told` is the mode that its conversation knows of, None when that is not known. `news`: changes are told here;
    members hear of them by mail.
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
        """See Remind."""
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
