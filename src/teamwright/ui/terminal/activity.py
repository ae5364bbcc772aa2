"""What is going on, on one line above the prompt: the lead, members at work, questions that wait. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from teamwright.protocol.events import TeamEvent, ToolCalled, ToolStarted
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.lines import shown
from teamwright.ui.terminal.text import cut, one_line


@dataclass(slots=True)
class Activity:
    """Remembers which call each member is in."""

    calls: dict[str, dict[str, str]] = field(default_factory=dict[str, "dict[str, str]"])

    def note(self, event: TeamEvent) -> None:
        """Take an event in."""
        match event:
            case ToolStarted():
                self.calls.setdefault(event.member, {})[event.call] = f"{event.tool} {one_line(event.summary)}"
            case ToolCalled():
                self.calls.get(event.member, {}).pop(event.call, None)
            case _:
                pass

    def ended(self, member: str) -> None:
        """The member's turn was cut: whatever it was in is over."""
        self.calls.pop(member, None)

    def line(self, lead_works: bool, members: Sequence[str], questions: int, width: int) -> str:
        """The line, or nothing when all is quiet."""
        working = [*([LEAD] if lead_works else []), *members]
        parts = [self._of(name) for name in working]
        if questions:
            parts.append("1 question waits" if questions == 1 else f"{questions} questions wait")
        return cut(" · ".join(parts), max(width - 1, 1))

    def _of(self, name: str) -> str:
        running = list(self.calls.get(name, {}).values())
        return f"{shown(name)}: {cut(running[-1], 40)}" if running else f"{shown(name)} works"
