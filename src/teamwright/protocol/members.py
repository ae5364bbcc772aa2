"""The members of a team: the roster file, and the states that a member may be in.

The roster is the `config.json` of a team, in the schema that both products share. Keys and their order are as observed;
keys of other programs are kept. Data of Teamwright alone (uuid, lease, incarnations) is in team.json. Which events move
a member from one state to another is in `team_records.life_cycle`; which state a view shows is in `teams.member_state`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import LEAD, display_name, name_advice, unknown_member
from teamwright.protocol.indented_json import EncodedValues, IndentedJson

IN_PROCESS = "in-process"
"""The backend of a member that runs in its lead's process."""

_MEMBER_KEYS: tuple[tuple[str, str], ...] = (
    ("agentId", "agent_id"),
    ("name", "name"),
    ("agentType", "agent_type"),
    ("model", "model"),
    ("prompt", "prompt"),
    ("color", "color"),
    ("planModeRequired", "plan_mode_required"),
    ("joinedAt", "joined_at"),
    ("tmuxPaneId", "pane_id"),
    ("cwd", "cwd"),
    ("subscriptions", "subscriptions"),
    ("backendType", "backend_type"),
    ("worktreePath", "worktree_path"),
    ("mode", "mode"),
    ("isActive", "is_active"),
)

_TEAM_KEYS = ("name", "description", "createdAt", "leadAgentId", "leadSessionId", "members", "hiddenPaneIds")


class RosterMember(Struct, frozen=True):
    """One entry of the roster. None means that the key is absent."""

    agent_id: str
    name: str
    agent_type: str = "general-purpose"
    model: str | None = None
    prompt: str | None = None
    color: str | None = None
    plan_mode_required: bool | None = None
    joined_at: int = 0
    pane_id: str = ""
    cwd: str = ""
    subscriptions: tuple[str, ...] = ()
    backend_type: str | None = None
    worktree_path: str | None = None
    mode: str | None = None
    is_active: bool | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_lead(self) -> bool:
        """True for the lead's entry."""
        return self.name == LEAD

    def to_json(self) -> dict[str, Any]:
        """Return the entry as an object, keys in the observed order."""
        out: dict[str, Any] = {}
        for key, attribute in _MEMBER_KEYS:
            value = getattr(self, attribute)
            if value is not None:
                out[key] = list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
        return out | dict(self.extra)


class TeamConfig(Struct, frozen=True, dict=True):
    """The whole file. `members` keeps the order of joining; the lead is first."""

    name: str
    lead_agent_id: str
    lead_session_id: str
    created_at: int
    description: str | None = None
    members: tuple[RosterMember, ...] = ()
    hidden_pane_ids: tuple[str, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The index of each name, in lower case, among the members; of several of one name the first."""
        last = len(self.members) - 1
        return {m.name.lower(): last - n for n, m in enumerate(reversed(self.members))}

    def find(self, name: str) -> RosterMember | None:
        """Return the member of that name, without regard to case; None when there is none."""
        position = self.positions.get(name.lower())
        return None if position is None else self.members[position]

    def get(self, name: str, *, note: str = "nothing was changed", otherwise: Iterable[str] = ()) -> RosterMember:
        """Return the member of that name, without regard to case.

        Raises UnknownMember with all members and advice: the member of the agent type of that name, else the most
        similar name, else `otherwise`. `note` is the error's sentence that nothing was done.
        """
        member = self.find(name)
        if member is not None:
            return member
        names = [display_name(one.name) for one in self.members]
        of_type = next((one.name for one in self.members if one.agent_type.lower() == name.lower()), None)
        do = name_advice(name, names, otherwise)
        if of_type:
            do = [f"'{name}' is an agent type; the member of that type is {of_type}"]
        raise unknown_member(name, names, f"team {self.name}", note=note, do=do)

    @property
    def teammates(self) -> tuple[RosterMember, ...]:
        """All members but the lead."""
        return tuple([m for m in self.members if m.name != LEAD])

    def with_member(self, member: RosterMember) -> TeamConfig:
        """Return the roster with this entry in place of the one of the same name, or appended."""
        position = self.positions.get(member.name.lower())
        if position is None:
            return replace(self, members=(*self.members, member))
        return replace(self, members=(*self.members[:position], member, *self.members[position + 1 :]))

    def without_member(self, name: str) -> TeamConfig:
        """Return the roster without the member of that name or agent id; its pane is no longer hidden."""
        lower = name.lower()
        left = tuple(m for m in self.members if lower not in (m.name.lower(), m.agent_id.lower()))
        pane_ids = {m.pane_id for m in self.members} - {m.pane_id for m in left}
        return replace(self, members=left).with_hidden(*pane_ids, hidden=False)

    def with_hidden(self, *pane_ids: str, hidden: bool) -> TeamConfig:
        """Return the roster with these panes hidden, or visible again."""
        before = self.hidden_pane_ids or ()
        remaining_ids = tuple(id for id in before if id not in pane_ids)
        now = (*remaining_ids, *pane_ids) if hidden else remaining_ids
        return self if now == before else replace(self, hidden_pane_ids=now)

    def encode(self, encoder: IndentedJson | None = None) -> bytes:
        """Return the file's bytes: 2-space JSON without a trailing newline, keys in the observed order.

        An `encoder` that is kept between calls encodes only the changed entries.
        """
        out: dict[str, Any] = {"name": self.name}
        if self.description is not None:
            out["description"] = self.description
        out |= {
            "createdAt": self.created_at,
            "leadAgentId": self.lead_agent_id,
            "leadSessionId": self.lead_session_id,
            "members": EncodedValues(self.members, RosterMember.to_json),
        }
        if self.hidden_pane_ids is not None:
            out["hiddenPaneIds"] = list(self.hidden_pane_ids)
        return (encoder or IndentedJson()).encode(out | dict(self.extra))


def parse_member(data: Mapping[str, Any]) -> RosterMember:
    """Return one entry; unknown keys go to `extra`. Raises KeyError, TypeError for an entry without a name or an id."""
    _require_text(data, "name", "agentId")
    known: dict[str, Any] = {attribute: data[key] for key, attribute in _MEMBER_KEYS if key in data}
    known["subscriptions"] = tuple(known.get("subscriptions") or ())
    keys = {key for key, _ in _MEMBER_KEYS}
    known["extra"] = {key: value for key, value in data.items() if key not in keys}
    return RosterMember(**known)


def parse_config(raw: bytes) -> TeamConfig:
    """Return the roster in these bytes. Raises StorageError (`damaged-file`) for bytes that are no roster."""
    try:
        data = cast("dict[str, Any]", json.loads(raw))
        _require_text(data, "name", "leadAgentId")
        members: object = data["members"]
        if not isinstance(members, list) or not members:
            raise TypeError("members is no list, or has not even the lead")
        hidden = data.get("hiddenPaneIds")
        return TeamConfig(
            name=data["name"],
            lead_agent_id=data["leadAgentId"],
            lead_session_id=data.get("leadSessionId", ""),
            created_at=data.get("createdAt", 0),
            description=data.get("description"),
            members=tuple(parse_member(m) for m in cast("list[dict[str, Any]]", members)),
            hidden_pane_ids=None if hidden is None else tuple(hidden),
            extra={key: value for key, value in data.items() if key not in _TEAM_KEYS},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise StorageError("damaged-file", f"config.json is not a roster: {problem}") from problem


def _require_text(data: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if not isinstance(data[key], str) or not data[key]:
            raise TypeError(f"{key} is no text")


class MemberState(StrEnum):
    """The state of a member. The values are those of event logs, snapshots and JSON output.

    The first group are the states of the lifecycle. A view shows one of the second group for what a member waits for,
    or for one that does not run; the third group are states that the files of a team show without its log.
    """

    PENDING = "pending"
    """It starts, and is not ready."""

    IDLE = "idle"
    """It has no work and waits for nothing."""

    WORKING = "working"
    """It is in a turn."""

    BLOCKED = "blocked"
    """A request, its own or a sub-agent's, is pending."""

    AWAITING = "awaiting"
    """Its plan is not answered yet."""

    STOPPING = "stopping"
    """It was asked to stop, and may object."""

    COMPLETED = "completed"
    """It has ended."""

    FAILED = "failed"
    """Its last turn or its process failed; it keeps its place."""

    CRASHED = "crashed"
    """Its process ended without a stop; it keeps its place and its conversation."""

    KILLED = "killed"
    """It was ended without a question."""

    SUSPENDED = "suspended"
    """Its session was left in order; a resume continues it."""

    STARTING = "starting"
    """The screen's word for `pending`, and for a member whose start is under way."""

    WAITING = "waiting"
    """It waits for other members' tasks, an answer to its message, a rate limit, or another try."""

    STALLED = "stalled"
    """It is in a turn, and made no progress for `stalled_after_s` (120 s)."""

    DEAD = "dead"
    """Its process ended without a message."""

    UNKNOWN = "unknown"
    """It belongs to another product, the log does not mention it, or a later version wrote its state."""

    GONE = "gone"
    """It has ended, or its team is in the archive."""

    LIVE = "live"
    """Its lead's process runs, and itself there or in a process."""

    NOT_RUNNING = "not running"
    """No process runs it."""

    WAITING_FOR_LEAD = "waits for its lead"
    """Its separate process outlived its lead's."""

    REPORTS_WORKING = "at work, it says"
    """Its program says on the roster that it works."""

    REPORTS_IDLE = "idle, it says"
    """Its program says on the roster that it is idle."""

    LEADING = "lead"
    """The lead in the result of a run."""


def parse_state(text: object) -> MemberState:
    """Return the state with this value; `unknown` for a value of a later version."""
    try:
        return MemberState(text)
    except ValueError:
        return MemberState.UNKNOWN
