import itertools

import pytest

from teamwright.protocol.members import MemberState
from teamwright.team_records.life_cycle import (
    ENDED_STATES,
    TRANSITIONS,
    InvalidTransition,
    LifecycleEvent,
    advance,
)


@pytest.mark.promise("D1", "D3", "D4")
@pytest.mark.parametrize(("state", "event"), list(itertools.product(TRANSITIONS, LifecycleEvent)))
def test_every_step_is_in_the_table_or_refused(state, event):
    if event in TRANSITIONS[state]:
        assert advance(state, event) is TRANSITIONS[state][event]
    else:
        with pytest.raises(InvalidTransition):
            advance(state, event)


@pytest.mark.parametrize("state", [s for s in TRANSITIONS if s not in ENDED_STATES])
def test_every_living_state_can_be_killed_can_break_can_leave_and_can_be_suspended(state):
    ends = (
        LifecycleEvent.KILLED,
        LifecycleEvent.FAILED,
        LifecycleEvent.CRASHED,
        LifecycleEvent.LEFT,
        LifecycleEvent.SUSPENDED,
    )
    assert {advance(state, e) for e in ends} == ENDED_STATES


@pytest.mark.parametrize("state", sorted(ENDED_STATES))
def test_nothing_comes_back_from_being_gone(state):
    assert not TRANSITIONS[state]


def test_every_state_can_be_reached_from_the_first():
    reached, todo = {MemberState.PENDING}, [MemberState.PENDING]
    while todo:
        for state in TRANSITIONS[todo.pop()].values():
            if state not in reached:
                reached.add(state)
                todo.append(state)
    assert reached == set(TRANSITIONS)
