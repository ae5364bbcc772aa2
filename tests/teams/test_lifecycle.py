import itertools

import pytest

from teamwright.teams.lifecycle import GONE, NEXT, Event, NoSuchStep, State, advance


@pytest.mark.promise("D1", "D3", "D4")
@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_step_is_in_the_table_or_refused(state, event):
    if event in NEXT[state]:
        assert advance(state, event) is NEXT[state][event]
    else:
        with pytest.raises(NoSuchStep):
            advance(state, event)


@pytest.mark.parametrize("state", [s for s in State if s not in GONE])
def test_every_living_state_can_be_killed_can_break_can_leave_and_can_be_suspended(state):
    ends = (Event.KILLED, Event.BROKE, Event.CRASHED, Event.LEFT, Event.SUSPENDED)
    assert {advance(state, e) for e in ends} == GONE


@pytest.mark.parametrize("state", sorted(GONE))
def test_nothing_comes_back_from_being_gone(state):
    assert not NEXT[state]


def test_every_state_can_be_reached_from_the_first():
    reached, todo = {State.PENDING}, [State.PENDING]
    while todo:
        for state in NEXT[todo.pop()].values():
            if state not in reached:
                reached.add(state)
                todo.append(state)
    assert reached == set(State)
