"""The state of a member for people and for the lead, and what it waits for, from one table.

The process that runs the team and commands that read files use the same rows. Depends on observed facts; probes nothing
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.events import reading_text
from teamwright.protocol.ids import LEAD, display_name
from teamwright.protocol.members import MemberState
from teamwright.protocol.pending_request import PendingRequest
from teamwright.team_records.life_cycle import RATE_LIMITED
from teamwright.team_records.team_status import MemberStatus, TeamStatus

if TYPE_CHECKING:
    from teamwright.teams.team import SessionTeam


async def remote_members(team: SessionTeam) -> list[MemberStatus]:
    """Return the live members in other processes, in the order of the roster. Raises StorageError."""
    if team.ports.remote_state is None or not team.exists:
        return []
    here = {name.lower() for name in team.members}
    members: list[MemberStatus] = []
    for entry in (await team.roster.read()).teammates:
        if entry.name.lower() in here or team.ports.remote_state(entry.name) is None:
            continue
        known = team.status.members.get(entry.name) or MemberStatus(entry.name, MemberState.IDLE)
        model, mode = known.model or entry.model or "", known.mode or entry.mode or ""
        members.append(replace(known, agent_type=entry.agent_type, model=model, mode=mode))
    return members


class StateRow(Struct, frozen=True):
    """One row of the table: the state, its condition and its reason."""

    state: MemberState
    applies: Callable[[MemberStatus], object]
    reason: Callable[[MemberStatus], str]


_WORKING_STATES = frozenset({MemberState.PENDING, MemberState.WORKING})

STATE_TABLE: tuple[StateRow, ...] = (
    StateRow(MemberState.CRASHED, lambda s: s.state == MemberState.CRASHED, lambda s: s.detail),
    StateRow(MemberState.FAILED, lambda s: s.state == MemberState.FAILED, lambda s: s.detail),
    StateRow(MemberState.KILLED, lambda s: s.state == MemberState.KILLED, lambda s: s.detail),
    StateRow(MemberState.FAILED, lambda s: s.state == MemberState.COMPLETED and s.failed, lambda s: s.failed),
    StateRow(MemberState.COMPLETED, lambda s: s.state == MemberState.COMPLETED, lambda s: s.detail),
    StateRow(MemberState.SUSPENDED, lambda s: s.state == MemberState.SUSPENDED, lambda s: s.failed or s.detail),
    StateRow(MemberState.DEAD, lambda s: s.lost, lambda s: s.detail or "its process is gone"),
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


def apply_state_table(member: MemberStatus) -> MemberStatus:
    """Return the member with the state of the table and its reason."""
    row = next(row for row in STATE_TABLE if row.applies(member))
    return replace(member, state=row.state, reason=row.reason(member))


def _describe_work(member: MemberStatus) -> str:
    if member.state == MemberState.PENDING:
        return "starts"
    if member.doing == "prompt":
        return reading_text(member.what)
    return {"model": "the model answers", "tool": member.what}.get(member.doing, "")


def _describe_stall(member: MemberStatus) -> str:
    return "nothing comes of the model" if member.doing == "model" else "nothing happens, though it is at work"


# ── observed facts ────────────────────────────────────────────────────────────────────────────────────────────────────


class OpenTask(NamedTuple):
    """A task that is not completed: its owner, and the open tasks it waits for."""

    owner: str
    waits_for: Sequence[str]


def with_state(
    member: MemberStatus, status: TeamStatus, tasks: Mapping[str, OpenTask], *, gone: str = ""
) -> MemberStatus:
    """Return the member with its state and the reason, from the folded events and the open tasks by number.

    `gone` says why its process or coroutine does not exist; empty when it does.
    """
    requests = [request for request in status.requests.values() if request.blocks(member.name)]
    idle = member.state is MemberState.IDLE
    keeps_detail = not gone or member.has_ended or member.state is MemberState.SUSPENDED
    return apply_state_table(
        replace(
            member,
            lost=member.lost or bool(gone),
            detail=member.detail if keeps_detail else gone,
            pending_request=_describe_request(requests[0], len(requests) - 1) if requests else "",
            blockers=describe_blockers(member.name, tasks) if idle else "",
            awaited_answer=_awaited_answer(member, status, tasks) if idle else "",
        )
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
        [f"#{id} ({display_name(tasks[id].owner)})" if id in tasks and tasks[id].owner else f"#{id}" for id in ids]
    )


def _awaited_answer(member: MemberStatus, status: TeamStatus, tasks: Mapping[str, OpenTask]) -> str:
    """Return whose answer it waits for: it went to rest after a message to them, and they have not written since.

    A message to the lead, or to an ended member, counts as a question only from a member that still has a task.
    """
    has_task = any(task.owner == member.name for task in tasks.values())
    return _join_names(
        [display_name(name) for name in member.wrote_to if has_task or _is_running_teammate(name, status)]
    )


def _is_running_teammate(name: str, status: TeamStatus) -> bool:
    other = status.members.get(name)
    return name != LEAD and other is not None and not other.has_ended


def _describe_request(request: PendingRequest, more: int) -> str:
    line = request.what.strip().split("\n", 1)[0][:100]
    description = {
        "question": f"the user's answer: {line}",
        "plan": "approval of its plan",
        "review": "approval of its work",
        "budget": line,
    }.get(request.kind)
    by = "" if request.owner in {"", request.asker} else f", asked by {display_name(request.asker)[:100]}"
    also = f", and {more} more" if more else ""
    return (description or f"permission for {request.tool} {line}".rstrip()) + by + also


def _join_names(words: Collection[str]) -> str:
    names = list(words)[:3]
    more = len(words) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
