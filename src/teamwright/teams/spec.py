"""What a spawn asks for, and the ports through which `app` makes agents.

The route decides nothing here: one spec for teammates and sub-agents, resolved in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from teamwright.agent.loop import Agent

if TYPE_CHECKING:
    from teamwright.teams.team import Team


@dataclass(frozen=True, slots=True)
class SpawnSpec:
    """One agent to start. `description` is 3 to 5 words for people; None means "as the caller's"."""

    prompt: str
    description: str = ""
    name: str = ""
    agent_type: str = "general-purpose"
    model: str | None = None
    mode: str | None = None
    max_turns: int | None = None
    cwd: Path | None = None
    plan_mode_required: bool = False


class Builder(Protocol):
    """The port that makes agents: filled in `app`, which knows tools, models and settings."""

    async def teammate(self, spec: SpawnSpec, team: Team, incarnation: int) -> Agent:
        """An agent ready for its first turn. Raises TeamwrightError when it cannot be made."""
        ...

    async def wire_model(self, spec: SpawnSpec) -> str:
        """The model that the agent will really use, as the roster shows it. Raises TeamwrightError."""
        ...
