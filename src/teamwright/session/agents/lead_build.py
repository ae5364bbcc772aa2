"""The construction of the lead: with a new conversation, or with that of a resumed session."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from teamwright.agent.agent import Agent
from teamwright.agent.agent_type import TEAMMATE_TOOLS, AgentType, load_prompt
from teamwright.agent.conversation import Conversation
from teamwright.agent.plan_mode import ModeReminder, ReminderRole
from teamwright.agent.prompt import lead_prompt
from teamwright.agent.tool import AnyTool
from teamwright.agent.transcript import WORKTREE_KEY
from teamwright.config.agent_type_fields import INHERIT
from teamwright.config.team_file import roles_text
from teamwright.hooks.payload import LEAD as LEAD_KIND
from teamwright.hooks.payload import HookAgent
from teamwright.models.effort import Effort, effort_for_tokens, supported_effort
from teamwright.models.model import ModelCard
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import Verdict
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import Block
from teamwright.sandbox.policy import narrow
from teamwright.session.agents.factory_parts import allow_memory, start_reading_state, with_skills
from teamwright.session.agents.specs import missing_effort, require_possible, required_effort
from teamwright.teams.team import SessionTeam
from teamwright.tools.caller import Caller

if TYPE_CHECKING:
    from teamwright.git.git_calls import GitState
    from teamwright.session.agents.factory import AgentFactory


TYPE_KEY = "agent_type"
"""The key of the lead's agent type in the first line of its transcript."""


async def build_lead(
    factory: AgentFactory, team: SessionTeam, start: Conversation | Awaitable[GitState | None]
) -> Agent:
    """Build the lead with the resumed conversation, or with a new one in a repository of that state."""
    kind = _find_kind(factory, start.header if isinstance(start, Conversation) else None)
    if kind is not None and kind.model not in {None, INHERIT}:
        factory.models.use_type_model(str(kind.model))
    model = factory.offer_search(await factory.open_model(None, LEAD))
    await factory.open_fallback()
    factory.lead_team(team)
    await factory.policies.read_tasks(team)
    role = kind.name if kind is not None and kind.role else ""
    policy = factory.policies.with_ownership(factory.policy, role, LEAD)
    record = factory.session_directory / "plans" / f"{LEAD}.json"
    plan = factory.plans.make_plan_mode(factory.policy, factory.home.plans, record, name=LEAD, gate=policy)

    async def tools(card: ModelCard) -> list[AnyTool]:
        own = [
            tool
            for tool in factory.toolset.tools(Caller(LEAD, team))
            if kind is None or kind.allows(tool.name) or tool.name in TEAMMATE_TOOLS
        ]
        own += factory.toolset.plan_tools(LEAD, plan, factory.plans)
        return await factory.offered_tools(own, card, kind, factory.lead_inheritance)

    def system(card: ModelCard) -> list[Block]:
        appended = "\n\n".join(part for part in (roles_text(factory.policies.definition), factory.appended) if part)
        base = factory.base or (kind.prompt if kind is not None else "")
        compact = factory.toolset.is_compact(card, kind)
        return lead_prompt(factory.toolset.teams, appended, base, compact=compact)

    who = HookAgent(factory.session, factory.transcript, LEAD_KIND, LEAD, LEAD, own=factory.transcript)
    inherited = replace(factory.lead_inheritance, policy=lambda: policy, display_name=LEAD)
    workplace = factory.make_workplace(inherited, model)
    own = await tools(model.card)
    if isinstance(start, Conversation):
        asks = factory.effort is not None or factory.thinking_tokens is not None
        effort = _find_effort(factory, model.card) if asks else None
        make_prefix = partial(factory.new_prefix, model, system(model.card), own)
        conversation = factory.continue_conversation(start, model, kind, make_prefix, effort)
    else:
        prefix = factory.new_prefix(model, system(model.card), own, _find_effort(factory, model.card, kind))
        state = start if factory.worktree is None else start_reading_state(factory.work_directory)
        header = factory.header(who, model, workplace, await state)
        conversation = Conversation.start(factory.transcript, prefix, {**header, **_own_header(factory, kind)})
    known_mode = None if factory.mode_untold else policy.display_mode
    agent = factory.make_agent(
        who=who,
        model=model,
        inherited=inherited,
        workplace=workplace,
        activity=factory.make_activity(who),
        tools=own,
        conversation=conversation,
        meter=factory.meters.lead(),
        plan=factory.plans.restore_plan_mode(LEAD, plan, workplace, new=conversation.lines <= 1, begins=plan.is_on),
        compaction=factory.compacting.make(team, kind, system, factory.prefixes, tools),
        model_calls_left=factory.max_rounds if kind is None or factory.max_rounds is not None else kind.max_turns,
        remind=ModeReminder(lambda: policy.display_mode, ReminderRole.LEAD, known_mode, announces=True),
        session_note=lambda: factory.session_note_text(policy, kind, factory.lead_inheritance),
        wants_hour_cache=lambda: bool(team.running_members),
    )
    factory.lead_inheritance.effort = agent.effort
    return agent


def _find_kind(factory: AgentFactory, header: Mapping[str, Any] | None) -> AgentType | None:
    """Return the lead's agent type, of the flag, the settings or its resumed conversation; None without one.

    Its deny rules apply to all agents from now on. Raises UsageError for an agent type that is unknown or cannot be
    honoured, and for another one than that of the resumed conversation.
    """
    chosen = factory.lead_type or factory.usual_lead_type
    stored = chosen if header is None else str(header.get(TYPE_KEY, ""))
    if factory.lead_type and factory.lead_type.lower() != stored.lower():
        had = f"with the agent type {stored}" if stored else "without an agent type"
        raise UsageError(
            "usage",
            f"this session began {had}, which does not change",
            looked_at=[("flag", f"--agent {factory.lead_type[:80]}")],
            do=["leave --agent out", f"a new session: teamwright --agent {factory.lead_type[:80]}"],
            note="nothing was started",
        )
    if not stored:
        return None
    try:
        kind = factory.resolver.agent_types.find(stored)
        require_possible(kind)
    except UsageError as problem:
        if factory.lead_type or header is not None:
            raise
        factory.resolver.notify_once(f"the setting agent ({stored[:80]}) is not used: {problem.what}")
        return None
    source = f"agent type {kind.name}"
    factory.policy.add_rules(*parse_rules(kind.denied, Verdict.DENY, source, factory.policy.scope.base))
    kind = with_skills(kind, factory.toolset.shelf, factory.emit, otherwise=load_prompt("base"))
    allow_memory(kind, factory.policy, factory.home.own, factory.emit)
    if kind.mode is not None:
        factory.resolver.notify_once(f"the mode {kind.mode} of {source} is not used: the lead has the session's mode")
    lead = factory.lead_inheritance
    lead.definition = kind
    lead.read_only = kind.read_only
    lead.disallowed = kind.disallowed_tools
    lead.kind = kind.name if kind.role else ""
    lead.sandbox = narrow(lead.sandbox, kind.sandbox)
    return kind


def _find_effort(factory: AgentFactory, card: ModelCard, kind: AgentType | None = None) -> Effort | None:
    """Return the effort of a flag, which the model must support, else of the lead's type, else of the settings."""
    if factory.effort is not None:
        return required_effort(card, factory.effort)
    if factory.thinking_tokens is not None:
        return effort_for_tokens(card, factory.thinking_tokens)
    who = "the settings"
    effort = factory.toolset.model_settings.effort
    if kind is not None and kind.effort is not None:
        who = f"the agent type {kind.name}"
        effort = kind.effort
    if effort is not None and supported_effort(card, effort) is None:
        factory.resolver.notify_once(f"the effort {effort} of {who} is not used: {missing_effort(card)}")
    return supported_effort(card, effort)


def _own_header(factory: AgentFactory, kind: AgentType | None) -> dict[str, Any]:
    """Return what only the lead has in the first line of its transcript: its agent type, and the session's worktree."""
    own: dict[str, Any] = {} if kind is None else {TYPE_KEY: kind.name}
    if factory.worktree is None:
        return own
    place = {"name": factory.worktree.record.team, "cwd": str(factory.work_directory)}
    return own | {"cwd": str(factory.cwd), WORKTREE_KEY: place}
