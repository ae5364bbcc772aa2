"""One incarnation of a member as team.json notes it, its end while that is processed, and how both are parsed.

Depends on values of permissions, models and budgets. Leaves the file itself, its lock and its changes to
`team_state_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import asdict

from teamwright.agent.agent_type import AgentBounds
from teamwright.models.effort import Effort, parse_effort
from teamwright.permissions.verdict import Mode
from teamwright.protocol.budget import NO_CAPS, Budget
from teamwright.protocol.roster import RosterMember


def process_directory(transcript: Path) -> Path:
    """Return the process directory of the member with this transcript."""
    return transcript.parent.parent / "members" / transcript.stem


_STORED_KEYS = ("agentId", "name", "agentType", "model", "color", "planModeRequired", "joinedAt", "cwd", "worktreePath")
"""Keys of a roster entry that team.json keeps with an incarnation; its other files contain the rest."""


class Incarnation(Struct, frozen=True):
    """One run of a member: the facts that a resuming process cannot read elsewhere.

    `extra` are keys of a later version.
    """

    incarnation: int
    """Its number."""
    transcript: str
    """The name of its transcript."""
    first: str
    """The id of the inbox entry with its first prompt."""
    call: str = ""
    """The call that started it."""
    model: str | None = None
    """The requested model; null: the lead's."""
    max_turns: int | None = None
    """The cap on its model calls."""
    budget: Budget = NO_CAPS
    """Its caps (usd tokens turns minutes calls); absent without caps."""
    bounds: AgentBounds | None = None
    """The limits of its agent type at its start; absent without limits."""
    mode: str | None = None
    """Its permission mode; empty: the lead's mode. A resume uses this value, not the roster's."""
    effort: Effort | None = None
    """The requested effort; absent without one."""
    place: Mapping[str, Any] | None = None
    """The backend's record of its member process: `{kind, id, facts, note?}`; absent in the lead's process."""
    command: str = ""
    """The command of another program that runs it; absent for Teamwright."""
    crashed: str = ""
    """The cause of the end of its process, until it is resumed or removed."""
    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Keys of its roster entry, from which a damaged config.json is rebuilt."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def as_json(self) -> dict[str, Any]:
        """Return its object in the file; caps and bounds only when there are any."""
        out = asdict(self)
        for name in ("mode", "effort", "place"):
            if out[name] is None:
                del out[name]
        for name in ("command", "crashed", "entry"):
            if not out[name]:
                del out[name]
        del out["budget"]
        out |= out.pop("extra")
        del out["bounds"]
        own_bounds = self.bounds
        bounds = {} if own_bounds is None or own_bounds == AgentBounds() else {"bounds": own_bounds.as_json()}
        return out | ({"budget": self.budget.as_json()} if self.budget else {}) | bounds


class PendingEnd(Struct, frozen=True):
    """A member that has ended, until the lead is notified: a process that resumes the team completes this.

    `name` as on the roster; `agreed_to` is the shutdown request that it agreed to, `tasks` go back to the list, `tell`:
    the lead is notified, with the message id `told`; `keeps`: the member crashed or failed, and keeps its place and its
    conversation.
    """

    name: str
    incarnation: int
    cause: str
    told: str
    agreed_to: str = ""
    tasks: tuple[str, ...] = ()
    tell: bool = True
    keeps: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def as_json(self) -> dict[str, Any]:
        """Return its object in the file; `keeps` only when true."""
        out = {name: value for name, value in asdict(self).items() if value or name != "keeps"}
        return out | out.pop("extra", {})


class EndedIncarnation(Struct, frozen=True):
    """The last run of a name that has ended: its cause, and the call that started it, which starts no second member."""

    call: str
    cause: str


def stored_entry(member: RosterMember) -> dict[str, Any]:
    """Return the part of a member's roster entry that team.json keeps."""
    whole = member.to_json()
    return {key: whole[key] for key in _STORED_KEYS if key in whole}


_INCARNATION_KEYS = frozenset(Incarnation.__annotations__) - {"extra"}
_PENDING_END_KEYS = frozenset(PendingEnd.__annotations__) - {"extra"}


def parse_incarnation(data: Mapping[str, Any]) -> Incarnation:
    """Return one incarnation from its object in the file. Raises ValueError, KeyError, TypeError for an invalid one."""
    model, rounds, mode = data.get("model"), data.get("max_turns"), data.get("mode")
    return Incarnation(
        int(data["incarnation"]),
        str(data["transcript"]),
        str(data["first"]),
        str(data.get("call", "")),
        None if model is None else str(model),
        None if rounds is None else int(rounds),
        Budget.from_json(data.get("budget", {})),
        None if (bounds := data.get("bounds")) is None else AgentBounds.from_json(bounds),
        mode if mode is None else str(Mode(mode)) if mode else "",
        None if (effort := data.get("effort")) is None else parse_effort(effort),
        cast("Mapping[str, Any] | None", data.get("place")),
        str(data.get("command", "")),
        str(data.get("crashed", "")),
        dict(data.get("entry", {})),
        {key: value for key, value in data.items() if key not in _INCARNATION_KEYS},
    )


def parse_pending_end(data: Mapping[str, Any]) -> PendingEnd:
    return PendingEnd(
        str(data["name"]),
        int(data["incarnation"]),
        str(data["cause"]),
        str(data["told"]),
        str(data.get("agreed_to", "")),
        tuple(str(id) for id in data.get("tasks", ())),
        bool(data.get("tell", True)),
        bool(data.get("keeps", False)),
        {key: value for key, value in data.items() if key not in _PENDING_END_KEYS},
    )
