"""What Ctrl-C means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.ui.terminal.keys import WINDOW_S, Act, Interrupts


@pytest.mark.promise("F28")
def test_with_something_typed_it_clears_the_line_and_nothing_else():
    assert Interrupts().pressed(line=True, lead_works=True, now=0) is Act.CLEAR
    assert Interrupts().pressed(line=True, lead_works=False, now=0) is Act.CLEAR


@pytest.mark.promise("F28")
def test_on_an_empty_line_it_ends_the_leads_turn_while_the_lead_works():
    assert Interrupts().pressed(line=False, lead_works=True, now=0) is Act.END_TURN


def test_at_an_idle_prompt_the_first_says_how_to_leave_and_the_second_leaves():
    keys = Interrupts()
    assert keys.pressed(line=False, lead_works=False, now=10.0) is Act.HINT
    assert keys.pressed(line=False, lead_works=False, now=10.0 + WINDOW_S) is Act.LEAVE


def test_a_second_one_that_comes_too_late_is_a_first_one():
    keys = Interrupts()
    keys.pressed(line=False, lead_works=False, now=10.0)
    assert keys.pressed(line=False, lead_works=False, now=10.1 + WINDOW_S) is Act.HINT
    assert keys.pressed(line=False, lead_works=False, now=10.2 + WINDOW_S) is Act.LEAVE


@pytest.mark.promise("F28")
@pytest.mark.parametrize("between", [{"line": True, "lead_works": False}, {"line": False, "lead_works": True}])
def test_a_press_that_did_something_else_in_between_starts_anew(between):
    keys = Interrupts()
    keys.pressed(line=False, lead_works=False, now=1.0)
    keys.pressed(**between, now=1.1)
    assert keys.pressed(line=False, lead_works=False, now=1.2) is Act.HINT


def test_a_line_in_between_starts_anew():
    keys = Interrupts()
    keys.pressed(line=False, lead_works=False, now=1.0)
    keys.typed()
    assert keys.pressed(line=False, lead_works=False, now=1.1) is Act.HINT


@pytest.mark.promise("F28")
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.floats(0, 3)), max_size=30))
def test_leaving_always_takes_two_presses_in_a_row_at_an_idle_empty_prompt(presses):
    keys, now, before = Interrupts(), 0.0, None
    for line, works, gap in presses:
        now += gap
        act = keys.pressed(line=line, lead_works=works, now=now)
        if act is Act.LEAVE:
            assert before is Act.HINT
            assert not line and not works
            assert gap <= WINDOW_S
        before = act
