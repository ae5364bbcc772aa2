"""What Ctrl-C means: one small table over what is typed, what the lead does, and when it was pressed last.

    line typed ──▶ clear the line
    empty line, lead works ──▶ end the lead's turn (members go on)
    empty line, lead idle ──▶ first: say how to leave; again within the window: leave

No key loses anything: a cleared line stays in the history, an ended turn leaves a conversation that goes on.
"""

from __future__ import annotations

from enum import StrEnum

from teamwright.protocol.values import dataclass

WINDOW_S = 2.0
"""Seconds within which a second Ctrl-C at an idle prompt leaves."""


class Act(StrEnum):
    """What a press of Ctrl-C does."""

    CLEAR = "clear"
    END_TURN = "end_turn"
    HINT = "hint"
    LEAVE = "leave"


@dataclass(slots=True)
class Interrupts:
    """Remembers the last press that did nothing but say how to leave."""

    hinted_at: float | None = None

    def pressed(self, *, line: bool, lead_works: bool, now: float) -> Act:
        """What this press does. `line`: something is typed; `now`: a monotonic time in seconds."""
        if line or lead_works:
            self.hinted_at = None
            return Act.CLEAR if line else Act.END_TURN
        if self.hinted_at is not None and now - self.hinted_at <= WINDOW_S:
            self.hinted_at = None
            return Act.LEAVE
        self.hinted_at = now
        return Act.HINT

    def typed(self) -> None:
        """Something else was done: the next press is a first one again."""
        self.hinted_at = None
