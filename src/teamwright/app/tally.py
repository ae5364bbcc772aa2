"""Counts of a run that no file holds: messages sent and seen, calls, the last state of each member.

Fed by events; asked once, when the run's result is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from teamwright.protocol.events import MemberChanged, MessageSeen, MessageSent, RoundEnded, TeamEvent, ToolCalled
from teamwright.protocol.ids import LEAD


@dataclass(slots=True)
class Tally:
    """What has been counted so far. Notices without content are not messages; rounds are the lead's."""

    rounds: int = 0
    sent: int = 0
    seen: int = 0
    calls: int = 0
    states: dict[str, str] = field(default_factory=dict[str, str])
    models: dict[str, str] = field(default_factory=dict[str, str])
    waiting: set[str] = field(default_factory=set[str])
    early: set[str] = field(default_factory=set[str])
    """Seen before its sender was heard of: a reader may be faster than the writer's event."""

    def note(self, event: TeamEvent) -> None:
        """Count an event."""
        match event:
            case MessageSent():
                self._sent(event)
            case MessageSeen():
                known = self.waiting.intersection(event.message_ids)
                self.seen += len(known)
                self.waiting -= known
                self.early.update(event.message_ids)
                self.early -= known
            case RoundEnded(member=member):
                self.rounds += member == LEAD
            case ToolCalled():
                self.calls += 1
            case MemberChanged():
                if event.member != LEAD:
                    self.states[event.member] = event.state
                    self.models[event.member] = event.model or self.models.get(event.member, "")
            case _:
                pass

    def _sent(self, event: MessageSent) -> None:
        if event.wire == "idle_notification" and event.summary == "idle":
            return
        self.sent += 1
        if event.message_id in self.early:
            self.early.discard(event.message_id)
            self.seen += 1
        else:
            self.waiting.add(event.message_id)
