"""The history is searched as in a shell."""

import pytest

from tests.ui.terminal_driver import CTRL_C, ENTER
from tests.ui.test_terminal_session import at_terminal

CTRL_R = "\x12"


@pytest.mark.finding("U5")
@pytest.mark.slow
def test_enter_takes_the_line_that_was_found_and_the_search_is_over(repo, tmp_path):
    with at_terminal(lambda _body: "Read.", repo, HOME=str(tmp_path / "home")) as (person, server):
        person.says("/members of the zebra crossing")
        person.sees("lead")
        person.says("/tasks")
        person.sees("no tasks")
        person.types(CTRL_R + "zeb")
        person.until(lambda rows: any("zeb" in row and "search" in row for row in rows))
        person.types(ENTER)
        found = "> /members of the zebra crossing"
        person.until(lambda rows: found in rows[-6:] and not any("search" in row for row in rows))
        person.types(CTRL_C + CTRL_R + "zeb")
        person.until(lambda rows: any("search" in row for row in rows))
        person.types(CTRL_C)
        person.until(lambda rows: not any("search" in row for row in rows))
        assert server.bodies == []
