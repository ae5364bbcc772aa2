"""Another model for the lead, or for a member, while the session runs; kept for a resume, told by an event.

In this order: the model is opened, what a resume goes by is written, then the agent itself, between two model calls.
Done in the process that the agent lives in. Knows its parts; refuses to know who was named, and screens.
"""

from __future__ import annotations

from dataclasses import replace

from teamwright.agent.agent import Agent
from teamwright.agent.beginning import begin_anew
from teamwright.app.agents.resolving import without
from teamwright.app.making.maker import Maker
from teamwright.app.models_of import Models, require_price
from teamwright.app.renewing.kept import keep_lead_model
from teamwright.models.catalog import aliases
from teamwright.models.model import Model, ModelCard
from teamwright.protocol.events import ModelChanged, Notice
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.values import dataclass
from teamwright.teams.member.away import Away
from teamwright.teams.own_entries import change_entry, lead_writes
from teamwright.teams.team import Team
from teamwright.teams.team_file import keep_model, read_team_file

NOTHING = "nothing was changed"


@dataclass(frozen=True, slots=True)
class ModelSet:
    """Who has which model from its next call on, and which one before. As a text it is a sentence for people."""

    member: str
    model: str
    before: str

    def __str__(self) -> str:
        if self.model == self.before:
            return f"{self.member} has {self.model} already"
        return f"{self.member} has {self.model} from its next model call on"


async def change_model(
    team: Team, maker: Maker, models: Models, agent: Agent, model: str | Model, by: str = "user"
) -> ModelSet:
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
        return ModelSet(shown, card.name, before)
    kept = name if isinstance(model, str) else ""
    if agent.name == LEAD:
        await _keep_of_lead(team, maker, models, agent, name)
        if kept:
            keep_lead_model(maker.home.session(maker.cwd, maker.session), card.name)
        models.chosen = name
    else:
        await _keep_of_member(team, maker, agent.name, name, kept and card.name)
    await _shown_as(team, agent.name, card.name)
    agent.between_calls(lambda: _begin(team, agent, opened, by))
    return ModelSet(shown, card.name, before)


def require_affordable(maker: Maker, name: str, card: ModelCard) -> None:
    """Raises CannotStart where money is capped for this agent and nobody knows what the model costs."""
    purse = maker.purse
    require_price((purse.given if name == LEAD else purse.given.within(purse.each)).usd, card)


def model_names() -> list[str]:
    """Short names that may be given, as they are listed first."""
    return list(aliases())


def _begin(team: Team, agent: Agent, model: Model, by: str) -> None:
    before = agent.model.card.name
    begin_anew(agent, "model", model)
    effort = agent.shown_effort
    if agent.name == LEAD:
        team.lead_model, team.lead_effort = model.card.name, effort
    elif (mate := team.own(agent.name)) is not None:
        mate.model, mate.effort = model.card.name, effort
    agent.emit(ModelChanged(member=agent.name, model=model.card.name, before=before, by=by, effort=effort))
    if agent.effort is not None and not effort:
        said = LEAD_ALIAS if agent.name == LEAD else agent.name
        text = f"the effort {agent.effort} of {said} is not used: {without(model.card)}"
        agent.emit(Notice(member=agent.name, text=text, level="warning"))


async def _keep_of_lead(team: Team, maker: Maker, models: Models, lead: Agent, name: str) -> None:
    """Members that had the lead's former one keep that, for a resume too."""
    of_service = models.main is models.services and lead.model not in models.objects.values()
    former = lead.model.card.name if of_service else models.bring(lead.model)
    for mate in team.live:
        if isinstance(mate, Away):
            if of_service and _has_leads(team, mate.name):
                await keep_model(team.home, team.directory, mate.name, former)
            continue
        born = maker.born.get(mate.name)
        if born is not None and born.model is None:
            if of_service:
                await keep_model(team.home, team.directory, mate.name, former)
            born.model = former


def _has_leads(team: Team, name: str) -> bool:
    """Whether a member that lives elsewhere was started without a model of its own."""
    file = read_team_file(team.home.team_file(team.directory))
    life = file.lives.get(name.lower()) if file is not None else None
    return life is not None and life.model is None


async def _keep_of_member(team: Team, maker: Maker, member: str, name: str, kept: str) -> None:
    if kept:
        await keep_model(team.home, team.directory, member, kept)
    if (born := maker.born.get(member)) is not None:
        born.model = name


async def _shown_as(team: Team, member: str, model: str) -> None:
    """The roster says it, where there is a team; the lead writes it for a member process."""
    if not team.exists or lead_writes(team):
        return
    await change_entry(team, member, lambda entry: replace(entry, model=model))
