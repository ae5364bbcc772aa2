"""Makes agents: the one resolver of every route, from a spec to an agent that is ready for its first turn.

Fills the ports of `teams` and `tools`: whoever starts an agent, by whatever route, comes through here. Below it: the
parts. Knows no screen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from teamwright.agent.agent import Agent, never
from teamwright.agent.conversation import Conversation
from teamwright.agent.definition import LEAD_ONLY, NOT_FOR_SUBAGENTS, TEAMMATE_TOOLS, prompt
from teamwright.agent.plan_mode import Leaving
from teamwright.agent.prefix import load_conversation
from teamwright.agent.reminders import Role
from teamwright.agent.system_prompt import lead_prompt, subagent_prompt, teammate_prompt
from teamwright.agent.tool import AnyTool
from teamwright.agent.transcript import read_header
from teamwright.app.agents.forks import before, begin_fork, kind_of
from teamwright.app.agents.resolving import required_effort
from teamwright.app.definition.applying import roles_text
from teamwright.app.making.parts import Parts
from teamwright.app.making.policies import Born
from teamwright.app.skills.born import equipped
from teamwright.hooks.payload import LEAD as LEAD_KIND
from teamwright.hooks.payload import SUBAGENT, TEAMMATE, Who
from teamwright.protocol.blocks import Block
from teamwright.protocol.budget import Budget
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.values import dataclass
from teamwright.teams.agents.run import Run
from teamwright.teams.incarnation import Life
from teamwright.teams.spec import SpawnSpec
from teamwright.teams.team import Team, blocking
from teamwright.tools.team.caller import Caller


@dataclass(slots=True)
class Maker(Parts):
    """The three routes: the lead, a teammate, a sub-agent."""

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

        header = conversation.header if conversation is not None else None

        def system() -> list[Block]:
            appended = "\n\n".join(part for part in (roles_text(self.policies.definition), self.appended) if part)
            return lead_prompt(self.kit.teams, self._session_part(header), appended)

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
        self.first.effort, made.waits_long = made.effort, lambda: bool(team.live)
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
        header, prefixes = read_header(path), path.parent.parent / "prefixes"
        goes_on = header is not None
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
            return teammate_prompt(spec.name, team.name, kind, self._session_part(header))

        gate = self._gate(born)
        toolbox = self._toolbox(spec.name, await tools(), model, gate, spec.cwd)
        agent_id = f"{spec.name}@{team.name}"
        if goes_on:
            conversation = self._go_on(load_conversation(path, prefixes), model)
        else:
            prefix = self._prefix(model, system(), toolbox, effort)
            conversation = self._begin(path, spec.name, agent_id, prefix, toolbox, model)
        rounds = budget.within(Budget(turns=spec.max_turns)).turns
        left = self._rounds_left(rounds, conversation)
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
        system = subagent_prompt(kind, self._session_part(told.header))
        about = self._about(agent_id, agent_id, toolbox, model)
        if told.former is not None:
            conversation = self._go_on(told.former, model)
        elif told.origin is not None:
            conversation = begin_fork(told.origin, path, about, toolbox, self.prefixes)
        else:
            prefix = self._prefix(model, system, toolbox, effort)
            conversation = Conversation.start(path, prefix, about, with_next=True)
        rounds = budget.within(Budget(turns=spec.max_turns)).turns
        left = self._rounds_left(rounds, conversation)
        made = self._agent(agent_id, agent_id, model, conversation, toolbox, left)
        activity, born.effort, made.waits_long = made.activity, made.effort, self._waits_long(spec, caller)
        made.meter = self.meters.subagent(agent_id, caller, budget, lambda: activity.worked_s)
        made.parent_call, made.caller, made.policy, made.plan = run.call, caller, policy(), plan
        if spec.plans:
            plan.enter(Leaving.NEVER)
        whose = (SUBAGENT, agent_id, agent_id, kind.name, "", LEAD_ALIAS if caller == LEAD else caller)
        who = Who(self.session, self._transcript, *whose, run.generation, path)
        made = self._hooked(made, who, born.shown, kind)
        return self.compacting.of(made, None, lambda: system, self.prefixes, fork=spec.fork)

    def _waits_long(self, spec: SpawnSpec, caller: str) -> Callable[[], bool]:
        """A fork's requests have the cache breakpoints of its caller's; no other sub-agent waits."""
        above = self.living.get(caller) if spec.fork else None
        return above.waits_long if above is not None else never

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
