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


class State(StrEnum):
    """Where a member is. `blocked` waits for a permission; `stopping` was asked to stop and may object.

    `awaiting` handed in a plan and rests until it is answered: a permission holds up a call, a plan a member.
    `suspended` left with its session and keeps its place: whoever resumes the team goes on with it.
    `crashed`: its process ended and no one had stopped the member. `failed`: an error ended it. Both keep their place.
    """

    PENDING = "pending"
    IDLE = "idle"
    WORKING = "working"
    BLOCKED = "blocked"
    AWAITING = "awaiting"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CRASHED = "crashed"
    KILLED = "killed"
    SUSPENDED = "suspended"


class Event(StrEnum):
    """What can happen to a member."""

    READY = "ready"
    WOKEN = "woken"
    REST = "rest"
    AWAIT = "await"
    BLOCK = "block"
    ANSWERED = "answered"
    STOP_ASKED = "stop_asked"
    OBJECTED = "objected"
    LEFT = "left"
    BROKE = "broke"
    CRASHED = "crashed"
    KILLED = "killed"
    SUSPENDED = "suspended"


GONE = frozenset({State.COMPLETED, State.FAILED, State.CRASHED, State.KILLED, State.SUSPENDED})
"""States without a way back: this object is over."""

FAILURES = frozenset({State.FAILED, State.CRASHED})
"""Ends that nobody asked for: the member keeps its place on the roster and its conversation."""

BUSY = frozenset({State.PENDING, State.WORKING, State.BLOCKED, State.STOPPING})
"""States in which a headless run waits."""

LIMITED = "the rate limit"
"""The detail of a member at rest that owes a turn and goes on with it by itself, once the service lets it."""

_ANY = {
    Event.BROKE: State.FAILED,
    Event.CRASHED: State.CRASHED,
    Event.KILLED: State.KILLED,
    Event.LEFT: State.COMPLETED,
    Event.SUSPENDED: State.SUSPENDED,
}

NEXT: dict[State, dict[Event, State]] = {
    State.PENDING: {Event.READY: State.IDLE, **_ANY},
    State.IDLE: {
        Event.WOKEN: State.WORKING,
        Event.AWAIT: State.AWAITING,
        Event.STOP_ASKED: State.STOPPING,
        **_ANY,
    },
    State.WORKING: {
        Event.REST: State.IDLE,
        Event.AWAIT: State.AWAITING,
        Event.BLOCK: State.BLOCKED,
        Event.STOP_ASKED: State.STOPPING,
        **_ANY,
    },
    State.AWAITING: {Event.WOKEN: State.WORKING, Event.STOP_ASKED: State.STOPPING, **_ANY},
    State.BLOCKED: {Event.ANSWERED: State.WORKING, Event.STOP_ASKED: State.STOPPING, **_ANY},
    State.STOPPING: {
        Event.OBJECTED: State.WORKING,
        Event.BLOCK: State.STOPPING,
        Event.ANSWERED: State.STOPPING,
        **_ANY,
    },
    State.COMPLETED: {},
    State.FAILED: {},
    State.CRASHED: {},
    State.KILLED: {},
    State.SUSPENDED: {},
}


class NoSuchStep(ValueError):
    """The table has no such step: a mistake of ours."""


def advance(state: State, event: Event) -> State:
    """The next state. Raises NoSuchStep for what the table does not have."""
    try:
        return NEXT[state][event]
    except KeyError:
        raise NoSuchStep(f"a member that is {state} cannot be {event}") from None
