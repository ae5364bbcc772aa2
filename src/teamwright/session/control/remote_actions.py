"""Remote actions: actions on a member in the process in which its agent lives, and the transport of their results.

Both sides use one table: the session's process calls `RemoteAction.perform_at`, and the member's process runs the
action in `perform`. Depends on agents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import Struct, convert, to_builtins

from teamwright.agent.agent import Agent
from teamwright.agent.compaction.compact import compact_now
from teamwright.agent.compaction.compaction_state import CompactResult
from teamwright.agent.context_window import ContextView, agent_context
from teamwright.models.model import Failure
from teamwright.protocol.budget import Budget
from teamwright.protocol.event_json import usage_from_json, usage_to_json
from teamwright.session.change_model import ModelChange, change_model
from teamwright.session.control.running_jobs import find_job, list_running, move_to_background, stop_running
from teamwright.session.factory.agent_factory import AgentFactory
from teamwright.session.model_sources import SessionModels
from teamwright.session.reload_config import ConfigReloader
from teamwright.teams.backend_teammate import ProcessTeammateBase
from teamwright.teams.team import SessionTeam

T = TypeVar("T")
Arguments = Mapping[str, Any]


class ActionContext(Struct, frozen=True):
    """The agent of an action, and the parts of the process in which it lives."""

    team: SessionTeam
    agent_factory: AgentFactory
    models: SessionModels
    agent: Agent
    reloading: Callable[[], ConfigReloader]


class RemoteAction(Struct, Generic[T], frozen=True):
    """One action. `do` runs it with JSON arguments; `told` encodes its result as JSON, and `heard` decodes it.

    Raises TeamwrightError on both sides alike.
    """

    name: str
    perform: Callable[[ActionContext, Arguments], Awaitable[T]]
    encode: Callable[[T], Arguments]
    decode: Callable[[Arguments], T]

    async def perform_at(self, member: ProcessTeammateBase, **said: Any) -> T:
        """Run the action in the member's process. Raises its errors, and TeamRefused when the process is
        unreachable.
        """
        return self.decode(await member.perform(self.name, **said))


async def _context(here: ActionContext, _said: Arguments) -> ContextView:
    return agent_context(here.agent)


async def _compact(here: ActionContext, said: Arguments) -> CompactResult:
    return await compact_now(here.agent, str(said["keep"]))


async def _model(here: ActionContext, said: Arguments) -> ModelChange:
    return await change_model(
        here.team, here.agent_factory, here.models, here.agent, str(said["model"]), str(said["by"])
    )


async def _reload(here: ActionContext, _said: Arguments) -> tuple[str, ...]:
    made, _ = await here.reloading().apply([here.agent])
    return made.members


async def _running(here: ActionContext, _said: Arguments) -> tuple[str, ...]:
    return tuple(list_running(here.agent_factory, here.agent.name))


async def _background(here: ActionContext, said: Arguments) -> tuple[str, ...] | None:
    moved = move_to_background(here.agent_factory, str(said["name"]))
    return None if moved is None else tuple(moved)


async def _stop(here: ActionContext, said: Arguments) -> str | None:
    found = find_job(here.agent_factory, str(said["name"]))
    return None if found is None or found.state != "running" else await stop_running(here.agent_factory, found)


async def _allow(here: ActionContext, said: Arguments) -> Budget:
    holds = here.agent_factory.budget_tracker.set_budget(here.agent.name, Budget.from_json(said["budget"]))
    if (teammate := here.team.find(here.agent.name)) is not None:
        teammate.note_raised_budget()
    return holds


def _shortened_told(made: CompactResult) -> Arguments:
    failure = None if made.failure is None else {"slug": made.failure.slug, "what": made.failure.what}
    plain = {name: getattr(made, name) for name in ("done", "before", "after", "why", "summary", "limit")}
    return {**plain, "failure": failure, "usage": usage_to_json(made.usage)}


def _shortened(said: Arguments) -> CompactResult:
    failure = None if said["failure"] is None else Failure(**said["failure"])
    made: dict[str, Any] = {**said, "failure": failure, "usage": usage_from_json(said["usage"])}
    return CompactResult(**made)


def _lines(said: Arguments) -> tuple[str, ...]:
    return tuple(said["lines"])


def _some_lines(said: Arguments) -> tuple[str, ...] | None:
    return None if said["lines"] is None else tuple(said["lines"])


def _lines_told(lines: tuple[str, ...] | None) -> Arguments:
    return {"lines": lines}


def _word(said: Arguments) -> str | None:
    return said["what"]


CONTEXT = RemoteAction("context", _context, to_builtins, partial(convert, type=ContextView))
"""Return the content of the context window."""
COMPACT = RemoteAction("compact", _compact, _shortened_told, _shortened)
"""Compact the conversation; `keep` says what the summary must contain."""
MODEL = RemoteAction("model", _model, to_builtins, partial(convert, type=ModelChange))
"""Change the model to `model`, a name, from the next call on, for `by`."""
RELOAD = RemoteAction("reload", _reload, _lines_told, _lines)
"""Reload the configuration of the process; return the agents that get a new prefix."""
RUNNING = RemoteAction("running", _running, _lines_told, _lines)
"""Return the running sub-agents and commands, a line each."""
BACKGROUND = RemoteAction("background", _background, _lines_told, _some_lines)
"""Move jobs that are waited for to the background: all, or the one of that `name`. None: unknown name."""
STOP = RemoteAction("stop", _stop, lambda what: {"what": what}, _word)
"""Stop the sub-agent or command of that `name`. Return the result; None when no running job has the name."""

ALLOW = RemoteAction(
    "allow", _allow, lambda holds: {"budget": holds.as_json()}, lambda said: Budget.from_json(said["budget"])
)
"""Change the caps that `budget` contains; return the resulting caps."""

ACTIONS: Mapping[str, RemoteAction[Any]] = {
    act.name: act for act in (CONTEXT, COMPACT, MODEL, RELOAD, RUNNING, BACKGROUND, STOP, ALLOW)
}


async def perform(here: ActionContext, name: str, said: Arguments) -> Arguments | None:
    """Run an action here and return its result; None for an unknown action. Raises TeamwrightError."""
    act = ACTIONS.get(name)
    return None if act is None else act.encode(await act.perform(here, said))
