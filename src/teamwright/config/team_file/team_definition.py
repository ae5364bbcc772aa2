"""What a team definition says, as values; and the table of its keys, which is all that the reader goes by.

Does not read files, does not know trust, settings or agents.
"""

from __future__ import annotations

from dataclasses import field

from teamwright.models.effort import EXPECTED_TEXT as EFFORTS
from teamwright.models.effort import Effort
from teamwright.protocol.budget import NO_CAPS, Budget
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """One role. Every member of it has its limits; `line` is where it begins in the file.

    `type` is the kind of agent that it builds on; `model`, `effort`, `mode` None mean as whoever starts it says; `owns`
    are path patterns that nobody but its members may change; `writes` the only ones that it may change besides (None:
    whatever nobody else owns). `command` names the command of the user's settings that runs its teammates.
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
    line: int = 1


@dataclass(frozen=True, slots=True)
class TeamDefinition:
    """A whole file. `budget` caps the run, `check` is what a task's completion must pass, None where nothing is said.

    `effort` is how hard agents think that are started, where neither call nor definition says so. `plans` says who
    approves plans, `permissions` who answers asks of teammates besides the person.
    """

    file: str = ""
    roles: dict[str, Role] = field(default_factory=dict[str, Role])
    check: str | None = None
    plans: str | None = None
    permissions: str | None = None
    members: int | None = None
    effort: Effort | None = None
    budget: Budget = NO_CAPS

    def role(self, name: str) -> Role | None:
        """The role of that name, without regard to case."""
        lower = name.lower()
        return next((role for key, role in self.roles.items() if key.lower() == lower), None)


@dataclass(frozen=True, slots=True)
class KeyKind:
    """What a key must be: `text`, `texts`, `count`, `number`, `effort`, `budget`, or one of `words`."""

    kind: str
    words: tuple[str, ...] = ()


_WORD_MODES = ("default", "acceptEdits", "plan", "delegate", "dontAsk")

TEAM: dict[str, KeyKind] = {
    "check": KeyKind("text"),
    "plans": KeyKind("word", ("lead", "human", "auto")),
    "permissions": KeyKind("word", ("human", "lead")),
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
"""What each kind is called in an error."""
