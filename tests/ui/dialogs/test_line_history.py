"""The history of lines: shared by terminals, several lines an entry, private, and nothing huge."""

import stat

import pytest

from tests.ui.terminal_driver import ALT_ENTER, ENTER
from tests.ui.test_terminal_session import at_terminal


@pytest.mark.slow
@pytest.mark.promise("K8")
def test_two_terminals_keep_their_lines_whole_in_one_private_file_that_nothing_huge_goes_into(repo, own_home):
    with at_terminal(lambda _body: "Well.", repo) as (one, _), at_terminal(lambda _body: "Good.", repo) as (two, _):
        one.types("first of one" + ALT_ENTER + "second line" + ENTER)
        two.says("said at two")
        one.sees("Well.")
        two.sees("Good.")
        one.types("\x1b[200~" + "x" * 120_000 + "\x1b[201~" + ENTER)
        one.sees("Well.", "Well.")
    file = own_home / ".teamwright" / "history"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and file.stat().st_size < 10_000
    assert "+first of one\n+second line\n" in file.read_text() and "+said at two\n" in file.read_text()
