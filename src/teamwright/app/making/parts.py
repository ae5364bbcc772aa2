"""What all agents of a session share, and the parts that each of them is made of: model, gate, toolbox, conversation.

Knows all rooms below; refuses to know by which route an agent comes, and what it may do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from teamwright.agent.activity import Watchdog
from teamwright.agent.agent import Agent
from teamwright.agent.compacting.state import CompactSettings
from teamwright.agent.conversation import Conversation
from teamwright.agent.definition import AgentDefinition
from teamwright.agent.gate import Denial, Gate, Grant
from teamwright.agent.instructions import Instruction
from teamwright.agent.limits import SpawnLimits
from teamwright.agent.prefix import Birth, Births
from teamwright.agent.reminders import ModeReminder, Role
from teamwright.agent.system_prompt import SessionPart, Surroundings
from teamwright.agent.tool import AnyTool
from teamwright.agent.toolbox import CallNumbers, Toolbox
from teamwright.agent.transcript import TAG_KEY, key_in
from teamwright.agent.workplace import Edits, Workplace
from teamwright.app.agents.resolving import Resolver, asked_for_by, required_effort, without
from teamwright.app.compacting.making import Compacting
from teamwright.app.kit import Kit
from teamwright.app.making.policies import Born, Policies
from teamwright.app.models_of import ModelSource, require_price
from teamwright.app.plans import Plans
from teamwright.app.serving.serving import attach
from teamwright.app.skills.born import alone_without_agents
from teamwright.app.spending.meter import Meters
from teamwright.app.spending.purse import Purse
from teamwright.hooks.payload import Who
from teamwright.models.effort import Effort, effort_of, taken
from teamwright.models.model import Model, ModelCard, Prefix
from teamwright.models.prefix import prefix_moved
from teamwright.permissions.decide import Policy
from teamwright.permissions.verdict import Asker
from teamwright.protocol.blocks import Block
from teamwright.protocol.budget import NO_CAPS, Budget
from teamwright.protocol.envelope import new_key
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.events import Attended, Emit, Notice, always
from teamwright.protocol.ids import LEAD, SessionId
from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.team import Team


@dataclass(slots=True)
class Parts:
    """Everything that all agents of a session share, and the parts of one, each made of that."""

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
    each_rounds: int | None = None
    """Model calls of each other agent in this run, where it has no other cap."""
    effort: Effort | None = None
    """The lead's, as a flag or a program said it for this run."""
    appended: str = ""
    tag_key: str = field(default_factory=new_key)
    """The key of the runtime's tags, for agents that begin in this process."""
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

    async def _open(
        self, name: str | None, agent: str, budget: Budget = NO_CAPS, spec: SpawnSpec | None = None
    ) -> Model:
        """The model for an agent. Raises CannotStart, also when money is capped and its price is not known."""
        try:
            model = await self.models.open(name, agent)
        except CannotStart as problem:
            raise asked_for_by(problem, spec) if spec is not None else problem from None
        require_price(self.purse.given.within(budget).usd, model.card)
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
        if conversation.lost is not None:
            member = str(conversation.header.get("member", LEAD))
            self.emit(Notice(member=member, text=str(conversation.lost), level="warning"))
        had = effort_of(prefix)
        if prefix.model != card.wire or effort not in {None, had}:
            if effort is None and had is not None and taken(card, had) is None:
                self.resolver.tell_once(f"the effort {had} of a resumed conversation is not used: {without(card)}")
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

    def _rounds_left(self, cap: int | None, conversation: Conversation) -> int | None:
        """Return the model calls that an agent has left, of its cap over all resumes, else of the run's cap."""
        return self.each_rounds if cap is None else max(0, cap - conversation.answers)

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
        known = {"session": self.session, "member": member, "agent_id": agent_id, **where}
        return {**known, TAG_KEY: self.tag_key}

    def _session_part(self, header: Mapping[str, Any] | None) -> SessionPart:
        """The session's part of a prompt; an agent that goes on keeps the key in its transcript's first line."""
        key = self.tag_key if header is None else key_in(header)
        return SessionPart(self.place, key, self.instructions)

    @property
    def prefixes(self) -> Path:
        """Where the session's prefixes are kept."""
        return _kept_in(self.home.session(self.cwd, self.session))[2]

    def _agent(
        self, name: str, agent_id: str, model: Model, conversation: Conversation, toolbox: Toolbox, rounds: int | None
    ) -> Agent:
        toolbox.key_of, toolbox.tags = conversation.key, conversation.tags
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
            watched=lambda: () if self.team is None else (self.team.tasks.directory,),
        )
        return made


@lru_cache(maxsize=8)
def _kept_in(session: Path) -> tuple[Path, Path, Path]:
    """Where a session keeps long outputs, former contents of files, and prefixes."""
    return session / "output", session / "history", session / "prefixes"
