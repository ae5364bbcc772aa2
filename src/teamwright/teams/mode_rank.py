"""The rank of permission modes, and the result of a mode change. A table and a value; changes nothing."""

from __future__ import annotations

from msgspec import Struct

from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Mode

MODE_RANK = {
    Mode.PLAN: 0,
    Mode.DONT_ASK: 1,
    Mode.DEFAULT: 2,
    Mode.ACCEPT_EDITS: 3,
    Mode.DELEGATE: 3,
    Mode.BYPASS: 4,
}
"""The rank of each mode, the strictest first. `bubble` ranks like the caller's mode."""


class ModeSet(Struct, frozen=True):
    """The result of a mode change. `held_by` is the lead's mode when it is stricter: it then decides."""

    member: str
    mode: Mode
    before: Mode
    held_by: Mode | None = None

    @property
    def changed(self) -> bool:
        """True when it was in another mode before."""
        return self.mode is not self.before

    def __str__(self) -> str:
        """Return the result as a sentence, for people and for models."""
        if not self.changed:
            return f"{self.member} is in mode {self.mode} already"
        lead_note = (
            f"; the lead's mode {self.held_by} is stricter and decides as long as it lasts" if self.held_by else ""
        )
        return f"{self.member} is in mode {self.mode} from its next call on{lead_note}"


def limiting_mode(mode: Mode, lead: Policy) -> Mode | None:
    """Return the lead's mode when it is stricter than this mode of a member, which it then overrides."""
    above = lead.effective_mode
    return above if mode in MODE_RANK and MODE_RANK[mode] > MODE_RANK[above] else None
