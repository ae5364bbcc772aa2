"""Sources of models: a service by name, a script file, or a model object of the program.

Each run has one source, and the models that a program names for single members. The model that a person chose at run
time is saved in the session's directory for a resume. Depends on `models`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import Struct, field

from teamwright.models.model import Model, ModelCard
from teamwright.models.model_pool import ModelPool, require_served
from teamwright.models.model_settings import ModelSettings
from teamwright.models.names import aliases, known_ids, source
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.ids import nearest
from teamwright.storage.files import write_atomic
from teamwright.storage.paths import make_private

if TYPE_CHECKING:
    from teamwright.models.scripted.scripted_model import Script


SCRIPTED = "scripted:"


class ModelSource(Protocol):
    """The source of a run's models."""

    async def open(self, name: str | None, agent: str) -> Model:
        """Return the model of that name (None: the run's own) for the agent of that name. Raises CannotStart."""
        ...


class ServiceModels(Struct):
    """Models of services, with one adapter for each (provider, model, credential)."""

    settings: ModelSettings
    env: Mapping[str, str]
    default: str | None = None
    pool: ModelPool = field(default_factory=ModelPool)

    async def open(self, name: str | None, agent: str) -> Model:
        if name is not None and name.startswith(SCRIPTED):
            raise UsageError("usage", "a script is given for the whole run, with --model", note="nothing was started")
        return await self.pool.open_model(name or self.default, self.env, self.settings)

    async def aclose(self) -> None:
        """Close all opened models."""
        await self.pool.aclose()


class ScriptOptions(Struct, frozen=True):
    """Options of a script: given names, receipts of calls (`toolu_…` to `cN`), pause in seconds."""

    given: Mapping[str, str] = field(default_factory=dict[str, str])
    receipts: Callable[[str], str] = field(default=lambda _use: "")
    pace_s: float | None = None


class ScriptedModels(Struct):
    """A script that plays every agent; other model names mean the same script."""

    script: Script
    play: ScriptOptions

    async def open(self, name: str | None, agent: str) -> Model:
        return self.script.model(agent, self.play.given, self.play.receipts)


class SingleModel(Struct):
    """A model object of the program for every agent; its owner closes it."""

    model: Model

    async def open(self, name: str | None, agent: str) -> Model:
        return self.model


class SessionModels(Struct):
    """The models of a run: `main`, the default for all agents, and models that the program named for members.

    A model object for the whole run plays every agent; only the program can name others.
    """

    main: ModelSource
    services: ServiceModels
    objects: dict[str, Model] = field(default_factory=dict[str, Model])
    named: set[str] = field(default_factory=set[str])
    chosen: str | None = None
    """The model that a person chose at run time for the lead and for later agents without a model of their own."""

    async def choose(self, model: str | Model) -> tuple[str, Model]:
        """Return a model that was named at run time, and its name for `open`.

        Raises CannotStart for an unavailable model, UsageError where a script plays all agents.
        """
        if isinstance(model, str) and isinstance(self.main, ScriptedModels):
            what = "a script plays every agent of this run: there is no model to choose"
            raise UsageError("usage", what, note="nothing was changed")
        if isinstance(model, str):
            await require_served(model, self.services.env, self.services.settings)
        name = self.bring(model)
        return name, await self.open(name, "")

    def bring(self, model: str | Model) -> str:
        """Return the name under which the program's model for a member can be opened from now on."""
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

    def use_type_model(self, name: str) -> None:
        """Use the model of the lead's agent type for the run, where no flag and no program named a model."""
        if self.main is self.services and self.services.default is None and self.chosen is None:
            self.services.default = name

    def bring_fallback(self, name: str) -> str:
        """Return the name under which a fallback model can be opened. Raises UsageError where a script plays all."""
        if isinstance(self.main, ScriptedModels):
            what = "a script plays every agent of this run: there is no fallback model"
            raise UsageError("usage", what, looked_at=[("flag", "--fallback-model")], note="nothing was started")
        return self.bring(name)

    def is_named(self, name: str) -> bool:
        """Return True for a name that a person or the program gave."""
        return name in self.named or name in self.objects or name in (self.chosen, self.services.default)

    async def open(self, name: str | None, agent: str) -> Model:
        name = name if name is not None else self.chosen
        if name is not None and name in self.objects:
            return self.objects[name]
        if name is not None and name in self.named:
            return await self.services.open(name, agent)
        return await self.main.open(name, agent)

    async def aclose(self) -> None:
        """Close the models that were opened here; their owners close model objects."""
        await self.services.aclose()


def open_models(
    model: str | Model | None, settings: ModelSettings, env: Mapping[str, str], play: ScriptOptions, pool: ModelPool
) -> SessionModels:
    """Return the source for `model=` or `--model`. Raises CannotStart (`bad-script`) for a bad script.

    `pool` opens the models of services.
    """
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
    """Raise CannotStart (`unknown-price`) when money is capped and the model's price is unknown."""
    if cap_usd is None or None not in (card.usd_in, card.usd_out):
        return
    raise CannotStart(
        "unknown-price",
        "a cap on money needs a price, and the price of this model is not known",
        looked_at=[("model", card.name)],
        do=['give it under "prices" in your settings.json', "cap tokens instead: --max-tokens N, or Budget(tokens=N)"],
        note="nothing was sent",
    )


def require_price_beside(card: ModelCard, main: ModelCard) -> None:
    """Raise CannotStart (`unknown-price`) for a model of unknown price, when the price of the run's model is known.

    A model that only a call names must not make the price of the run unknown.
    """
    if None not in (card.usd_in, card.usd_out) or None in (main.usd_in, main.usd_out):
        return
    close = nearest(card.wire, [*aliases(), *known_ids(card.provider)])
    raise CannotStart(
        "unknown-price",
        f"the price of {card.name} is not known, and the price of this run would then be unknown",
        looked_at=[("named by", "the call, and no setting or agent type")],
        do=[
            *([f"did you mean {close}?"] if close else []),
            "leave model out: the agent then uses its caller's model",
            'a person may give the price under "prices" in settings.json',
        ],
        note="nothing was started",
    )


def require_tools(card: ModelCard) -> None:
    """Raise CannotStart (`model-failed`) for a model of a teammate that does not call tools."""
    if card.tools:
        return
    raise CannotStart(
        "model-failed",
        f"{card.name} does not call tools, and a teammate can do nothing without them",
        looked_at=[("known from", source(card, "tools"))],
        do=[
            f"choose a model that is made for tools: teamwright models {card.provider}",
            f'if it does call them, say so: "models": {{"{card.name}": {{"tools": true}}}} in settings.json',
        ],
        note="nothing was started",
    )


def no_tools_warning(card: ModelCard) -> str:
    """Return the warning about a lead whose model does not call the tools that it has."""
    return (
        f"{card.name} does not call tools ({source(card, 'tools')}): it reads no file, runs no command and leads no "
        "team, and what it says of them is invented. For answers in words alone: --tools ''"
    )


MODEL_FILE = "model.json"
VERSION = 1


def save_lead_model(directory: Path, name: str) -> None:
    """Save this model for the next resume. Raises StorageError."""
    make_private(directory)
    write_atomic(directory / MODEL_FILE, json.dumps({"version": VERSION, "model": name}).encode())


def load_lead_model(directory: Path) -> str | None:
    """Return the saved model of a session; None without one, and for an unreadable file."""
    try:
        name = cast("dict[str, Any]", json.loads((directory / MODEL_FILE).read_bytes()))["model"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return name if isinstance(name, str) else None
