"""Grants of a command for one turn: allowed calls and a model, both removed after the turn.

They apply from the call until the lead is idle again; with a working lead, until the end of its next turn. Depends on a
session and its log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from teamwright.models.model import Model, Prefix
from teamwright.models.prefix_builder import prefix_for_model
from teamwright.permissions.decide import Policy
from teamwright.permissions.rules import Rule
from teamwright.protocol.events import MemberChanged, ModelChanged, TeamEvent
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.session.session import Session


@dataclass(slots=True)
class TurnGrants:
    """Rules, and a model, for a turn of the lead, or the rules alone for a block. `end` may be called twice."""

    session: Session
    rules: tuple[Rule, ...] = ()
    model: Model | None = None
    _turns: int = 1
    _before: tuple[Model, Prefix, Prefix] | None = None
    _unsubscribe: Callable[[], None] | None = None

    def __enter__(self) -> TurnGrants:
        """Apply the rules inside the block, in which no prompt is sent to the lead."""
        self._allow()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> None:
        """Apply rules and model until the end of the turn with the following prompt."""
        lead = self.session.lead
        self._allow()
        self._turns = 2 if lead.busy else 1
        if self.model is not None and not lead.busy:
            agent, settings = lead.agent, self.session.maker.kit.model_settings
            prefix = agent.conversation.prefix
            moved = prefix_for_model(prefix, self.model.card, settings)
            self._before = (agent.model, prefix, moved)
            agent.model, agent.conversation.prefix = self.model, moved
        if self.rules or self._before is not None:
            self._unsubscribe = self.session.log.subscribe(lambda _n, event: self._happened(event), live=False)

    def _allow(self) -> None:
        for policy in self._policies():
            policy.granted = (*policy.granted, *self.rules)

    def end(self) -> None:
        """Remove rules and model."""
        unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()
        mine = {id(rule) for rule in self.rules}
        for policy in self._policies():
            policy.granted = tuple(rule for rule in policy.granted if id(rule) not in mine)
        before, self._before = self._before, None
        agent = self.session.lead.agent
        if before is not None and agent.model is self.model:
            agent.model = before[0]
            if agent.conversation.prefix is before[2]:
                agent.conversation.prefix = before[1]

    def _policies(self) -> Sequence[Policy]:
        own, run = self.session.lead.agent.policy, self.session.maker.policy
        return (own,) if own is run else (own, run)

    def _happened(self, event: TeamEvent) -> None:
        if isinstance(event, ModelChanged) and event.member == LEAD:
            self._before = None  # another model was chosen since
        if isinstance(event, MemberChanged) and event.member == LEAD and event.state == "idle":
            self._turns -= 1
        if self._turns == 0 or self.session.lead.refusal_reason:
            self.end()
