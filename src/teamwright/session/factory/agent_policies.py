"""Who may do what, agent by agent: the session's policy, and the narrower one of each agent that is made.

An agent's policy is never more than its caller's as that is now; a role's fence goes round it. What a person grants
for always reaches every one of them. Knows rules and roles; does not know how an agent is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from weakref import WeakSet

from teamwright.agent.agent_type import AgentType
from teamwright.config.team_file.team_definition import TeamDefinition
from teamwright.config.team_file.team_roles import ownership_of
from teamwright.models.effort import Effort
from teamwright.permissions.decide import Policy
from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.values import dataclass
from teamwright.teams.spawn_spec import SpawnSpec
from teamwright.teams.subagents.run import MarkBlocked, SubagentRun


@dataclass(slots=True, eq=False, weakref_slot=True)
class Inheritance:
    """What a member was made with: its sub-agents may do no more, and have its model and effort unless told otherwise.

    Lives as long as the member's gate, which decides by it. `kind` is its role, or its kind of agent; `disallowed`
    are the tools that it was denied; `definition` is what all of that comes from. `model` changes with the member's.
    """

    policy: Callable[[], Policy]
    model: str | None
    kind: str = ""
    disallowed: tuple[str, ...] = ()
    read_only: bool = False
    effort: Effort | None = None
    definition: AgentType | None = None
    depth: int = 0
    """Lead and members are 0; how deep a sub-agent is below them."""
    shown: str = LEAD_ALIAS
    """Who it is in a request, as people read it: with all that are above it."""
    root: str = LEAD
    """The lead or the member that it works for in the end, and that is held up by what it asks."""
    waiting: MarkBlocked | None = None
    """Marks who is blocked while it asks."""

    def current_policy(self) -> Policy:
        """The policy as it is now."""
        return self.policy()

    def child(self, kind: AgentType, policy: Callable[[], Policy], model: str | None, run: SubagentRun) -> Inheritance:
        """What a sub-agent of it is made with: whatever this one was denied, it is denied too."""
        denied = (*self.disallowed, *kind.disallowed_tools)
        made = Inheritance(policy, model or self.model, kind.name if kind.role else self.kind, denied)
        made.read_only, made.depth = self.read_only or kind.read_only, self.depth + 1
        made.shown = f"{self.shown} › {kind.name}: {run.description}"
        made.definition = kind
        made.root, made.waiting = self.root, None if self.waiting is None else run.block_caller(self.waiting)
        return made


@dataclass(slots=True)
class AgentPolicies:
    """The policies of a session. `session` is the lead's before its fence; `definition` has the roles' fences."""

    session: Policy
    definition: TeamDefinition | None = None
    lead_answers: bool = False
    """By the user's setting the lead may allow whatever its members ask for."""
    on_always: Callable[[str, tuple[Rule, ...]], None] | None = None
    """Told of each "always" that was answered here, where another process has the session's policy."""
    derived: WeakSet[Policy] = field(default_factory=WeakSet[Policy])
    """Policies of single agents, as long as these live."""

    def __iter__(self) -> Iterator[Policy]:
        yield self.session
        yield from self.derived

    def make_policy(
        self, spec: SpawnSpec, above: Callable[[], Policy], kind: str, denied: Sequence[str] = ()
    ) -> Callable[[], Policy]:
        """The agent's own: never more than the caller's as it is then; without a mode just that.

        `kind` is whose paths it may change: a role's, or nobody's; `denied` are the deny rules of its definition.
        """
        mode = Mode.BUBBLE if spec.mode is None else Mode(spec.mode)
        rules = () if mode is Mode.BUBBLE else self.session.rules
        rules += parse_rules(denied, Verdict.DENY, f"agent type {spec.agent_type}", self.session.scope.base)
        own = self.with_ownership(Policy(mode, rules, self.session.scope, (above(),)), kind)
        self.derived.add(own)
        return lambda: own

    def with_ownership(self, policy: Policy, kind: str) -> Policy:
        """The policy behind the fence of an agent of this kind, and that of whoever has no role: the lead.

        The lead's own fence does not hold for those it starts: they have theirs.
        """
        fence = ownership_of(self.definition, kind, self.session.scope.base)
        if fence is None:
            return policy
        behind = Policy(Mode.BYPASS, (), replace(self.session.scope, ownership=fence))
        return (Policy(Mode.BUBBLE).narrow_to(policy) if policy is self.session else policy).narrow_to(behind)

    def keep_always(self, text: str) -> None:
        """An "always": the rule holds for the rest of this session, for every agent."""
        rules = parse_rules([text], Verdict.ALLOW, "said always", self.session.scope.base)
        for policy in self:
            if policy.mode is not Mode.BUBBLE:
                policy.add_rules(*rules)
        if self.on_always is not None:
            self.on_always(text, rules)

    def may_start(self, agent_type: str) -> bool:
        """Return True when no rule forbids agents of that type; a lead that only coordinates may start teammates."""
        access = Access(subject=agent_type, harmless=True, starts_teammate=True)
        return self.session.decide("Agent", access).verdict is not Verdict.DENY

    def lead_may(self, tool: str, access: Access) -> bool:
        """Whether the lead may allow its members this call: it would be allowed it itself, or the user said so."""
        if self.lead_answers:
            return True
        lead = self.session.with_mode(self.session.effective_mode) if self.session.is_delegating else self.session
        return lead.decide(tool, access).verdict is Verdict.ALLOW
