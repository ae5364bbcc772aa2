"""The construction of a teammate: new, or with the conversation of its incarnation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.agent.agent import Agent
from teamwright.agent.agent_type import LEAD_ONLY, TEAMMATE_TOOLS
from teamwright.agent.conversation import Conversation
from teamwright.agent.plan_mode import ModeReminder, ReminderRole
from teamwright.agent.prompt import load_conversation, teammate_identity, teammate_prompt
from teamwright.agent.tool import AnyTool
from teamwright.agent.transcript import read_header
from teamwright.hooks.payload import TEAMMATE, HookAgent
from teamwright.models.model import ModelCard
from teamwright.protocol.ids import LEAD_ALIAS
from teamwright.protocol.messages import Block
from teamwright.session.agents.factory_parts import allow_memory, start_reading_state, with_skills
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.blocked_state import blocked_callback
from teamwright.teams.team import SessionTeam
from teamwright.tools.caller import Caller

if TYPE_CHECKING:
    from teamwright.session.agents.factory import AgentFactory
    from teamwright.team_records.team_state import Incarnation


async def build_teammate(factory: AgentFactory, spec: SpawnSpec, team: SessionTeam, incarnation: Incarnation) -> Agent:
    """Build a teammate: new, or with the transcript of its incarnation. Raises TeamwrightError."""
    kind = factory.resolver.definition(spec)
    budget = spec.budget.smaller_caps(factory.budget_tracker.each)
    model = factory.offer_search(await factory.open_model(spec.model, spec.name, budget))
    await factory.open_fallback()
    path = Path(incarnation.transcript)
    prefixes = path.parent.parent / "prefixes"
    is_new = read_header(path) is None
    lead = factory.lead_inheritance
    git = start_reading_state(spec.cwd or factory.work_directory) if is_new else None
    effort = factory.resolver.resolve_effort(spec, kind, model.card, lead.effort) if is_new else None
    place = await factory.place_of(spec)
    await factory.policies.read_tasks(team)
    policy = factory.policies.make_policy(spec, lambda: factory.policy, kind.name, kind.denied, place, spec.name)
    kind = with_skills(kind, factory.toolset.shelf, factory.emit)
    allow_memory(kind, policy(), factory.home.own, factory.emit)
    inherited = lead.for_member(spec, kind, policy, blocked_callback(team, spec.name))
    inherited.place = place
    inherited.cwd = spec.cwd if place is None and spec.cwd not in {None, factory.work_directory} else None
    factory.inheritances[spec.name] = inherited
    record = path.parent.parent / "plans" / f"{path.stem}.json"
    plan = factory.plans.make_plan_mode(policy(), factory.home.plans, record, name=spec.name)

    async def tools(card: ModelCard) -> list[AnyTool]:
        allowed = [
            tool
            for tool in factory.toolset.tools(Caller(spec.name, team))
            if tool.name not in LEAD_ONLY and (kind.allows(tool.name) or tool.name in TEAMMATE_TOOLS)
        ]
        allowed += factory.toolset.plan_tools(spec.name, plan, factory.plans)
        return await factory.offered_tools(allowed, card, kind, inherited)

    def system(card: ModelCard) -> list[Block]:
        return teammate_prompt(kind, compact=factory.toolset.is_compact(card, kind))

    who = HookAgent(
        factory.session,
        factory.transcript,
        TEAMMATE,
        spec.name,
        f"{spec.name}@{team.name}",
        kind.name,
        team.name,
        LEAD_ALIAS,
        generation=incarnation.incarnation,
        own=path,
    )
    workplace = factory.make_workplace(inherited, model, None if place is not None else spec.cwd)
    offered = await tools(model.card)
    if git is None:
        make_prefix = partial(factory.new_prefix, model, system(model.card), offered)
        conversation = factory.continue_conversation(load_conversation(path, prefixes), model, kind, make_prefix)
    else:
        prefix = factory.new_prefix(model, system(model.card), offered, effort)
        conversation = Conversation.start(path, prefix, factory.header(who, model, workplace, await git))
    activity = factory.make_activity(who)
    return factory.make_agent(
        who=who,
        model=model,
        inherited=inherited,
        workplace=workplace,
        activity=activity,
        tools=offered,
        conversation=conversation,
        meter=factory.meters.member(spec.name, budget, lambda: activity.worked_s, is_resumed=not is_new),
        plan=factory.plans.restore_plan_mode(spec.name, plan, workplace, new=is_new, begins=spec.starts_in_plan_mode),
        compaction=factory.compacting.make(team, kind, system, prefixes, tools),
        model_calls_left=factory.rounds_left(spec, budget, conversation),
        remind=ModeReminder(lambda: inherited.current_policy().mode, ReminderRole.MEMBER, None, announces=False),
        session_note=lambda: factory.session_note_text(
            policy(), kind, inherited, teammate_identity(spec.name, team.name)
        ),
    )
