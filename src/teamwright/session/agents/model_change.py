"""Changes of the model of the lead or a member at run time, saved for a resume and emitted as an event.

The order is: open the model, save the change for a resume, then change the agent between two model calls. Runs in the
agent's process. Depends on the parts of that process.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent import Agent
from teamwright.models.model import Model, ModelCard
from teamwright.models.names import aliases
from teamwright.protocol.ids import LEAD, display_name
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.agents.model_sources import SessionModels, require_price, require_tools, save_lead_model
from teamwright.session.agents.model_switch import use_model
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.spawn import change_entry, is_written_by_lead, save_model
from teamwright.teams.team import SessionTeam

NOTHING = "nothing was changed"


class ModelChange(Struct, frozen=True):
    """The model of an agent from its next call on, and the one before. `str` returns a sentence for people."""

    member: str
    model: str
    before: str

    def __str__(self) -> str:
        if self.model == self.before:
            return f"{self.member} has {self.model} already"
        return f"{self.member} has {self.model} from its next model call on"


async def change_model(
    team: SessionTeam,
    agent_factory: AgentFactory,
    models: SessionModels,
    agent: Agent,
    model: str | Model,
    by: str = "user",
) -> ModelChange:
    """Change the model of this agent, the lead or a member, from its next call on; at once while it is idle.

    Later agents without a model of their own use the lead's; present ones keep theirs. Raises CannotStart for an
    unavailable model or, where money is capped, an unknown price, UsageError where a script plays all agents; then
    nothing is changed. StorageError, LockTimeout: it could not be saved.
    """
    name, opened = await models.choose(model)
    shown_name = display_name(agent.name)
    before = agent.model.card.name
    card = opened.card
    require_affordable(agent_factory, agent.name, card)
    if agent.name != LEAD:
        require_tools(card)
    if opened is agent.model:
        return ModelChange(shown_name, card.name, before)
    saved_name = name if isinstance(model, str) else ""
    if agent.name == LEAD:
        await _keep_of_lead(team, agent_factory, models, agent, name)
        if saved_name:
            save_lead_model(agent_factory.session_directory, card.name)
        models.chosen = name
    else:
        if saved_name:
            await save_model(team.state, agent.name, card.name)
        if (inherited := agent_factory.inheritances.get(agent.name)) is not None:
            inherited.model = name
    if team.exists and not is_written_by_lead(team):  # the lead writes it for a member process
        await change_entry(team, agent.name, lambda entry: replace(entry, model=card.name))
    agent.change_between_calls(lambda: use_model(team, agent, opened, by))
    return ModelChange(shown_name, card.name, before)


def require_affordable(agent_factory: AgentFactory, name: str, card: ModelCard) -> None:
    """Raise CannotStart where money is capped for this agent and the model's price is unknown."""
    budget_tracker = agent_factory.budget_tracker
    require_price(
        (
            budget_tracker.stated_budget
            if name == LEAD
            else budget_tracker.stated_budget.smaller_caps(budget_tracker.each)
        ).usd,
        card,
    )


def model_names() -> list[str]:
    """Return the short model names, in the order of the list."""
    return list(aliases())


async def _keep_of_lead(
    team: SessionTeam, agent_factory: AgentFactory, models: SessionModels, lead: Agent, name: str
) -> None:
    """Save the lead's former model for members that use it, also for a resume."""
    of_service = models.main is models.services and lead.model not in models.objects.values()
    former = lead.model.card.name if of_service else models.bring(lead.model)
    for teammate in team.running_members:
        if isinstance(teammate, ProcessTeammateBase):
            if of_service and await _has_leads(team, teammate.name):
                await save_model(team.state, teammate.name, former)
            continue
        inherited = agent_factory.inheritances.get(teammate.name)
        if inherited is not None and inherited.model is None:
            if of_service:
                await save_model(team.state, teammate.name, former)
            inherited.model = former


async def _has_leads(team: SessionTeam, name: str) -> bool:
    """Return True when a member in another process was started without a model that its start named."""
    file = await team.state.read()
    incarnation = file.incarnation_records.get(name.lower()) if file is not None else None
    return incarnation is not None and incarnation.model is None
