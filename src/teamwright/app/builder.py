"""Makes agents: the one resolver of every route, from a spec to an agent that is ready for its first turn.

Fills the ports of `teams` and `tools`: whoever starts an agent, by whatever route, comes through here. Knows all
rooms below; knows no screen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias
from weakref import WeakValueDictionary

from teamwright.agent.activity import Watchdog
from teamwright.agent.agent import Agent
from teamwright.agent.compacting.state import CompactSettings
from teamwright.agent.conversation import Conversation
from teamwright.agent.definition import LEAD_ONLY, NOT_FOR_SUBAGENTS, TEAMMATE_TOOLS, AgentDefinition, prompt
from teamwright.agent.gate import Denial, Gate, Grant
from teamwright.agent.instructions import Instruction
from teamwright.agent.limits import SpawnLimits
from teamwright.agent.plan_mode import Leaving
from teamwright.agent.prefix import Birth, Births, load_conversation
from teamwright.agent.reminders import ModeReminder, Role
from teamwright.agent.system_prompt import Surroundings, lead_prompt, subagent_prompt, teammate_prompt
from teamwright.agent.tool import AnyTool
from teamwright.agent.toolbox import CallNumbers, Toolbox
from teamwright.agent.transcript import read_header
from teamwright.agent.workplace import Edits, Workplace
from teamwright.app.agents.forks import before, begin_fork, kind_of
from teamwright.app.agents.resolving import Resolver, asked_for_by, required_effort, without
from teamwright.app.compacting.making import Compacting
from teamwright.app.definition.applying import roles_text
from teamwright.app.kit import Kit
from teamwright.app.models_of import ModelSource, require_price
from teamwright.app.plans import Plans
from teamwright.app.policies import Born, Policies
from teamwright.app.serving.serving import attach
from teamwright.app.skills.born import alone_without_agents, equipped
from teamwright.app.spending.meter import Meters
from teamwright.app.spending.purse import Purse
from teamwright.hooks.payload import LEAD as LEAD_KIND
from teamwright.hooks.payload import SUBAGENT, TEAMMATE, Who
from teamwright.models.effort import Effort, effort_of, taken
from teamwright.models.model import Model, ModelCard, Prefix
from teamwright.models.prefix import prefix_moved
from teamwright.permissions.decide import Policy
from teamwright.permissions.verdict import Asker
from teamwright.protocol.blocks import Block
from teamwright.protocol.budget import NO_CAPS, Budget
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.events import Attended, Emit, always
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, SessionId
from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home
from teamwright.teams.agents.run import Run
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.team import Team, blocking
from teamwright.teams.team_file import Life
from teamwright.tools.team.caller import Caller

Waiting: TypeAlias = Callable[[str | None], None]


@dataclass(slots=True)
class Maker:
    """Everything that all agents of a session share, and how one is made of it."""

    home: Home
    session: SessionId
    cwd: Path
    models: ModelSource
    kit: Kit
    policies: Policies
    asker: Asker
    purse: Purse
    emit: Emit
    limits: SpawnLimits
    place: Surroundings
    instructions: Sequence[Instruction]
    env: dict[str, str] = field(default_factory=dict[str, str])
    nested: Callable[[], Callable[[Path], str]] | None = None
    """Makes, for one agent, what the instructions of deeper directories say at their first touch."""
    max_rounds: int | None = None
    effort: Effort | None = None
    """The lead's, as a flag or a program said it for this run."""
    appended: str = ""
    numbers: CallNumbers = field(default_factory=CallNumbers)
    edits: Edits = field(default_factory=Edits)
    denials: list[Denial] = field(default_factory=list[Denial])
    attended: Attended = always
    team: Team | None = None
    born: WeakValueDictionary[str, Born] = field(default_factory=WeakValueDictionary[str, "Born"])
    """What a sub-agent takes over from its caller, by the caller's name, as long as the caller lives."""
    living: WeakValueDictionary[str, Agent] = field(default_factory=WeakValueDictionary[str, Agent])
    """The agents by name, as long as they live."""
    watchdog: Watchdog | None = None
    grant: Grant | None = None
    """Keeps what a person grants along with a yes."""
    mode_untold: bool = False
    """Whether the mode may be another than the lead's conversation knows of."""
    may_bypass: bool = False
    """Whether a person allowed bypassPermissions at the start: nobody can later."""
    resolver: Resolver = field(default_factory=Resolver)
    compact: CompactSettings = field(default_factory=CompactSettings)
    births: Births = field(default_factory=Births)
    first: Born = field(init=False)
    """What the lead's sub-agents take over from it."""
    meters: Meters = field(init=False)
    plans: Plans = field(init=False)
    compacting: Compacting = field(init=False)

    def __post_init__(self) -> None:
        self.plans = Plans(self.asker, self.emit)
        self.first = Born(lambda: self.policy, None)
        self.meters = Meters(self.purse)
        self.compacting = Compacting(self.compact, self.kit, self.nested)

    @property
    def policy(self) -> Policy:
        """The session's."""
        return self.policies.session

    # ── the three routes ──────────────────────────────────────────────────────────────────────────────────────

    async def lead(self, team: Team, conversation: Conversation | None = None) -> Agent:
        """The lead: a new conversation, or the one that is resumed."""
        model = await self._open(None, LEAD)
        self.team = team
        self.plans.lead_team(team)
        policy = self.policies.fenced(self.policy, "")
        record = self.home.session(self.cwd, self.session) / "plans" / f"{LEAD}.json"
        plan = self.plans.mode_of(self.policy, self.home.plans, record, lead=True, gate=policy)

        async def tools() -> list[AnyTool]:
            own = [*self.kit.tools(Caller(LEAD, team)), *self.kit.plan_tools(LEAD, plan, self.plans)]
            return self._shown([*own, *await self.kit.served(self.policy.hides)])

        def system() -> list[Block]:
            appended = "\n\n".join(part for part in (roles_text(self.policies.definition), self.appended) if part)
            return lead_prompt(self.kit.teams, self.place, self.instructions, appended)

        toolbox = self._toolbox(
            LEAD, await tools(), model, self._gate(replace(self.first, policy=lambda: policy, shown=LEAD))
        )
        if conversation is None:
            prefix = self._prefix(model, system(), toolbox, self._lead_effort(model.card))
            conversation = self._begin(self._transcript, LEAD, LEAD, prefix, toolbox, model)
        else:
            wanted = None if self.effort is None else required_effort(model.card, self.effort)
            conversation = self._go_on(conversation, model, wanted)
        made = self._agent(LEAD, LEAD, model, conversation, toolbox, self.max_rounds)
        self.first.effort = made.effort
        made.plan = self.plans.born(LEAD, plan, toolbox.workplace, new=conversation.lines <= 1, begins=plan.on)
        who = Who(self.session, conversation.path, LEAD_KIND, LEAD, LEAD, own=conversation.path)
        made = self._watched(self._reminded(self._hooked(made, who, LEAD), policy, Role.LEAD))
        return self.compacting.of(made, team, system, self.prefixes, tools)

    async def teammate(self, spec: SpawnSpec, team: Team, life: Life) -> Agent:
        """A teammate of the team (port of `teams`): new, or going on with the transcript of its life."""
        kind = self.resolver.kind(spec)
        budget = spec.budget.within(self.purse.each)
        model = await self._open(spec.model, spec.name, budget)
        path = Path(life.transcript)
        goes_on, prefixes = read_header(path) is not None, path.parent.parent / "prefixes"
        effort = None if goes_on else self.resolver.effort(spec, kind, model.card, self.first.effort)
        caller = Caller(spec.name, team)
        policy = self.policies.of(spec, lambda: self.policy, kind.name, kind.denied)
        kind = equipped(kind, policy(), self.kit.shelf, self.home.ours, self.emit)
        born = Born(policy, spec.model, kind.name, kind.disallowed_tools, kind.read_only)
        born.definition, born.root = kind, spec.name
        born.shown, born.waiting = spec.name, blocking(team, spec.name)
        self.born[spec.name] = born
        plan = self.plans.mode_of(policy(), self.home.plans, path.parent.parent / "plans" / f"{path.stem}.json")

        async def tools() -> list[AnyTool]:
            own = [t for t in self.kit.tools(caller) if t.name not in LEAD_ONLY]
            own = [t for t in own if kind.allows(t.name) or t.name in TEAMMATE_TOOLS]
            own += self.kit.plan_tools(spec.name, plan, self.plans)
            return self._shown([*own, *await self.kit.served(self.policy.hides, kind)])

        def system() -> list[Block]:
            return teammate_prompt(spec.name, team.name, kind, self.place, self.instructions)

        gate = self._gate(born)
        toolbox = self._toolbox(spec.name, await tools(), model, gate, spec.cwd)
        agent_id = f"{spec.name}@{team.name}"
        if goes_on:
            conversation = self._go_on(load_conversation(path, prefixes), model)
        else:
            prefix = self._prefix(model, system(), toolbox, effort)
            conversation = self._begin(path, spec.name, agent_id, prefix, toolbox, model)
        rounds = budget.within(Budget(turns=spec.max_turns)).turns
        left = None if rounds is None else max(0, rounds - conversation.answers)  # a cap for its life, not for a run
        made = self._watched(self._agent(spec.name, agent_id, model, conversation, toolbox, left))
        born.effort = made.effort
        activity = made.activity  # what counts its time outlives the member, and must not keep it
        made.plan = self.plans.born(spec.name, plan, toolbox.workplace, new=not goes_on, begins=spec.plans)
        made.meter = self.meters.member(spec.name, budget, lambda: activity.worked_s, goes_on=goes_on)
        who = Who(self.session, self._transcript, TEAMMATE, spec.name, agent_id, kind.name, team.name, LEAD_ALIAS)
        who = replace(who, generation=life.incarnation, own=path)
        made = self._reminded(self._hooked(made, who, spec.name, kind), born.now(), Role.MEMBER)
        return self.compacting.of(made, team, system, prefixes, tools)

    async def subagent(self, spec: SpawnSpec, caller: str, run: Run, *, goes_on: bool = False) -> Agent:
        """A sub-agent of a caller (port of `teams`): new, or with all of its conversation. Raises TeamwrightError."""
        spec, agent_id, path = self.resolved(spec), run.id, self.transcript_of(run.id)
        parent = self.born.get(caller, self.first)
        kind = kind_of(self.resolver.kind(spec), parent) if spec.fork else self.resolver.kind(spec)
        budget = spec.budget.within(self.purse.each)
        told = await before(spec, run, self.living.get(caller), path, self.prefixes, goes_on=goes_on)
        model = await self._open(spec.model or parent.model, caller, budget, spec)
        model = await told.model(model, lambda name: self._open(name, caller, budget))
        effort = None if told.talk is not None else self.resolver.effort(spec, kind, model.card, parent.effort)
        await self.limits.admit_subagent(parent.depth + 1)
        policy = self.policies.of(spec, parent.policy, kind.name if kind.role else parent.kind, kind.denied)
        kind = equipped(kind, policy(), self.kit.shelf, self.home.ours, self.emit, otherwise=prompt("base"))
        plan = self.plans.mode_of(policy(), self.home.plans, None)
        born = self.born[agent_id] = parent.child(kind, policy, spec.model, run)
        denied = (*NOT_FOR_SUBAGENTS, *parent.disallowed)
        below = None if spec.fork or born.depth >= self.limits.settings.depth else self.team
        tools = self.kit.subagent_tools(agent_id, below, parent.disallowed)
        tools = [t for t in (*tools, *self.kit.plan_tools(agent_id, plan, self.plans)) if kind.allows(t.name)]
        tools = told.tools([*tools, *await self.kit.served(self.policy.hides, kind, denied)])
        toolbox = self._toolbox(agent_id, self._shown(tools), model, self._gate(born), spec.cwd)
        system = subagent_prompt(kind, self.place, self.instructions)
        about = self._about(agent_id, agent_id, toolbox, model)
        if told.former is not None:
            conversation = self._go_on(told.former, model)
        elif told.origin is not None:
            conversation = begin_fork(told.origin, path, about, toolbox, self.prefixes)
        else:
            prefix = self._prefix(model, system, toolbox, effort)
            conversation = Conversation.start(path, prefix, about, with_next=True)
        rounds = budget.within(Budget(turns=spec.max_turns)).turns
        left = None if rounds is None else max(0, rounds - conversation.answers)
        made = self._agent(agent_id, agent_id, model, conversation, toolbox, left)
        activity, born.effort = made.activity, made.effort
        made.meter = self.meters.subagent(agent_id, caller, budget, lambda: activity.worked_s)
        made.parent_call, made.caller, made.policy, made.plan = run.call, caller, policy(), plan
        if spec.plans:
            plan.enter(Leaving.NEVER)
        whose = (SUBAGENT, agent_id, agent_id, kind.name, "", LEAD_ALIAS if caller == LEAD else caller)
        who = Who(self.session, self._transcript, *whose, run.generation, path)
        made = self._hooked(made, who, born.shown, kind)
        return self.compacting.of(made, None, lambda: system, self.prefixes, fork=spec.fork)

    def transcript_of(self, id: str) -> Path:
        """Where the transcript of a sub-agent lies (port of `teams`)."""
        return self.home.agent_transcript(self.cwd, self.session, id)

    async def wire_model(self, spec: SpawnSpec) -> str:
        """The model that a teammate will really use (port of `teams`). Raises UsageError for an effort it has not."""
        card = (await self._open(spec.model, spec.name, spec.budget, spec)).card
        self.resolver.effort(spec, self.resolver.kind(spec), card, self.first.effort)
        return card.name

    def resolved(self, spec: SpawnSpec) -> SpawnSpec:
        """The spec with what its role and its kind say (port of `teams` and of `tools`); a resolved one as it is.

        Raises UsageError for a kind that nobody knows, or that cannot be honoured.
        """
        return self.resolver.resolved(spec)

    async def _open(
        self, name: str | None, agent: str, budget: Budget = NO_CAPS, spec: SpawnSpec | None = None
    ) -> Model:
        """The model for an agent. Raises CannotStart, also when money is capped and its price is not known."""
        try:
            model = await self.models.open(name, agent)
        except CannotStart as problem:
            raise asked_for_by(problem, spec) if spec is not None else problem from None
        require_price(self.purse.budget.within(budget).usd, model.card)
        return model

    def _watched(self, agent: Agent) -> Agent:
        """The agent, with what it does told when it lasts."""
        if self.watchdog is not None:
            agent.activity = agent.toolbox.activity = self.watchdog.activity(agent.name)
        return agent

    def _reminded(self, agent: Agent, policy: Policy, role: Role) -> Agent:
        """The agent with its policy, reminded of its mode. The lead hears of another mode here, members by mail."""
        agent.policy = policy
        if role is Role.LEAD:
            policy.delegating = self.policy.delegating
            told = None if self.mode_untold else policy.shown_mode
            agent.remind = ModeReminder(lambda: policy.shown_mode, role, told, news=True)
        else:
            agent.remind = ModeReminder(lambda: policy.mode, role, None, news=False)
        return agent

    def _hooked(self, agent: Agent, who: Who, shown: str, kind: AgentDefinition | None = None) -> Agent:
        """The agent with its hooks and its kind's, if there are any. `shown` is who asks, as people read it."""
        if self.kit.hooking is None:
            return agent
        return self.kit.hooking.dress(agent, who, shown, self.denials, kind.hooks if kind is not None else ())

    @property
    def _transcript(self) -> Path:
        """The session's own."""
        return self.home.transcript(self.cwd, self.session)

    # ── the parts ─────────────────────────────────────────────────────────────────────────────────────────────

    def _go_on(self, conversation: Conversation, model: Model, effort: Effort | None = None) -> Conversation:
        """A conversation that is resumed: its prefix is sent as it was, but for another model, or another effort."""
        prefix, card = conversation.prefix, model.card
        had = effort_of(prefix)
        if prefix.model != card.wire or effort not in {None, had}:
            if effort is None and had is not None and taken(card, had) is None:
                self.resolver.tell_once(f"the effort {had} of a conversation that goes on is not used: {without(card)}")
            conversation.prefix = prefix_moved(prefix, card, self.kit.model_settings, effort=effort)
        return conversation

    def _lead_effort(self, card: ModelCard) -> Effort | None:
        """As a flag says, which must be possible, else as the settings say."""
        if self.effort is not None:
            return required_effort(card, self.effort)
        said = self.kit.model_settings.effort
        if said is not None and taken(card, said) is None:
            self.resolver.tell_once(f"the effort {said} of the settings is not used: {without(card)}")
        return taken(card, said)

    def _gate(self, born: Born) -> Gate:
        """What decides for an agent, as it was born."""
        kept = self.policies.keep_always
        made = Gate(born.shown, born.now, self.asker, self.denials, kept, waiting=born.waiting)
        made.read_only, made.owner = born.read_only, born.root
        made.lead_may, made.grant = self.policies.lead_may, self.grant
        return made

    def _shown(self, tools: Sequence[AnyTool]) -> list[AnyTool]:
        """Those of the tools that no rule hides."""
        return alone_without_agents([tool for tool in tools if not self.policy.hides(tool.name)])

    def _toolbox(
        self, member: str, tools: Sequence[AnyTool], model: Model, gate: Gate, cwd: Path | None = None
    ) -> Toolbox:
        output, history, _ = _kept_in(self.home.session(self.cwd, self.session))
        workplace = Workplace(
            cwd or self.cwd,
            self.policy.scope.directories,
            output,
            history,
            edits=self.edits,
            env=self.env,
            images=model.card.images,
            nested=self.nested() if self.nested is not None else None,
        )
        made = Toolbox(member, tools, workplace, gate=gate, numbers=self.numbers, emit=self.emit)
        made.attended, made.lets = self.attended, gate.lets
        attach(made)
        return made

    def _prefix(self, model: Model, system: list[Block], toolbox: Toolbox, effort: Effort | None) -> Prefix:
        return self.births.prefix(self.prefixes, Birth(model.card, self.kit.model_settings, effort), system, toolbox)

    def _begin(
        self, path: Path, member: str, agent_id: str, prefix: Prefix, toolbox: Toolbox, model: Model
    ) -> Conversation:
        return Conversation.start(path, prefix, self._about(member, agent_id, toolbox, model))

    def _about(self, member: str, agent_id: str, toolbox: Toolbox, model: Model) -> dict[str, str]:
        where = {"cwd": str(toolbox.workplace.cwd), "model": model.card.name}
        return {"session": self.session, "member": member, "agent_id": agent_id, **where}

    @property
    def prefixes(self) -> Path:
        """Where the session's prefixes are kept."""
        return _kept_in(self.home.session(self.cwd, self.session))[2]

    def _agent(
        self, name: str, agent_id: str, model: Model, conversation: Conversation, toolbox: Toolbox, rounds: int | None
    ) -> Agent:
        toolbox.key_of = conversation.key
        made = self.living[name] = Agent(
            name,
            agent_id,
            model,
            conversation,
            toolbox,
            self.meters.lead(),
            self.emit,
            rounds_left=rounds,
            attended=self.attended,
            activity=toolbox.activity,
            policy=self.policy,
            effort=effort_of(conversation.prefix),
        )
        return made


@lru_cache(maxsize=8)
def _kept_in(session: Path) -> tuple[Path, Path, Path]:
    """Where a session keeps long outputs, former contents of files, and prefixes."""
    return session / "output", session / "history", session / "prefixes"
