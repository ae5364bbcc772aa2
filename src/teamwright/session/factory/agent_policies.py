"""The policies of agents: the session's, and the narrower one of each agent.

An agent's policy never allows more than its caller's present policy; a role's path ownership restricts it further.
Permanent grants of a person reach all policies. Depends on rules and roles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent_type import AgentType
from teamwright.config.team_definition import TeamDefinition, ownership_of
from teamwright.models.effort import Effort
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings, narrow

if TYPE_CHECKING:
    from teamwright.hooks.hook_index import HookSpec
    from teamwright.session.factory.agent_workspace import AgentWorkspace
    from teamwright.teams.spawn_spec import SpawnSpec
    from teamwright.teams.subagents.subagent_run import MarkBlocked, SubagentRun


class Inheritance(Struct, eq=False, weakref=True):
    """The values that an agent's sub-agents inherit: bounds of permissions, model and effort.

    It exists as long as the member's gate, which decides by it. `kind` is the role or agent type; `disallowed` are the
    denied tools; `definition` is their source. `model` changes with the member's.
    """

    policy: Callable[[], Policy]
    model: str | None
    kind: str = ""
    disallowed: tuple[str, ...] = ()
    read_only: bool = False
    effort: Effort | None = None
    definition: AgentType | None = None
    depth: int = 0
    """The depth below lead and members, which have 0."""
    shown: str = LEAD_ALIAS
    """The agent's name in requests, as shown to people, with all agents above it."""
    root: str = LEAD
    """The lead or member that the agent works for, and that waits for its requests."""
    place: AgentWorkspace | None = None
    """The worktree in which the agent works."""
    sandbox: SandboxSettings = UNBOUNDED
    """The bounds of the agent's commands, those of all agents above it included."""
    waiting: MarkBlocked | None = None
    """Marks the waiting member while the agent asks."""

    @property
    def own_hooks(self) -> tuple[HookSpec, ...]:
        """The hooks of the agent's definition, which run for it alone."""
        return self.definition.hooks if self.definition is not None else ()

    def current_policy(self) -> Policy:
        """Return the present policy."""
        return self.policy()

    def for_member(
        self, spec: SpawnSpec, kind: AgentType, policy: Callable[[], Policy], waiting: MarkBlocked
    ) -> Inheritance:
        """Return the values of a teammate of this lead."""
        return Inheritance(
            policy,
            spec.model,
            kind.name,
            kind.disallowed_tools,
            kind.read_only,
            definition=kind,
            shown=spec.name,
            root=spec.name,
            sandbox=narrow(self.sandbox, kind.sandbox),
            waiting=waiting,
        )

    def role_of(self, kind: AgentType) -> str:
        """Return the role whose path ownership applies to a sub-agent of this type: its own, else its caller's."""
        return kind.name if kind.role else self.kind

    def child(self, kind: AgentType, policy: Callable[[], Policy], model: str | None, run: SubagentRun) -> Inheritance:
        """Return the values of a sub-agent. All tools that are denied to the caller are denied to it too."""
        denied = (*self.disallowed, *kind.disallowed_tools)
        return Inheritance(
            policy,
            model or self.model,
            self.role_of(kind),
            denied,
            self.read_only or kind.read_only,
            definition=kind,
            depth=self.depth + 1,
            place=self.place,
            shown=f"{self.shown} › {kind.name}: {run.description}",
            root=self.root,
            sandbox=narrow(self.sandbox, kind.sandbox),
            waiting=None if self.waiting is None else run.block_caller(self.waiting),
        )


class AgentPolicies(Struct):
    """The policies of a session. `session` is the lead's without path ownership; `definition` has the roles' paths."""

    session: Policy
    definition: TeamDefinition | None = None
    lead_answers: bool = False
    """True when a user's setting lets the lead allow all requests of its members."""
    on_always: Callable[[str, tuple[Rule, ...]], None] | None = None
    """Called for each "always" that was answered here, when another process has the session's policy."""
    derived: WeakSet[Policy] = field(default_factory=WeakSet[Policy])
    """The policies of live agents."""

    def __iter__(self) -> Iterator[Policy]:
        yield self.session
        yield from self.derived

    def make_policy(
        self,
        spec: SpawnSpec,
        above: Callable[[], Policy],
        kind: str,
        denied: Sequence[str] = (),
        place: AgentWorkspace | None = None,
    ) -> Callable[[], Policy]:
        """Return a function for the agent's policy, which never allows more than the caller's present policy.

        `kind` is the role with its path ownership, or empty; `denied` are the deny rules of its definition; `place` is
        its worktree.
        """
        mode = Mode.BUBBLE if spec.mode is None else Mode(spec.mode)
        rules = () if mode is Mode.BUBBLE else self.session.rules
        rules += parse_rules(denied, Verdict.DENY, f"agent type {spec.agent_type}", self.session.scope.base)
        own = self.with_ownership(Policy(mode, rules, self.session.scope, (above(),)), kind)
        if place is not None:
            own = own.in_worktree(place.scope)
        self.derived.add(own)
        return lambda: own

    def with_ownership(self, policy: Policy, kind: str) -> Policy:
        """Return the policy with the path ownership of this kind, or of agents without a role: the lead.

        The lead's own path ownership does not apply to agents that it starts, which have theirs.
        """
        fence = ownership_of(self.definition, kind, self.session.scope.base)
        if fence is None:
            return policy
        behind = Policy(Mode.BYPASS, (), replace(self.session.scope, ownership=fence))
        return (Policy(Mode.BUBBLE).narrow_to(policy) if policy is self.session else policy).narrow_to(behind)

    def keep_always(self, text: str) -> None:
        """Add the rule of an "always" for the rest of this session, for every agent."""
        rules = parse_rules([text], Verdict.ALLOW, "said always", self.session.scope.base)
        for policy in self:
            if policy.mode is not Mode.BUBBLE:
                own = policy.scope.worktree is not None
                moved = parse_rules([text], Verdict.ALLOW, "said always", policy.scope.base) if own else rules
                policy.add_rules(*moved)
        if self.on_always is not None:
            self.on_always(text, rules)

    def may_start(self, agent_type: str) -> bool:
        """Return True when no rule forbids agents of that type; a lead that only coordinates may start teammates."""
        access = Access(subject=agent_type, harmless=True, starts_teammate=True)
        return self.session.decide("Agent", access).verdict is not Verdict.DENY

    def lead_may(self, tool: str, access: Access) -> bool:
        """Return True when the lead may allow its members this call: its own policy or the user's setting allows it."""
        if self.lead_answers:
            return True
        lead = self.session.with_mode(self.session.effective_mode) if self.session.is_delegating else self.session
        return lead.decide(tool, access).verdict is Verdict.ALLOW
