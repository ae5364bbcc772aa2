"""The values of a team definition, and the table of its keys, which drives the reader."""

from __future__ import annotations

from msgspec import Struct, field

from teamwright.models.effort import EXPECTED_TEXT as EFFORTS
from teamwright.models.effort import Effort
from teamwright.protocol.budget import NO_CAPS, Budget


class Role(Struct, frozen=True):
    """One role, whose limits apply to each member of it; `line` is its first line in the file.

    `type` is the agent type that it builds on; `model`, `effort`, `mode` None mean those of the spawn call; `owns` are
    path patterns that only its members may change; `writes` the only other paths that it may change (None: all unowned
    paths). `command` names the command of the user's settings that runs its teammates; `isolation` says
    whether each has a worktree.
    """

    name: str
    description: str = ""
    type: str = "general-purpose"
    model: str | None = None
    effort: Effort | None = None
    mode: str | None = None
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    owns: tuple[str, ...] = ()
    writes: tuple[str, ...] | None = None
    max_turns: int | None = None
    budget: Budget = NO_CAPS
    command: str = ""
    isolation: str | None = None
    line: int = 1


class TeamDefinition(Struct, frozen=True):
    """A whole file. `budget` caps the run, `check` must pass before a task is completed; None when not given.

    `effort` is the reasoning effort of started agents for which neither call nor definition gives one. `plans` names
    the approver of plans, `permissions` the approver of teammates' permission requests besides the person. `setup`
    prepares each new worktree; `isolation` applies to all members whose role names none.
    """

    file: str = ""
    roles: dict[str, Role] = field(default_factory=dict[str, Role])
    check: str | None = None
    plans: str | None = None
    permissions: str | None = None
    setup: str | None = None
    isolation: str | None = None
    members: int | None = None
    effort: Effort | None = None
    budget: Budget = NO_CAPS

    def role(self, name: str) -> Role | None:
        """Return the role of that name, without regard to case."""
        lower = name.lower()
        return next((role for key, role in self.roles.items() if key.lower() == lower), None)


class KeyKind(Struct, frozen=True):
    """The type of a key: `text`, `texts`, `count`, `number`, `effort`, `budget`, or one of `words`."""

    kind: str
    words: tuple[str, ...] = ()


_WORD_MODES = ("default", "acceptEdits", "plan", "delegate", "dontAsk")

TEAM: dict[str, KeyKind] = {
    "check": KeyKind("text"),
    "plans": KeyKind("word", ("lead", "human", "auto")),
    "permissions": KeyKind("word", ("human", "lead")),
    "setup": KeyKind("text"),
    "isolation": KeyKind("word", ("worktree", "none")),
    "members": KeyKind("count"),
    "effort": KeyKind("effort"),
    "budget": KeyKind("budget"),
}
"""The keys of `[team]`."""

ROLE: dict[str, KeyKind] = {
    "description": KeyKind("text"),
    "type": KeyKind("text"),
    "model": KeyKind("text"),
    "effort": KeyKind("effort"),
    "mode": KeyKind("word", _WORD_MODES),
    "prompt": KeyKind("text"),
    "tools": KeyKind("texts"),
    "disallowed_tools": KeyKind("texts"),
    "owns": KeyKind("paths"),
    "writes": KeyKind("paths"),
    "max_turns": KeyKind("count"),
    "budget": KeyKind("budget"),
    "command": KeyKind("text"),
    "isolation": KeyKind("word", ("worktree", "none")),
}
"""The keys of `[roles.NAME]`."""

TOPS = ("team", "roles")

EXPECTED = {
    "text": "a text",
    "texts": "a list of texts",
    "paths": "a list of path patterns below the repository (no leading /, no ..)",
    "count": "a whole number from 1 on",
    "number": "a number above 0",
    "effort": EFFORTS,
    "budget": "a table of caps",
}
"""The name of each type in an error."""
