"""Which call each member is in, and who works behind it in the background: what events tell and no file does.

Pure.
"""

from __future__ import annotations

from dataclasses import field

from teamwright.protocol.events import (
    AgentChanged,
    MemberChanged,
    TeamChanged,
    TeamEvent,
    ToolCalled,
    ToolStarted,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.ui.terminal.text import one_line

_AT_REST = frozenset({"idle", "awaiting"})
"""States in which no call of a member runs; a sub-agent of its may."""
_GONE = frozenset({"completed", "failed", "crashed", "killed", "suspended"})


@dataclass(slots=True)
class Activity:
    """Remembers which call each member is in, and which sub-agents of its run in the background."""

    calls: dict[str, dict[str, str]] = field(default_factory=dict[str, "dict[str, str]"])
    agents: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])

    def note(self, event: TeamEvent) -> None:
        """Take an event in."""
        match event:
            case ToolStarted():
                self.calls.setdefault(event.member, {})[event.call] = f"{event.tool} {one_line(event.summary)}"
            case ToolCalled():
                self.calls.get(event.member, {}).pop(event.call, None)
            case TurnEnded():
                self.ended(event.member)
            case MemberChanged() if event.state in _AT_REST | _GONE:
                self.ended(event.member)
                if event.state in _GONE:
                    self.agents.pop(event.member, None)
            case AgentChanged():
                self._agent(event)
            case TeamChanged():
                self._only_lead()
            case _:
                pass

    def _agent(self, event: AgentChanged) -> None:
        behind = self.agents.setdefault(event.member, set())
        if event.state == "background":
            behind.add(event.agent)
        else:
            behind.discard(event.agent)

    def _only_lead(self) -> None:
        """Another team, or none: whoever was in the one before is nobody's any more."""
        self.calls = {LEAD: self.calls.get(LEAD, {})}
        self.agents = {LEAD: self.agents.get(LEAD, set())}

    def now(self, name: str) -> str:
        """The call that runs, the newest of several; empty when none does."""
        running = list(self.calls.get(name, {}).values())
        return running[-1] if running else ""

    def behind(self, name: str) -> int:
        """How many of its sub-agents run in the background."""
        return len(self.agents.get(name, ()))

    def ended(self, member: str) -> None:
        """The member's turn was cut: whatever it was in is over."""
        self.calls.pop(member, None)
