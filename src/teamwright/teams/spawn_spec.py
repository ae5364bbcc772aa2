"""What a spawn asks for: one spec for teammates and sub-agents, resolved in one place.

The route decides nothing here. A value; knows nothing of the room.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.agent.agent_type import AgentBounds, AgentType
from teamwright.models.effort import Effort
from teamwright.protocol.budget import NO_CAPS, Budget
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class SpawnSpec:
    """One agent to start. `description` is 3 to 5 words for people; None means "as the caller's"."""

    prompt: str
    description: str = ""
    name: str = ""
    agent_type: str = "general-purpose"
    model: str | None = None
    effort: Effort | None = None
    mode: str | None = None
    max_turns: int | None = None
    cwd: Path | None = None
    plan_mode_required: bool = False
    budget: Budget = NO_CAPS
    call: str = ""
    """The name of the call that asks for it: run again after a kill, it starts nobody twice."""
    definition: AgentType | None = None
    """Its kind, once the spec is resolved: what that says stands in the other fields then."""
    backend: str = ""
    """Where it lives: in-process, tmux, or a recipe's name; empty: as the settings say."""
    fork: bool = False
    """It goes on from its caller's conversation, as it is: what a kind would say is its caller's."""
    command: str = ""
    """The command of the settings by which another program runs it; empty: it is one of ours."""
    bounds: AgentBounds | None = None
    """What an agent that goes on was held to when it was born; None for a new one."""

    @property
    def starts_in_plan_mode(self) -> bool:
        """Whether it begins in plan mode, and needs an approval to leave it."""
        return self.plan_mode_required or self.mode == "plan"
