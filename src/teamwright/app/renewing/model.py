"""Another model for the lead, or for a member, while the session runs; kept for a resume, told by an event.

In this order: the model is opened, what a resume goes by is written, then the agent itself, between two model calls.
Knows a session; knows no screen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from teamwright.agent.agent import Agent
from teamwright.agent.beginning import begin_anew
from teamwright.app.agents.resolving import without
from teamwright.app.compacting.asking import agent_of
from teamwright.app.models_of import require_price
from teamwright.app.renewing.kept import keep_lead_model
from teamwright.app.session import Session
from teamwright.models.catalog import aliases
from teamwright.models.model import Model
from teamwright.protocol.events import ModelChanged, Notice
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.roster import TeamConfig
from teamwright.teams.team_file import keep_model

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


async def set_model(session: Session, model: str | Model, member: str = "", by: str = "user") -> ModelSet:
    """Another model for the lead, or for that member: from its next call on, at once while it rests.

    Whoever is started later without a model of its own has the lead's; who is there keeps its own.
    Raises UnknownMember, CannotStart for a model that is not to be had or, where money is capped, has no known price,
    UsageError where a script plays everybody; nothing is changed then. StorageError, LockTimeout: it could not be kept.
    """
    agent = agent_of(session, member, NOTHING)
    name, opened = await session.models.choose(model)
    shown = LEAD_ALIAS if agent is session.lead.agent else agent.name
    before, card = agent.model.card.name, opened.card
    purse = session.maker.purse
    require_price((purse.budget if agent.name == LEAD else purse.budget.within(purse.each)).usd, card)
    if opened is agent.model:
        return ModelSet(shown, card.name, before)
    kept = name if isinstance(model, str) else ""
    if agent.name == LEAD:
        await _keep_of_lead(session, name, kept and card.name)
    else:
        await _keep_of_member(session, agent.name, name, kept and card.name)
    await _shown_as(session, agent.name, card.name)
    agent.between_calls(lambda: _begin(session, agent, opened, by))
    return ModelSet(shown, card.name, before)


def models_in_use(session: Session) -> list[tuple[str, str, int]]:
    """The lead and everybody alive: name, model, and the tokens of its window."""
    agents = [session.lead.agent, *(mate.agent for mate in session.team.own_live)]
    return [(agent.name, agent.model.card.name, agent.model.card.context_tokens) for agent in agents]


def model_names() -> list[str]:
    """Short names that may be given, as they are listed first."""
    return list(aliases())


def _begin(session: Session, agent: Agent, model: Model, by: str) -> None:
    before = agent.model.card.name
    begin_anew(agent, "model", model)
    effort = agent.shown_effort
    if agent.name == LEAD:
        session.team.lead_model, session.team.lead_effort = model.card.name, effort
    elif (mate := session.team.own(agent.name)) is not None:
        mate.model, mate.effort = model.card.name, effort
    agent.emit(ModelChanged(member=agent.name, model=model.card.name, before=before, by=by, effort=effort))
    if agent.effort is not None and not effort:
        said = LEAD_ALIAS if agent.name == LEAD else agent.name
        text = f"the effort {agent.effort} of {said} is not used: {without(model.card)}"
        agent.emit(Notice(member=agent.name, text=text, level="warning"))


async def _keep_of_lead(session: Session, name: str, kept: str) -> None:
    """The lead's, for a resume and for those that come; members that had its former one keep that."""
    team, models, lead = session.team, session.models, session.lead.agent.model
    of_service = models.main is models.services and lead not in models.objects.values()
    former = lead.card.name if of_service else models.bring(lead)
    for mate in team.live:
        born = session.maker.born.get(mate.name)
        if born is not None and born.model is None:
            if of_service:
                await keep_model(team.home, team.directory, mate.name, former)
            born.model = former
    if kept:
        keep_lead_model(session.maker.home.session(session.maker.cwd, session.id), kept)
    session.models.chosen = name


async def _keep_of_member(session: Session, member: str, name: str, kept: str) -> None:
    team = session.team
    if kept:
        await keep_model(team.home, team.directory, member, kept)
    if (born := session.maker.born.get(member)) is not None:
        born.model = name


async def _shown_as(session: Session, member: str, model: str) -> None:
    """The roster says it, where there is a team."""
    team = session.team
    if not team.exists:
        return

    def noted(config: TeamConfig) -> TeamConfig:
        found = config.find(member)
        return config if found is None else config.with_member(replace(found, model=model))

    if (entry := team.outside.entries.get(member)) is not None:
        team.outside.entries[member] = replace(entry, model=model)
    await team.roster.change(noted)
