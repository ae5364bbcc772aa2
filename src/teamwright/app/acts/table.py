"""The acts: what is done with a member where its agent lives, and how what came of it travels to whoever asked.

One table for both sides: the session's process has an act done in a member's (`Act.at`), and there `perform` finds it
and does it. Below it: agents and what is looked up of them. Refuses to know sessions, names and wires.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from teamwright.agent.agent import Agent
from teamwright.agent.compacting.compact import compact_now
from teamwright.agent.compacting.state import Shortened
from teamwright.app.acts.running import named, running_of, stop_running, to_background
from teamwright.app.looking.context import ContextPart, ContextView, view_of
from teamwright.app.making.maker import Maker
from teamwright.app.models_of import Models
from teamwright.app.renewing.model import ModelSet, change_model
from teamwright.app.renewing.reload import Reloading
from teamwright.models.model import Failure
from teamwright.protocol.budget import Budget
from teamwright.protocol.event_json import usage_from_json, usage_to_json
from teamwright.protocol.values import dataclass
from teamwright.teams.member.away import Away
from teamwright.teams.team import Team

T = TypeVar("T")
Said = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Here:
    """The agent that an act is done with, and the parts of the process that it lives in."""

    team: Team
    maker: Maker
    models: Models
    agent: Agent
    reloading: Callable[[], Reloading]


@dataclass(frozen=True, slots=True)
class Act(Generic[T]):
    """`do` is it, with what was said as JSON has it; what came of it goes through `told`, JSON, and `heard`.

    Raises TeamwrightError on both sides alike.
    """

    name: str
    do: Callable[[Here, Said], Awaitable[T]]
    told: Callable[[T], Said]
    heard: Callable[[Said], T]

    async def at(self, member: Away, **said: Any) -> T:
        """Have it done in the member's own process. Raises what it raises, TeamRefused when it is not reached."""
        return self.heard(await member.perform(self.name, **said))


async def _context(here: Here, _said: Said) -> ContextView:
    return view_of(here.agent)


async def _compact(here: Here, said: Said) -> Shortened:
    return await compact_now(here.agent, str(said["keep"]))


async def _model(here: Here, said: Said) -> ModelSet:
    return await change_model(here.team, here.maker, here.models, here.agent, str(said["model"]), str(said["by"]))


async def _reload(here: Here, _said: Said) -> tuple[str, ...]:
    made, _ = await here.reloading().take_over([here.agent])
    return made.members


async def _running(here: Here, _said: Said) -> tuple[str, ...]:
    return tuple(running_of(here.maker, here.agent.name))


async def _background(here: Here, said: Said) -> tuple[str, ...] | None:
    moved = to_background(here.maker, str(said["name"]))
    return None if moved is None else tuple(moved)


async def _stop(here: Here, said: Said) -> str | None:
    found = named(here.maker, str(said["name"]))
    return None if found is None or found.state != "running" else await stop_running(here.maker, found)


async def _allow(here: Here, said: Said) -> Budget:
    return here.maker.purse.allow(here.agent.name, Budget.from_json(said["budget"]))


def _view(said: Said) -> ContextView:
    made: dict[str, Any] = {**said, "parts": tuple(ContextPart(**one) for one in said["parts"])}
    return ContextView(**made)


def _shortened_told(made: Shortened) -> Said:
    failure = None if made.failure is None else {"slug": made.failure.slug, "what": made.failure.what}
    plain = {name: getattr(made, name) for name in ("done", "before", "after", "why", "summary", "limit")}
    return {**plain, "failure": failure, "usage": usage_to_json(made.usage)}


def _shortened(said: Said) -> Shortened:
    failure = None if said["failure"] is None else Failure(**said["failure"])
    made: dict[str, Any] = {**said, "failure": failure, "usage": usage_from_json(said["usage"])}
    return Shortened(**made)


def _lines(said: Said) -> tuple[str, ...]:
    return tuple(said["lines"])


def _some_lines(said: Said) -> tuple[str, ...] | None:
    return None if said["lines"] is None else tuple(said["lines"])


def _lines_told(lines: tuple[str, ...] | None) -> Said:
    return {"lines": lines}


def _model_set(said: Said) -> ModelSet:
    return ModelSet(**said)


def _word(said: Said) -> str | None:
    return said["what"]


CONTEXT = Act("context", _context, asdict, _view)
"""What fills its window."""
COMPACT = Act("compact", _compact, _shortened_told, _shortened)
"""It goes on from a summary; `keep` says what that must not lose."""
MODEL = Act("model", _model, asdict, _model_set)
"""It has another `model`, a name, from its next call on, for `by`."""
RELOAD = Act("reload", _reload, _lines_told, _lines)
"""Its process reads its configuration again: whose prefix is new."""
RUNNING = Act("running", _running, _lines_told, _lines)
"""Its sub-agents and commands that run, a line each."""
BACKGROUND = Act("background", _background, _lines_told, _some_lines)
"""What it waits for goes on in the background: all, or what has that `name`. None: nothing has it."""
STOP = Act("stop", _stop, lambda what: {"what": what}, _word)
"""The sub-agent or command of that `name` ends. What became of it; None: nothing that runs has it."""

ALLOW = Act("allow", _allow, lambda holds: {"budget": holds.as_json()}, lambda said: Budget.from_json(said["budget"]))
"""It has other caps, where `budget` names any; what holds now."""

ACTS: Mapping[str, Act[Any]] = {
    act.name: act for act in (CONTEXT, COMPACT, MODEL, RELOAD, RUNNING, BACKGROUND, STOP, ALLOW)
}


async def perform(here: Here, name: str, said: Said) -> Said | None:
    """Do an act here, and tell what came of it; None for what is none. Raises TeamwrightError."""
    act = ACTS.get(name)
    return None if act is None else act.told(await act.do(here, said))
