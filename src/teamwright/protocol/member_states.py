"""The states of a member: one list for the lifecycle, the event log, status views, the Python API and the tests.

Which events move a member from one state to another is in `team_records.life_cycle`; which state a view shows for
a member is in `teams.member_state`.
"""

from __future__ import annotations

from enum import StrEnum


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
