"""Another model for the lead, or for a member, while the session runs; kept for a resume, told by an event.

In this order: the model is opened, what a resume goes by is written, then the agent itself, between two model calls.
Done in the process that the agent lives in. Knows its parts; refuses to know who was named, and screens.
"""

from __future__ import annotations

from dataclasses import replace

from teamwright.agent.agent import Agent
from teamwright.agent.prefix import switch_prefix
from teamwright.models.catalog import aliases
from teamwright.models.model import Model, ModelCard
from teamwright.protocol.events import ModelChanged, Notice
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.values import dataclass
from teamwright.session.factory.agent_factory import AgentFactory
from teamwright.session.factory.spec_resolver import missing_effort
from teamwright.session.model_sources import SessionModels, require_price
from teamwright.session.reload.saved_model import save_lead_model
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.roster_entries import change_entry, is_written_by_lead
from teamwright.teams.team import SessionTeam
from teamwright.teams.team_file import read_team_file, save_model

NOTHING = "nothing was changed"


@dataclass(frozen=True, slots=True)
class ModelChange:
    """Who has which model from its next call on, and which one before. As a text it is a sentence for people."""

    member: str
    model: str
    before: str

    def __str__(self) -> str:
        if self.model == self.before:
            return f"{self.member} has {self.model} already"
        return f"{self.member} has {self.model} from its next model call on"


async def change_model(
    team: SessionTeam, maker: AgentFactory, models: SessionModels, agent: Agent, model: str | Model, by: str = "user"
) -> ModelChange:
    """Another model for this agent, the lead's or a member's: from its next call on, at once while it rests.

    Whoever is started later without a model of its own has the lead's; who is there keeps its own.
    Raises CannotStart for a model that is not to be had or, where money is capped, has no known price, UsageError where
    a script plays everybody; nothing is changed then. StorageError, LockTimeout: it could not be kept.
    """
    name, opened = await models.choose(model)
    shown = LEAD_ALIAS if agent.name == LEAD else agent.name
    before, card = agent.model.card.name, opened.card
    require_affordable(maker, agent.name, card)
    if opened is agent.model:
        return ModelChange(shown, card.name, before)
    kept = name if isinstance(model, str) else ""
    if agent.name == LEAD:
        await _keep_of_lead(team, maker, models, agent, name)
        if kept:
            save_lead_model(maker.home.session(maker.cwd, maker.session), card.name)
        models.chosen = name
    else:
        await _keep_of_member(team, maker, agent.name, name, kept and card.name)
    await _shown_as(team, agent.name, card.name)
    agent.change_between_calls(lambda: _begin(team, agent, opened, by))
    return ModelChange(shown, card.name, before)


def require_affordable(maker: AgentFactory, name: str, card: ModelCard) -> None:
    """Raises CannotStart where money is capped for this agent and nobody knows what the model costs."""
    purse = maker.purse
    require_price((purse.stated_budget if name == LEAD else purse.stated_budget.smaller_caps(purse.each)).usd, card)


def model_names() -> list[str]:
    """Short names that may be given, as they are listed first."""
    return list(aliases())


def _begin(team: SessionTeam, agent: Agent, model: Model, by: str) -> None:
    before = agent.model.card.name
    switch_prefix(agent, "model", model)
    effort = agent.effort_text
    if agent.name == LEAD:
        team.lead_model, team.lead_effort = model.card.name, effort
    elif (mate := team.find_in_process(agent.name)) is not None:
        mate.model, mate.effort = model.card.name, effort
    agent.emit(ModelChanged(member=agent.name, model=model.card.name, before=before, by=by, effort=effort))
    if agent.effort is not None and not effort:
        said = LEAD_ALIAS if agent.name == LEAD else agent.name
        text = f"the effort {agent.effort} of {said} is not used: {missing_effort(model.card)}"
        agent.emit(Notice(member=agent.name, text=text, level="warning"))


async def _keep_of_lead(team: SessionTeam, maker: AgentFactory, models: SessionModels, lead: Agent, name: str) -> None:
    """Members that had the lead's former one keep that, for a resume too."""
    of_service = models.main is models.services and lead.model not in models.objects.values()
    former = lead.model.card.name if of_service else models.bring(lead.model)
    for mate in team.running_members:
        if isinstance(mate, ProcessTeammateBase):
            if of_service and _has_leads(team, mate.name):
                await save_model(team.home, team.directory, mate.name, former)
            continue
        born = maker.born.get(mate.name)
        if born is not None and born.model is None:
            if of_service:
                await save_model(team.home, team.directory, mate.name, former)
            born.model = former


def _has_leads(team: SessionTeam, name: str) -> bool:
    """Whether a member that lives elsewhere was started without a model of its own."""
    file = read_team_file(team.home.team_file(team.directory))
    life = file.incarnation_records.get(name.lower()) if file is not None else None
    return life is not None and life.model is None


async def _keep_of_member(team: SessionTeam, maker: AgentFactory, member: str, name: str, kept: str) -> None:
    if kept:
        await save_model(team.home, team.directory, member, kept)
    if (born := maker.born.get(member)) is not None:
        born.model = name


async def _shown_as(team: SessionTeam, member: str, model: str) -> None:
    """The roster says it, where there is a team; the lead writes it for a member process."""
    if not team.exists or is_written_by_lead(team):
        return
    await change_entry(team, member, lambda entry: replace(entry, model=model))
