"""Where models come from: a service by name, a script file, or an object that the program brought.

One source a run; the same three questions of each. Knows the room `models`; knows no agent but by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from teamwright.models.model import Model
from teamwright.models.pool import ModelPool
from teamwright.models.scripted import Script
from teamwright.models.settings import ModelSettings
from teamwright.protocol.errors import UsageError

SCRIPTED = "scripted:"


class ModelSource(Protocol):
    """Opens the models of a run."""

    async def open(self, name: str | None, agent: str) -> Model:
        """The model of that name (None: the run's own) for the agent of that name. Raises CannotStart."""
        ...

    async def aclose(self) -> None:
        """Close all that was opened."""
        ...


@dataclass(slots=True)
class Services:
    """Models of services, one adapter for each (provider, model, credential)."""

    settings: ModelSettings
    env: Mapping[str, str]
    default: str | None = None
    pool: ModelPool = field(default_factory=ModelPool)

    async def open(self, name: str | None, agent: str) -> Model:
        """See ModelSource."""
        if name is not None and name.startswith(SCRIPTED):
            raise UsageError("usage", "a script is given for the whole run, with --model", note="nothing was started")
        return await self.pool.open_model(name or self.default, self.env, self.settings)

    async def aclose(self) -> None:
        """See ModelSource."""
        await self.pool.aclose()


@dataclass(frozen=True, slots=True)
class Play:
    """How a script is played: names given from outside, receipts of calls (`toolu_…` to `cN`), pause in seconds."""

    given: Mapping[str, str] = field(default_factory=dict[str, str])
    receipts: Callable[[str], str] = field(default=lambda _use: "")
    pace_s: float | None = None


@dataclass(slots=True)
class Scripts:
    """A script plays every agent; other names of models are taken as the same script."""

    script: Script
    play: Play

    async def open(self, name: str | None, agent: str) -> Model:
        """See ModelSource."""
        return self.script.model(agent, self.play.given, self.play.receipts)

    async def aclose(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class OneModel:
    """A model object of the program for every agent; its owner closes it."""

    model: Model

    async def open(self, name: str | None, agent: str) -> Model:
        """See ModelSource."""
        return self.model

    async def aclose(self) -> None:
        """It is not ours to close."""


def models_for(model: str | Model | None, settings: ModelSettings, env: Mapping[str, str], play: Play) -> ModelSource:
    """The source for what was given as `model=` or `--model`. Raises CannotStart (`bad-script`) for a bad script."""
    if model is not None and not isinstance(model, str):
        return OneModel(model)
    if model is not None and model.startswith(SCRIPTED):
        script = Script.load(Path(model.removeprefix(SCRIPTED)).expanduser())
        if play.pace_s is not None:
            script.pace_s = play.pace_s
        return Scripts(script, play)
    return Services(settings, env, model)
