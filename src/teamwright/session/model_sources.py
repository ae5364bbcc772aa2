"""Where models come from: a service by name, a script file, or an object that the program brought.

One source a run, and beside it what a program names for single members. Knows the room `models`; knows no agent
but by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from teamwright.models.model import Model, ModelCard
from teamwright.models.model_settings import ModelSettings
from teamwright.models.pool import ModelPool, require_served
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.values import dataclass

if TYPE_CHECKING:
    from teamwright.models.scripted.scripted_model import Script

SCRIPTED = "scripted:"


class ModelSource(Protocol):
    """Opens the models of a run."""

    async def open(self, name: str | None, agent: str) -> Model:
        """The model of that name (None: the run's own) for the agent of that name. Raises CannotStart."""
        ...


@dataclass(slots=True)
class ServiceModels:
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
        """Close all that was opened."""
        await self.pool.aclose()


@dataclass(frozen=True, slots=True)
class ScriptOptions:
    """How a script is played: names given from outside, receipts of calls (`toolu_…` to `cN`), pause in seconds."""

    given: Mapping[str, str] = field(default_factory=dict[str, str])
    receipts: Callable[[str], str] = field(default=lambda _use: "")
    pace_s: float | None = None


@dataclass(slots=True)
class ScriptedModels:
    """A script plays every agent; other names of models are taken as the same script."""

    script: Script
    play: ScriptOptions

    async def open(self, name: str | None, agent: str) -> Model:
        """See ModelSource."""
        return self.script.model(agent, self.play.given, self.play.receipts)


@dataclass(slots=True)
class SingleModel:
    """A model object of the program for every agent; its owner closes it."""

    model: Model

    async def open(self, name: str | None, agent: str) -> Model:
        """See ModelSource."""
        return self.model


@dataclass(slots=True)
class SessionModels:
    """The models of a run: `main`, which answers to whatever agents ask for, and what the program named for members.

    An object that the program gave for the whole run plays every agent; only the program itself can name others.
    """

    main: ModelSource
    services: ServiceModels
    objects: dict[str, Model] = field(default_factory=dict[str, Model])
    named: set[str] = field(default_factory=set[str])
    chosen: str | None = None
    """What a person chose in life for the lead, and with it for whoever is started without a model of its own."""

    async def choose(self, model: str | Model) -> tuple[str, Model]:
        """A model that somebody names while the run goes on, and its name for `open`.

        Raises CannotStart for one that is not to be had, UsageError where a script plays everybody.
        """
        if isinstance(model, str) and isinstance(self.main, ScriptedModels):
            what = "a script plays every agent of this run: there is no model to choose"
            raise UsageError("usage", what, note="nothing was changed")
        if isinstance(model, str):
            await require_served(model, self.services.env, self.services.settings)
        name = self.bring(model)
        return name, await self.open(name, "")

    def bring(self, model: str | Model) -> str:
        """Under which name the program's choice for a member can be opened from now on."""
        if isinstance(model, str):
            if not isinstance(self.main, ScriptedModels):
                self.named.add(model)
            return model
        for name, known in self.objects.items():
            if known is model:
                return name
        name = f"object:{len(self.objects) + 1}"
        self.objects[name] = model
        return name

    async def open(self, name: str | None, agent: str) -> Model:
        """See ModelSource."""
        name = name if name is not None else self.chosen
        if name is not None and name in self.objects:
            return self.objects[name]
        if name is not None and name in self.named:
            return await self.services.open(name, agent)
        return await self.main.open(name, agent)

    async def aclose(self) -> None:
        """Close what was opened here; objects are their owner's to close."""
        await self.services.aclose()


def open_models(
    model: str | Model | None, settings: ModelSettings, env: Mapping[str, str], play: ScriptOptions, governors: Path
) -> SessionModels:
    """The source for what was given as `model=` or `--model`. Raises CannotStart (`bad-script`) for a bad script.

    `governors` is the directory in which processes share what they know of a credential's limits.
    """
    pool = ModelPool(governors)
    if model is not None and not isinstance(model, str):
        return SessionModels(SingleModel(model), ServiceModels(settings, env, pool=pool))
    if model is not None and model.startswith(SCRIPTED):
        from teamwright.models.scripted.scripted_model import Script

        script = Script.load(Path(os.path.expanduser(model.removeprefix(SCRIPTED))))
        if play.pace_s is not None:
            script.pace_s = play.pace_s
        return SessionModels(ScriptedModels(script, play), ServiceModels(settings, env, pool=pool))
    services = ServiceModels(settings, env, model, pool)
    return SessionModels(services, services)


def require_price(cap_usd: float | None, card: ModelCard) -> None:
    """Raises CannotStart (`unknown-price`) when money is capped and nobody knows what the model costs."""
    if cap_usd is None or None not in (card.usd_in, card.usd_out):
        return
    raise CannotStart(
        "unknown-price",
        "a cap on money needs a price, and the price of this model is not known",
        looked_at=[("model", card.name)],
        do=['give it under "prices" in your settings.json', "cap tokens instead: --max-tokens N, or Budget(tokens=N)"],
        note="nothing was sent",
    )
