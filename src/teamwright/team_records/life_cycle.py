"""The life of a teammate: states down, events across; every change goes through `advance`.

    pending ──ready──▶ idle ◀──rest── working ──blocked──▶ blocked
                        │  ──woken──▶    │  ◀──answered──     │
                        └──────stop_asked┴──────────────────┘
                                         ▼
                                      stopping ──left──▶ completed        (objected: back to working)
    working ──await──▶ awaiting ──woken──▶ working            (a plan was handed in; mail wakes it as ever)
    from every living state: ──broke──▶ failed, ──crashed──▶ crashed, ──killed──▶ killed, ──suspended──▶ suspended

tests read the same table.
"""

from __future__ import annotations

from enum import StrEnum

from teamwright.protocol.members import MemberState

USER_CAUSE = "stopped by the user"
"""The start of the cause when a person wanted the end, in any terminal."""


class LifecycleEvent(StrEnum):
    """Events that can happen to a member."""

    READY = "ready"
    WOKEN = "woken"
    REST = "rest"
    AWAIT = "await"
    BLOCK = "block"
    ANSWERED = "answered"
    STOP_REQUESTED = "stop_asked"
    OBJECTED = "objected"
    LEFT = "left"
    FAILED = "broke"
    CRASHED = "crashed"
    KILLED = "killed"
    SUSPENDED = "suspended"


ENDED_STATES = frozenset(
    {MemberState.COMPLETED, MemberState.FAILED, MemberState.CRASHED, MemberState.KILLED, MemberState.SUSPENDED}
)
"""Final states: the object is not used again."""

INCARNATION_ENDS = ENDED_STATES - {MemberState.SUSPENDED}
"""Ends of an incarnation. A suspended one resumes with its session."""

FAILED_STATES = frozenset({MemberState.FAILED, MemberState.CRASHED})
"""Ends without a request: the member keeps its place on the roster and its conversation."""

BUSY_STATES = frozenset({MemberState.PENDING, MemberState.WORKING, MemberState.BLOCKED, MemberState.STOPPING})
"""States in which a headless run waits."""

RATE_LIMITED = "the rate limit"
"""The detail of a resting member that owes a turn, which it runs automatically once the service allows it."""

_FROM_ANY_STATE = {
    LifecycleEvent.FAILED: MemberState.FAILED,
    LifecycleEvent.CRASHED: MemberState.CRASHED,
    LifecycleEvent.KILLED: MemberState.KILLED,
    LifecycleEvent.LEFT: MemberState.COMPLETED,
    LifecycleEvent.SUSPENDED: MemberState.SUSPENDED,
}

TRANSITIONS: dict[MemberState, dict[LifecycleEvent, MemberState]] = {
    MemberState.PENDING: {LifecycleEvent.READY: MemberState.IDLE, **_FROM_ANY_STATE},
    MemberState.IDLE: {
        LifecycleEvent.WOKEN: MemberState.WORKING,
        LifecycleEvent.AWAIT: MemberState.AWAITING,
        LifecycleEvent.STOP_REQUESTED: MemberState.STOPPING,
        **_FROM_ANY_STATE,
    },
    MemberState.WORKING: {
        LifecycleEvent.REST: MemberState.IDLE,
        LifecycleEvent.AWAIT: MemberState.AWAITING,
        LifecycleEvent.BLOCK: MemberState.BLOCKED,
        LifecycleEvent.STOP_REQUESTED: MemberState.STOPPING,
        **_FROM_ANY_STATE,
    },
    MemberState.AWAITING: {
        LifecycleEvent.WOKEN: MemberState.WORKING,
        LifecycleEvent.STOP_REQUESTED: MemberState.STOPPING,
        **_FROM_ANY_STATE,
    },
    MemberState.BLOCKED: {
        LifecycleEvent.ANSWERED: MemberState.WORKING,
        LifecycleEvent.STOP_REQUESTED: MemberState.STOPPING,
        **_FROM_ANY_STATE,
    },
    MemberState.STOPPING: {
        LifecycleEvent.OBJECTED: MemberState.WORKING,
        LifecycleEvent.BLOCK: MemberState.STOPPING,
        LifecycleEvent.ANSWERED: MemberState.STOPPING,
        **_FROM_ANY_STATE,
    },
    MemberState.COMPLETED: {},
    MemberState.FAILED: {},
    MemberState.CRASHED: {},
    MemberState.KILLED: {},
    MemberState.SUSPENDED: {},
}


class InvalidTransition(ValueError):
    """A transition that the table does not contain: a bug in Teamwright."""


def advance(state: MemberState, event: LifecycleEvent) -> MemberState:
    """Return the next state. Raises InvalidTransition for a step that the table does not contain."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise InvalidTransition(f"a member that is {state} cannot be {event}") from None
