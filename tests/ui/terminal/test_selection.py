"""The keys: which row they stand on, and one table of them for the editor and for /help."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.ui.terminal.keys import KEY_TABLE, KeyAction, key_lines
from teamwright.ui.terminal.line_completion import candidates
from teamwright.ui.terminal.panel import MARKS, Selection

NAMES = ["ada", "ben", "cleo"]


@pytest.mark.promise("H9")
def test_down_goes_into_the_rows_and_up_from_the_first_goes_out_again():
    keys = Selection()
    assert not keys.move(-1, NAMES)
    assert [keys.move(1, NAMES) and keys.name for _ in range(4)] == ["ada", "ben", "cleo", "cleo"]
    assert [keys.move(-1, NAMES) and keys.name for _ in range(3)] == ["ben", "ada", ""]
    assert not keys.move(-1, NAMES)


@pytest.mark.promise("H9")
def test_without_members_the_keys_stay_with_the_line():
    keys = Selection()
    assert not keys.move(1, [])
    assert not keys.leave()


@pytest.mark.promise("F67")
def test_a_member_that_is_gone_is_not_marked_any_more_and_no_other_one_instead():
    keys = Selection("ben")
    keys.settle(["ada", "cleo"])
    assert keys.name == ""


@given(st.lists(st.tuples(st.sampled_from([1, -1]), st.lists(st.sampled_from(NAMES), unique=True))))
def test_what_is_marked_is_always_there(presses):
    keys = Selection()
    for by, names in presses:
        ours = keys.move(by, names)
        assert keys.name == "" or (ours and keys.name in names)


@pytest.mark.promise("H9", "K8")
def test_every_deed_has_a_key_no_key_has_two_and_help_tells_of_each():
    bound = [names for key in KEY_TABLE for _, names in key.bindings]
    assert len(bound) == len(set(bound))
    assert {deed for key in KEY_TABLE for deed, _ in key.bindings} == set(KeyAction)
    assert len(key_lines()) == len(KEY_TABLE)
    assert all(key.name and key.about for key in KEY_TABLE)


@pytest.mark.promise("H9")
def test_the_page_about_the_terminal_has_a_row_for_each_key_and_names_each_mark():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "terminal.md").read_text()
    assert [key.name for key in KEY_TABLE if f"| `{key.name}` |" not in page] == []
    assert [mark for mark in set(MARKS.values()) - {"✗"} if f"| `{mark}` |" not in page] == []


def test_tab_offers_members_behind_view(tmp_path):
    assert [one.text for one in candidates("/view a", NAMES, tmp_path)] == ["ada"]
