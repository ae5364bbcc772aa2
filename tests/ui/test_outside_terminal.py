"""A person sits at the terminal where the team runs; the same person types commands into another one."""

import os

import pytest

from tests.ui.program import Program, error_of
from tests.ui.test_terminal_session import at_terminal
from tests.ui.test_terminal_team import a_team, start_team


@pytest.mark.promise("C10", "D4")
@pytest.mark.slow
def test_what_is_done_in_another_terminal_is_shown_in_the_first_and_it_ends_resumable(repo, own_home):
    for name in ("gate", "gate2"):
        os.mkfifo(repo / name)
    with at_terminal(a_team, repo) as (person, _server):
        start_team(person)
        elsewhere = Program(repo, own_home / ".teamwright")
        [team] = [place.name for place in (own_home / ".teamwright/teams").iterdir()]
        sent = elsewhere.run("send", f"tester@{team}", "hurry up")
        assert sent.returncode == 0, sent.stderr
        person.sees("user (another terminal) wrote to tester")
        answered = elsewhere.run("send", f"lead@{team}", "Are you there?", "--wait", "--timeout", "30s")
        assert (answered.returncode, answered.stdout) == (0, "The tester is at it.\n"), answered.stderr
        unheard = elsewhere.run("stop", f"testre@{team}")
        assert error_of(unheard)[0] == "unknown-member"
        done = elsewhere.run("stop", team, "--now")
        assert done.returncode == 0, done.stderr
        assert "tester" in done.stdout
        assert f"teamwright resume {team}" in done.stdout
        person.sees("user (another terminal) ends the team at once")
        assert person.leaves() == 143
        assert "continue: teamwright resume" in person.screen.text
