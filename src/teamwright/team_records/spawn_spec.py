"""The spec of a spawn: one value for teammates and sub-agents, resolved in one place."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from teamwright.agent.agent_type import AgentBounds, AgentType
from teamwright.models.effort import Effort
from teamwright.protocol.usage import NO_CAPS, Budget
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings

WORKTREE = "worktree"
"""The isolation of an agent with a worktree."""

REMOTE = "remote"
"""The isolation of a teammate on another machine, and the beginning of the names of its backends."""


PROGRAM_DEFAULT_MODEL = "default"
"""The model on the roster of an external member for which no model was named."""


class SpawnSpec(Struct, frozen=True):
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
    """The name of the requesting call: repeated after a kill, it starts no second agent."""
    definition: AgentType | None = None
    """Its agent type, once the spec is resolved: the type's values are then in the other fields."""
    backend: str = ""
    """Its backend: in-process, tmux, or a terminal adapter's name; empty: that of the settings."""
    fork: bool = False
    """It continues its caller's conversation, and has the caller's values instead of an agent type's."""
    command: str = ""
    """The command of the settings by which another program runs it; empty: our own program."""
    tools: tuple[str, ...] | None = None
    """The only tools that it has of its agent type; None: all of them."""
    bounds: AgentBounds | None = None
    """The limits of a resumed agent at its start; None for a new one."""

    isolation: str | None = None
    """`worktree`: it gets a worktree; `remote`: another machine; `none`: neither.

    None: as its agent type, its role or the team says.
    """
    worktree: Path | None = None
    """The worktree in which it works; None: it works in `cwd`, or in its caller's worktree."""
    beside: str = ""
    """The id of the sub-agent whose worktree it works in, as a hook of that one; empty: in its caller's."""

    @property
    def wants_worktree(self) -> bool:
        """True when a worktree must be created before it starts."""
        return self.isolation == WORKTREE and self.worktree is None

    @property
    def starts_in_plan_mode(self) -> bool:
        """True when it begins in plan mode, and needs an approval to leave it."""
        return self.plan_mode_required or self.mode == "plan"


class PreparedAgent(Struct, frozen=True):
    """A teammate that can start: its resolved spec, and what the resolution found."""

    spec: SpawnSpec
    model: str
    """The name of the model that it will use, as the roster shows it."""
    bounds: SandboxSettings = UNBOUNDED
    """The bounds of its commands in the sandbox."""
