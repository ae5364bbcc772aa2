"""What Ctrl-C means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.ui.terminal.keys import LEAVE_WINDOW_S, InterruptAction, InterruptState


@pytest.mark.promise("F28")
def test_with_something_typed_it_clears_the_line_and_nothing_else():
    assert InterruptState().press(line=True, is_working=True, now=0) is InterruptAction.CLEAR
    assert InterruptState().press(line=True, is_working=False, now=0) is InterruptAction.CLEAR


@pytest.mark.promise("F28")
def test_on_an_empty_line_it_ends_the_leads_turn_while_the_lead_works():
    assert InterruptState().press(line=False, is_working=True, now=0) is InterruptAction.END_TURN


def test_at_an_idle_prompt_the_first_says_how_to_leave_and_the_second_leaves():
    keys = InterruptState()
    assert keys.press(line=False, is_working=False, now=10.0) is InterruptAction.HINT
    assert keys.press(line=False, is_working=False, now=10.0 + LEAVE_WINDOW_S) is InterruptAction.LEAVE


def test_a_second_one_that_comes_too_late_is_a_first_one():
    keys = InterruptState()
    keys.press(line=False, is_working=False, now=10.0)
    assert keys.press(line=False, is_working=False, now=10.1 + LEAVE_WINDOW_S) is InterruptAction.HINT
    assert keys.press(line=False, is_working=False, now=10.2 + LEAVE_WINDOW_S) is InterruptAction.LEAVE


@pytest.mark.promise("F28")
@pytest.mark.parametrize("between", [{"line": True, "is_working": False}, {"line": False, "is_working": True}])
def test_a_press_that_did_something_else_in_between_starts_anew(between):
    keys = InterruptState()
    keys.press(line=False, is_working=False, now=1.0)
    keys.press(**between, now=1.1)
    assert keys.press(line=False, is_working=False, now=1.2) is InterruptAction.HINT


def test_a_line_in_between_starts_anew():
    keys = InterruptState()
    keys.press(line=False, is_working=False, now=1.0)
    keys.reset()
    assert keys.press(line=False, is_working=False, now=1.1) is InterruptAction.HINT


@pytest.mark.promise("F28")
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 3)), max_size=30))
def test_leaving_always_takes_two_presses_in_a_row_at_an_idle_empty_prompt(presses):
    keys, now, before = InterruptState(), 0.0, None
    for line, works, gap in presses:
        now += gap
        act = keys.press(line=line, is_working=works, now=now)
        if act is InterruptAction.LEAVE:
            assert before is InterruptAction.HINT
            assert not line and not works
            assert gap <= LEAVE_WINDOW_S
        before = act
