"""The state of a member for people and for the lead, and what it waits for, from one table.

The process that runs the team and commands that read files use the same rows. Depends on observed facts; probes nothing
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.roster import RosterMember
from teamwright.protocol.states import MemberState
from teamwright.protocol.values import dataclass
from teamwright.teams.lifecycle import RATE_LIMITED
from teamwright.teams.status.team_status import MemberActivity, RequestSummary, TeamStatus
from teamwright.teams.team import SessionTeam


@dataclass(frozen=True, slots=True)
class RemoteMember:
    """A member in another process: its roster entry and its state."""

    entry: RosterMember
    activity: MemberActivity


async def remote_members(team: SessionTeam) -> list[RemoteMember]:
    """Return the live members in other processes, in the order of the roster. Raises StorageError."""
    if team.ports.remote_state is None or not team.exists:
        return []
    here = {name.lower() for name in team.members}
    found: list[RemoteMember] = []
    for entry in (await team.roster.read()).teammates:
        if entry.name.lower() in here or team.ports.remote_state(entry.name) is None:
            continue
        found.append(
            RemoteMember(
                entry, team.status.members.get(entry.name) or MemberActivity(entry.name, state=MemberState.IDLE)
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """The known facts of a member. `alive`: it was probed, and its process or coroutine exists.

    `failed` says why its last turn failed. `pending_request` is the open request that it waits for; `blockers` are the
    open tasks, with their owners in words, that block all its own open tasks; `awaited_answer` are recipients of its
    messages that have not answered.
    """

    state: MemberState
    alive: bool = True
    detail: str = ""
    doing: str = ""
    what: str = ""
    stalled: bool = False
    pending_request: str = ""
    blockers: str = ""
    awaited_answer: str = ""
    failed: str = ""


class ShownState(NamedTuple):
    """The state in one word, and the reason: what it waits for or does; empty without one."""

    state: MemberState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StateRow:
    """One row of the table: the state, its condition and its reason."""

    state: MemberState
    applies: Callable[[MemberFacts], object]
    reason: Callable[[MemberFacts], str]


_WORKING_STATES = frozenset({MemberState.PENDING, MemberState.WORKING})

STATE_TABLE: tuple[StateRow, ...] = (
    StateRow(MemberState.CRASHED, lambda s: s.state == MemberState.CRASHED, lambda s: s.detail),
    StateRow(MemberState.FAILED, lambda s: s.state == MemberState.FAILED, lambda s: s.detail),
    StateRow(MemberState.KILLED, lambda s: s.state == MemberState.KILLED, lambda s: s.detail),
    StateRow(MemberState.FAILED, lambda s: s.state == MemberState.COMPLETED and s.failed, lambda s: s.failed),
    StateRow(MemberState.COMPLETED, lambda s: s.state == MemberState.COMPLETED, lambda s: s.detail),
    StateRow(MemberState.SUSPENDED, lambda s: s.state == MemberState.SUSPENDED, lambda s: s.failed or s.detail),
    StateRow(MemberState.DEAD, lambda s: not s.alive, lambda s: s.detail or "its process is gone"),
    StateRow(
        MemberState.STOPPING, lambda s: s.state == MemberState.STOPPING, lambda s: "was asked to stop, and may object"
    ),
    StateRow(MemberState.AWAITING, lambda s: s.state == MemberState.AWAITING, lambda s: s.detail),
    StateRow(
        MemberState.BLOCKED,
        lambda s: s.state == MemberState.BLOCKED or s.pending_request,
        lambda s: s.pending_request or s.detail,
    ),
    StateRow(MemberState.WAITING, lambda s: s.state in _WORKING_STATES and s.doing == "pause", lambda s: s.what),
    StateRow(MemberState.STALLED, lambda s: s.state in _WORKING_STATES and s.stalled, lambda s: _describe_stall(s)),
    StateRow(MemberState.WORKING, lambda s: s.state in _WORKING_STATES, lambda s: _describe_work(s)),
    StateRow(
        MemberState.WAITING, lambda s: s.state == MemberState.IDLE and s.detail == RATE_LIMITED, lambda s: s.detail
    ),
    StateRow(MemberState.FAILED, lambda s: s.state == MemberState.IDLE and s.failed, lambda s: s.failed),
    StateRow(MemberState.WAITING, lambda s: s.blockers, lambda s: s.blockers),
    StateRow(MemberState.WAITING, lambda s: s.awaited_answer, lambda s: f"an answer of {s.awaited_answer}"),
    StateRow(MemberState.IDLE, lambda s: s.state == MemberState.IDLE, lambda s: ""),
    StateRow(MemberState.UNKNOWN, lambda s: True, lambda s: s.detail),
)
"""The state table: the first matching row is the member's state."""

SHOWN_STATES = tuple(dict.fromkeys(row.state for row in STATE_TABLE))
"""Every possible state."""

WAITING_STATES = frozenset({MemberState.WAITING, MemberState.AWAITING, MemberState.BLOCKED, MemberState.STOPPING})
"""States whose reason is what the member waits for."""


def shown_state(facts: MemberFacts) -> ShownState:
    """Return the member's state by the table."""
    row = next(row for row in STATE_TABLE if row.applies(facts))
    return ShownState(row.state, row.reason(facts))


def _describe_work(facts: MemberFacts) -> str:
    if facts.state == MemberState.PENDING:
        return "starts"
    return {"model": "the model answers", "tool": facts.what}.get(facts.doing, "")


def _describe_stall(facts: MemberFacts) -> str:
    return "nothing comes of the model" if facts.doing == "model" else "nothing happens, though it is at work"


# ── observed facts ────────────────────────────────────────────────────────────────────────────────────────────────────


class OpenTask(NamedTuple):
    """A task that is not completed: its owner, and the open tasks it waits for."""

    owner: str
    waits_for: Sequence[str]


def member_facts(
    member: MemberActivity, status: TeamStatus, tasks: Mapping[str, OpenTask], *, alive: bool = True, why: str = ""
) -> MemberFacts:
    """Return the facts of a member from the folded events and the open tasks by number. `why` it is dead, if it is."""
    asks = [one for one in status.requests.values() if one.blocks(member.name)]
    idle = member.state == MemberState.IDLE
    return MemberFacts(
        state=member.state,
        alive=alive and not member.lost,
        detail=member.detail if member.has_ended or member.state == MemberState.SUSPENDED else why or member.detail,
        doing=member.doing,
        what=member.what,
        stalled=member.stalled,
        failed=member.failed,
        pending_request=_describe_request(asks[0], len(asks) - 1) if asks else "",
        blockers=describe_blockers(member.name, tasks) if idle else "",
        awaited_answer=_awaited_answer(member, status, tasks) if idle else "",
    )


def describe_blockers(name: str, tasks: Mapping[str, OpenTask]) -> str:
    """Return what blocks all open tasks of this member, in words: `#3 (historian)`; empty when one of them is not
    blocked.
    """
    own = [task for task in tasks.values() if task.owner == name]
    if not own or not all(task.waits_for for task in own):
        return ""
    ids = dict.fromkeys(id for task in own for id in task.waits_for)
    return _join_names(
        [f"#{id} ({_shown_name(tasks[id].owner)})" if id in tasks and tasks[id].owner else f"#{id}" for id in ids]
    )


def _awaited_answer(member: MemberActivity, status: TeamStatus, tasks: Mapping[str, OpenTask]) -> str:
    """Return whose answer it waits for: it went to rest after a message to them, and they have not written since.

    A message to the lead, or to an ended member, counts as a question only from a member that still has a task.
    """
    has_task = any(task.owner == member.name for task in tasks.values())
    return _join_names(
        [_shown_name(name) for name in member.wrote_to if has_task or _is_running_teammate(name, status)]
    )


def _is_running_teammate(name: str, status: TeamStatus) -> bool:
    other = status.members.get(name)
    return name != LEAD and other is not None and not other.has_ended


def _describe_request(request: RequestSummary, more: int) -> str:
    line = request.what.strip().split("\n", 1)[0][:100]
    said = {"question": f"the user's answer: {line}", "plan": "approval of its plan", "budget": line}.get(request.kind)
    by = "" if request.owner in {"", request.member} else f", asked by {_shown_name(request.member)[:100]}"
    also = f", and {more} more" if more else ""
    return (said or f"permission for {request.tool} {line}".rstrip()) + by + also


def _shown_name(name: str) -> str:
    return LEAD_ALIAS if name == LEAD else name


def _join_names(words: Collection[str], limit: int = 3) -> str:
    shown = list(words)[:limit]
    more = len(words) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
