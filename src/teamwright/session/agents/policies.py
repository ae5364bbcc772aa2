"""The policies of agents: the session's, and the narrower one of each agent.

An agent's policy never allows more than its caller's present policy; path ownership restricts it further: that of its
role, and the paths that its tasks in progress declare. Permanent grants of a person reach all policies. Depends on
rules, roles and tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakSet

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent_type import AgentType
from teamwright.config.team_file import TeamDefinition, ownership_of, ownership_of_tasks
from teamwright.models.effort import Effort
from teamwright.permissions.decision_context import PathOwnership, PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import Access, Decision, Mode, Verdict
from teamwright.protocol.events import TaskChanged, TaskInfo, TeamChanged, TeamEvent
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.task import TaskStatus
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings, narrow
from teamwright.tasks.task_rules import is_owner, task_info

if TYPE_CHECKING:
    from teamwright.hooks.hook_definitions import HookSpec
    from teamwright.session.agents.agent_workspace import AgentWorkspace
    from teamwright.subagents.subagent_run import MarkBlocked, SubagentRun
    from teamwright.tasks.task_store import ExternalTaskChange
    from teamwright.team_records.spawn_spec import SpawnSpec
    from teamwright.teams.team import SessionTeam


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
    display_name: str = LEAD_ALIAS
    """The agent's name in requests, as shown to people, with all agents above it."""
    root: str = LEAD
    """The lead or member that the agent works for, and that waits for its requests."""
    place: AgentWorkspace | None = None
    """The worktree in which the agent works."""
    cwd: Path | None = None
    """The directory that a call named for the agent or one above it; None: that of its worktree or its session."""
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
            display_name=spec.name,
            root=spec.name,
            sandbox=narrow(self.sandbox, kind.sandbox),
            waiting=waiting,
        )

    def role_of(self, kind: AgentType) -> str:
        """Return the role whose path ownership applies to a sub-agent of this type: its own, else its caller's."""
        return kind.name if kind.role else self.kind

    def child(
        self,
        kind: AgentType,
        policy: Callable[[], Policy],
        model: str | None,
        run: SubagentRun,
        *,
        place: AgentWorkspace | None,
        cwd: Path | None,
    ) -> Inheritance:
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
            place=place,
            cwd=cwd,
            display_name=f"{self.display_name} › {kind.name}: {run.description}",
            root=self.root,
            sandbox=narrow(self.sandbox, kind.sandbox),
            waiting=None if self.waiting is None else run.block_caller(self.waiting),
        )


OnAlways: TypeAlias = Callable[[str, tuple[Rule, ...]], None]
"""Receives the text of an "always" that was answered, and its rules."""


class AgentPolicies(Struct):
    """The policies of a session. `session` is the lead's without path ownership; `definition` has the roles' paths."""

    session: Policy
    definition: TeamDefinition | None = None
    lead_answers: bool = False
    """True when a user's setting lets the lead allow all requests of its members."""
    on_always: OnAlways | None = None
    """Called for each "always" that was answered here, when another process has the session's policy."""
    derived: WeakSet[Policy] = field(default_factory=WeakSet[Policy])
    """The policies of live agents."""
    _task_bounds: dict[str, Policy] = field(default_factory=dict[str, Policy])
    """The policies that bound the writes of the lead and of members by their tasks, by name."""
    _tasks_at_work: dict[str, TaskInfo] = field(default_factory=dict[str, TaskInfo])
    """The tasks in progress that declare paths, by id."""
    _task_events: int = 0

    def __iter__(self) -> Iterator[Policy]:
        yield self.session
        yield from self.derived

    def make_policy(
        self,
        spec: SpawnSpec,
        above: Callable[[], Policy],
        kind: str,
        denied: Sequence[str],
        place: AgentWorkspace | None,
        root: str,
    ) -> Callable[[], Policy]:
        """Return a function for the agent's policy, which never allows more than the caller's present policy.

        `kind` is the role with its path ownership, or empty; `denied` are the deny rules of its definition; `place` is
        its worktree; `root` is the lead or member that it is or works for, whose tasks bound its writes.
        """
        mode = Mode.BUBBLE if spec.mode is None else Mode(spec.mode)
        rules = () if mode is Mode.BUBBLE else self.session.rules
        rules += parse_rules(denied, Verdict.DENY, f"agent type {spec.agent_type}", self.session.scope.base)
        own = self.with_ownership(Policy(mode, rules, self.session.scope, (above(),)), kind, root)
        if place is not None:
            own = own.in_worktree(place.scope)
        self.derived.add(own)
        return lambda: own

    def with_ownership(self, policy: Policy, kind: str, root: str) -> Policy:
        """Return the policy with the path ownership of this kind, or of agents without a role, and of `root`'s tasks.

        The lead's own path ownership does not apply to teammates that it starts, which have theirs.
        """
        owned = ownership_of(self.definition, kind, self._owner_base)
        owners = Policy(Mode.BYPASS, (), self._bounding_scope(owned), bounds_writes=True)
        if (bounds := self._task_bounds.get(root)) is None:
            bounds = self._task_bounds[root] = Policy(Mode.BYPASS, bounds_writes=True)
            self._bound_writes(root)
        if policy is self.session:
            return policy.bounded_by(owners, bounds)
        return policy.narrow_to(owners).narrow_to(bounds)

    def _bounding_scope(self, owned: PathOwnership | None) -> PermissionScope:
        return replace(self.session.scope, private=(), ownership=owned)

    async def read_tasks(self, team: SessionTeam) -> None:
        """Bound the writes of all owners by their present tasks, as after a resume. Raises StorageError."""
        while True:
            events = self._task_events
            tasks = await team.tasks.all()
            if events == self._task_events:  # else an event is newer than what was read
                break
        self._tasks_at_work.clear()
        self.note_tasks(map(task_info, tasks))

    def note_event(self, _number: int, event: TeamEvent) -> None:
        """Follow the tasks of the team."""
        if isinstance(event, TaskChanged):
            self.note_tasks([event.task])
        elif isinstance(event, TeamChanged) and event.change == "deleted":
            self._tasks_at_work.clear()
            self.note_tasks(())

    def note_outside_change(self, change: ExternalTaskChange) -> None:
        """Follow a change of the task list by another process."""
        if (task := change.after or change.before) is not None:
            self.note_tasks([task_info(task, deleted=change.after is None)])

    def note_tasks(self, tasks: Iterable[TaskInfo]) -> None:
        """Bound the writes of these tasks' owners from the next call on, and of their sub-agents."""
        self._task_events += 1
        before = dict(self._tasks_at_work)
        for task in tasks:
            self._tasks_at_work.pop(task.id, None)
            if task.writes and task.status == TaskStatus.IN_PROGRESS:
                self._tasks_at_work[task.id] = task
        if self._tasks_at_work != before:
            for name in self._task_bounds:
                self._bound_writes(name)

    def _bound_writes(self, name: str) -> None:
        writes = {task.id: task.writes for task in self._tasks_at_work.values() if is_owner(task.owner, name)}
        owned = ownership_of_tasks(self.definition, writes, self._owner_base)
        self._task_bounds[name].change_scope(self._bounding_scope(owned))

    @property
    def _owner_base(self) -> Path:
        """The directory to which the paths of roles and tasks refer, also when the session works in a worktree."""
        scope = self.session.scope
        return scope.base if scope.worktree is None else scope.worktree.checkout

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

    def lead_may(self, tool: str, access: Access, decision: Decision) -> bool:
        """Return True when the lead may allow its members a call with this decision: the user's setting allows it, or
        the lead's own policy does and no person must answer.
        """
        if self.lead_answers or decision.needs_person:
            return self.lead_answers
        lead = self.session.with_mode(self.session.effective_mode) if self.session.is_delegating else self.session
        return lead.decide(tool, access).verdict is Verdict.ALLOW
