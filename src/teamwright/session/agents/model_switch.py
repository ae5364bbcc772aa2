"""Changes of an agent's model while it works: to a model that a person names, or to a fallback model.

Depends on agents and their team; leaves the choice of a person's model and its storage to `session.agents.models`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from teamwright.agent.agent import Agent
from teamwright.agent.prompt import store_prefix, switch_prefix
from teamwright.models.model import Failure, Model, Prefix
from teamwright.models.model_settings import ModelSettings
from teamwright.models.request_prefix import prefix_for_model
from teamwright.protocol.events import FALLBACK, ModelChanged, Notice
from teamwright.protocol.ids import LEAD, display_name
from teamwright.session.agents.specs import missing_effort
from teamwright.teams.team import SessionTeam


def use_model(team: SessionTeam | None, agent: Agent, model: Model, by: str, prefix: Prefix | None = None) -> None:
    """Make the next call of this agent with this model, and report the change. `by` is its author.

    `prefix` is the prefix of an agent for which no new one can be made.
    """
    before = agent.model.card.name
    switch_prefix(agent, "model", model, prefix)
    effort = agent.effort_text
    if team is not None and agent.name == LEAD:
        team.set_lead_model(model.card.name, effort)
    elif team is not None and (teammate := team.find_in_process(agent.name)) is not None:
        teammate.set_model(model.card.name, effort)
    agent.emit(ModelChanged(member=agent.name, model=model.card.name, before=before, by=by, effort=effort))
    if agent.effort is not None and not effort:
        shown_name = display_name(agent.name)
        text = f"the effort {agent.effort} of {shown_name} is not used: {missing_effort(model.card)}"
        agent.emit(Notice(member=agent.name, text=text, level="warning"))


class FallbackModels:
    """The models of `--fallback-model`, which all agents of a session use in order. Implements `agent.Fallback`.

    `open_model` opens one by its name; `team` returns the session's team, once there is one.
    """

    def __init__(
        self,
        names: Sequence[str],
        open_model: Callable[[str], Awaitable[Model]],
        team: Callable[[], SessionTeam | None],
        settings: ModelSettings,
        prefixes: Path,
    ) -> None:
        self._names = names
        self._open_model = open_model
        self._team = team
        self._settings = settings
        self._prefixes = prefixes
        self._models: tuple[Model, ...] = ()

    async def open(self) -> tuple[Model, ...]:
        """Return the models in order; they are opened once. Raises CannotStart for one that is not available."""
        if not self._models:
            self._models = tuple([await self._open_model(name) for name in self._names])
        return self._models

    async def next_model(self, agent: Agent) -> Model | None:
        """Implement `Fallback.next_model`: the model after the present one, else the first other one."""
        models = await self.open()
        at = next((n for n, model in enumerate(models) if model is agent.model), -1)
        return next((model for model in models[at + 1 :] if model is not agent.model), None)

    async def switch(self, agent: Agent, failure: Failure) -> bool:
        """Implement `Fallback.switch`. Raises StorageError."""
        model = await self.next_model(agent)
        if model is None:
            return False
        before = agent.model.card.name
        text = f"{failure.sentence}; the fallback model {model.card.name} is used instead of {before}"
        agent.emit(Notice(member=agent.name, text=text, level="warning"))
        prefix = None
        if agent.compaction.make_prefix is None:  # a fork keeps the texts of its caller's prefix
            prefix = prefix_for_model(agent.conversation.prefix, model.card, self._settings)
            store_prefix(self._prefixes, prefix)
        use_model(self._team(), agent, model, FALLBACK, prefix)
        return True
