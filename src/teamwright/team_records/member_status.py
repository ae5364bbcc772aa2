"""The status of a member, as every view shows it: `status`, `teams show`, ListAgents, the screen and its lists.

Depends on values of the protocol. `team_status` folds it from events, `member_state` finds its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from teamwright.protocol.event_json import usage_from_json, usage_to_json
from teamwright.protocol.events import TaskInfo
from teamwright.protocol.member_states import MemberState, parse_state
from teamwright.protocol.usage import Usage
from teamwright.team_records.life_cycle import INCARNATION_ENDS

WAITING_STATES = frozenset({MemberState.WAITING, MemberState.AWAITING, MemberState.BLOCKED, MemberState.STOPPING})
"""States whose reason is what the member waits for."""


class MemberStatus(Struct):
    """One member. Times in seconds since 1970, 0 when unknown.

    The fields up to `failed` are folded from events, and a snapshot of the log keeps them: `state` is there the
    lifecycle's. `lost`: another process replaced the member's process and has not reported the member yet, or its
    process is known to be gone. `doing` and `what` come from the last Progress event; `wrote_to` are members whose
    answer it may wait for. `failed` says why its last turn failed; the end of a later turn clears it.

    The other fields are what a view adds, as far as it shows them: `reason` is what the member waits for or does.
    `pending_request` is the open request that it waits for; `blockers` are the open tasks, with their owners in words,
    that block all its own open tasks; `awaited_answer` are recipients of its messages that have not answered. `unread`
    and `messages` count its inbox, -1 when that cannot be read. `joined_at` is in milliseconds. `place` is its backend:
    `in-process`, or a backend and the member's id there (`tmux %3`); empty for a lead. `note` says how to see it there.
    `open_tasks` are ids, `task` is the one in progress.
    """

    name: str
    state: MemberState = MemberState.PENDING
    detail: str = ""
    incarnation: int = 0
    turn: int = 0
    since: float = 0.0
    active: float = 0.0
    doing: str = ""
    what: str = ""
    doing_since: float = 0.0
    stalled: bool = False
    lost: bool = False
    model: str = ""
    effort: str = ""
    mode: str = ""
    color: str | None = None
    model_calls: int = 0
    context: int = 0
    usage: Usage = field(default_factory=Usage)
    wrote_to: tuple[str, ...] = ()
    failed: str = ""
    reason: str = ""
    pending_request: str = ""
    blockers: str = ""
    awaited_answer: str = ""
    agent_type: str = ""
    joined_at: int = 0
    unread: int = 0
    messages: int = 0
    place: str = ""
    note: str = ""
    open_tasks: tuple[str, ...] = ()
    task: TaskInfo | None = None

    @property
    def has_ended(self) -> bool:
        """Return True when this incarnation has ended."""
        return self.state in INCARNATION_ENDS

    @property
    def is_waiting(self) -> bool:
        """Return True when `reason` is what it waits for."""
        return self.state in WAITING_STATES

    @property
    def has_own_process(self) -> bool:
        """Return True when it runs outside the lead's process."""
        return self.place not in {"", "in-process"}

    @property
    def tokens(self) -> int:
        """The tokens of its usage."""
        return self.usage.tokens

    @property
    def usd(self) -> float | None:
        """The money of its usage; None for an unknown price."""
        return self.usage.usd

    def clear_activity(self) -> None:
        """Clear the member's activity."""
        self.doing = self.what = ""
        self.doing_since = 0.0
        self.stalled = False

    def as_json(self) -> dict[str, Any]:
        """Return its line in a snapshot."""
        out: dict[str, Any] = {name: getattr(self, name) for name in _SNAPSHOT_FIELDS}
        out["usage"] = usage_to_json(self.usage)
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MemberStatus:
        """Return the member from its snapshot line; keys of a newer version are ignored. Raises TypeError, KeyError."""
        data = {_NAMES_OF_VERSION_1.get(key, key): value for key, value in data.items()}
        known = {key: value for key, value in data.items() if key in _SNAPSHOT_FIELDS}
        known["state"] = parse_state(data.get("state", MemberState.PENDING))
        known["usage"] = usage_from_json(data.get("usage") or {})
        known["wrote_to"] = tuple(data.get("wrote_to") or ())
        return cls(**known)


_NAMES_OF_VERSION_1 = {"life": "incarnation", "rounds": "model_calls"}

_SNAPSHOT_FIELDS = (
    *("name", "state", "detail", "incarnation", "turn", "since", "active", "doing", "what", "doing_since", "stalled"),
    *("lost", "model", "effort", "mode", "color", "model_calls", "context", "usage", "wrote_to", "failed"),
)
"""The fields that a snapshot keeps, in its order."""
