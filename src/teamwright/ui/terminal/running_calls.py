"""The running calls and background sub-agents of each member, from events; no file contains them."""

from __future__ import annotations

from dataclasses import field

from teamwright.protocol.events import (
    MemberChanged,
    SubagentChanged,
    TeamChanged,
    TeamEvent,
    ToolCalled,
    ToolStarted,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.ui.display_text import one_line

_RESTING_STATES = frozenset({"idle", "awaiting"})
"""States in which a member runs no call; its sub-agents may."""
_ENDED_STATES = frozenset({"completed", "failed", "crashed", "killed", "suspended"})


@dataclass(slots=True)
class RunningCalls:
    """The running call and the background sub-agents of each member."""

    calls: dict[str, dict[str, str]] = field(default_factory=dict[str, "dict[str, str]"])
    subagents: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])

    def note(self, event: TeamEvent) -> None:
        """Update the calls with an event."""
        match event:
            case ToolStarted():
                self.calls.setdefault(event.member, {})[event.call] = f"{event.tool} {one_line(event.summary)}"
            case ToolCalled():
                self.calls.get(event.member, {}).pop(event.call, None)
            case TurnEnded():
                self.clear_member(event.member)
            case MemberChanged() if event.state in _RESTING_STATES | _ENDED_STATES:
                self.clear_member(event.member)
                if event.state in _ENDED_STATES:
                    self.subagents.pop(event.member, None)
            case SubagentChanged():
                self._note_subagent(event)
            case TeamChanged():
                self._keep_only_lead()
            case _:
                pass

    def _note_subagent(self, event: SubagentChanged) -> None:
        behind = self.subagents.setdefault(event.member, set())
        if event.state == "background":
            behind.add(event.agent)
        else:
            behind.discard(event.agent)

    def _keep_only_lead(self) -> None:
        """Forget the members of an earlier team after a change of the team."""
        self.calls = {LEAD: self.calls.get(LEAD, {})}
        self.subagents = {LEAD: self.subagents.get(LEAD, set())}

    def current_call(self, name: str) -> str:
        """Return the newest running call of a member; empty without one."""
        running = list(self.calls.get(name, {}).values())
        return running[-1] if running else ""

    def background_count(self, name: str) -> int:
        """Return the number of a member's background sub-agents."""
        return len(self.subagents.get(name, ()))

    def clear_member(self, member: str) -> None:
        """Forget the running calls of a member that is not in a turn any more."""
        self.calls.pop(member, None)
