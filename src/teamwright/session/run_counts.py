"""Counts of a run that no file has: sent and delivered messages, calls, the last state of each member.

Depends on events; read once, for the run's result.
"""

from __future__ import annotations

from msgspec import Struct, field

from teamwright.protocol.events import (
    FALLBACK,
    MemberChanged,
    MessageDelivered,
    MessageSent,
    ModelCallEnded,
    ModelChanged,
    TaskChanged,
    TeamEvent,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD
from teamwright.protocol.member_states import MemberState
from teamwright.team_records.life_cycle import FAILED_STATES, USER_CAUSE
from teamwright.teams.external_members import UNKNOWN_PROGRAM

EARLY_MOST = 1_000
"""Maximum number of messages that are remembered as delivered before they were sent. First prompts have no sent
event.
"""


class RunCounts(Struct):
    """The counts so far. Notices without content are not messages; model calls are the lead's."""

    model_calls: int = 0
    api_s: float = 0.0
    """Duration of all model calls, in milliseconds; parallel calls add up."""
    sent: int = 0
    seen: int = 0
    calls: int = 0
    states: dict[str, MemberState] = field(default_factory=dict[str, MemberState])
    models: dict[str, str] = field(default_factory=dict[str, str])
    fallbacks: list[ModelChanged] = field(default_factory=list[ModelChanged])
    """The changes to fallback models."""
    waiting: set[str] = field(default_factory=set[str])
    early: dict[str, None] = field(default_factory=dict[str, None])
    """Messages that were delivered before their sent event: a reader may be faster than the writer's event. The
    newest are kept.
    """
    capped: set[str] = field(default_factory=set[str])
    """Members whose last turn ended at a cap: they are idle, and not done."""
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """The reason why a member's last turn or its process failed; a later successful turn removes it."""
    failed_in_run: set[str] = field(default_factory=set[str])
    """Names of members whose turn or process failed since the last prompt."""
    ended: dict[str, str] = field(default_factory=dict[str, str])
    """The reason why a member failed, crashed or was stopped. A resume removes it."""
    stopped_at_work: set[str] = field(default_factory=set[str])
    """Members that were working when a crash, an error or a person ended them."""

    tasks: set[str] = field(default_factory=set[str])
    """Tasks that a member of this session created or changed."""

    def count(self, event: TeamEvent) -> None:
        """Count an event."""
        match event:
            case MessageSent():
                self._sent(event)
            case MessageDelivered():
                known = self.waiting.intersection(event.message_ids)
                self.seen += len(known)
                self.waiting -= known
                self.early |= dict.fromkeys(id for id in event.message_ids if id not in known)
                while len(self.early) > EARLY_MOST:
                    del self.early[next(iter(self.early))]
            case ModelCallEnded(member=member, aside=aside, seconds=seconds):
                self.model_calls += member == LEAD and not aside
                self.api_s += seconds
            case ToolCalled():
                self.calls += 1
            case TaskChanged(member=member) if member != UNKNOWN_PROGRAM and "@" not in member:
                self.tasks.add(event.task.id)
            case TurnEnded(member=member):
                self._ended(member, event)
            case MemberChanged() if event.member != LEAD:
                self._changed(event)
                self._note_model(event)
            case ModelChanged():
                self._note_model(event)
            case _:
                pass

    def end_cause(self, name: str, *, cut_off: bool) -> str:
        """Return why a member failed, crashed or was stopped; empty for a member that ended otherwise."""
        return self.ended.get(name, "") if name in self.stopped_at_work or not cut_off else ""

    def _note_model(self, event: MemberChanged | ModelChanged) -> None:
        if event.member != LEAD:
            self.models[event.member] = event.model or self.models.get(event.member, "")
        if isinstance(event, ModelChanged) and event.by == FALLBACK:
            self.fallbacks.append(event)

    def _ended(self, member: str, turn: TurnEnded) -> None:
        (self.capped.add if turn.stop == "limit" else self.capped.discard)(member)
        if turn.stop == "failed":
            self.failed[member] = turn.detail or "its turn failed"
            self.failed_in_run.add(member)
        else:
            self.failed.pop(member, None)

    def _changed(self, event: MemberChanged) -> None:
        name, before, self.states[event.member] = event.member, self.states.get(event.member), event.state
        if event.state in FAILED_STATES:
            self.failed[name] = event.detail or event.state
            self.failed_in_run.add(name)
        if event.state not in {*FAILED_STATES, MemberState.KILLED}:
            self.ended.pop(name, None)
            self.stopped_at_work.discard(name)
            return
        self.ended[name] = event.detail or event.state
        unplanned = event.state in FAILED_STATES or event.detail.startswith(USER_CAUSE)
        if unplanned and before != MemberState.IDLE:
            self.stopped_at_work.add(name)

    def _sent(self, event: MessageSent) -> None:
        if event.wire == "mode_changed" or (event.wire == "idle_notification" and event.summary == "idle"):
            return  # such a message may stay unread
        self.sent += 1
        if event.message_id in self.early:
            del self.early[event.message_id]
            self.seen += 1
        else:
            self.waiting.add(event.message_id)
