"""The result of a team's resume, for people and programs."""

from __future__ import annotations

from msgspec import Struct

_MAX_ENDED_NAMED = 5
"""Ended members that are named when their team is resumed."""


class ResumeResult(Struct, frozen=True):
    """The result of a resume: members that are back, and members that have ended.

    `not_resumed` could not be resumed and keep their places. `tasks` were open and `unread` messages waited when it
    began; `repaired` calls had been interrupted without a result.
    """

    members: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    tasks: int = 0
    unread: int = 0
    repaired: int = 0
    ended: tuple[str, ...] = ()
    """Members that had ended before, each with the cause."""
    not_resumed: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line for people; empty when there was only the conversation."""
        counts = (
            (len(self.members), "member", ""),
            (self.tasks, "open task", ""),
            (self.unread, "unread message", ""),
            (self.repaired, "call", " repaired"),
        )
        parts = [f"{number} {what}{'' if number == 1 else 's'}{rest}" for number, what, rest in counts if number]
        gone = f"gone: {', '.join(self.gone)}" if self.gone else ""
        not_resumed = f"not resumed, conversation kept: {', '.join(self.not_resumed)}" if self.not_resumed else ""
        more = f" and {len(self.ended) - _MAX_ENDED_NAMED} more" if len(self.ended) > _MAX_ENDED_NAMED else ""
        ended = f"ended before: {', '.join(self.ended[-_MAX_ENDED_NAMED:])}{more}" if self.ended else ""
        return "; ".join(part for part in (", ".join(parts), not_resumed, gone, ended) if part)
