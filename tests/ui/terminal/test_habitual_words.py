"""Words that a person types out of habit cost nothing: no model reads them."""

import pytest

from tests.ui.test_terminal_session import at_terminal


@pytest.mark.finding("U6")
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
@pytest.mark.slow_after(1)
def test_a_note_and_exit_reach_no_model(repo, tmp_path, term):
    with at_terminal(lambda _body: "Read.", repo, HOME=str(tmp_path / "home"), TERM=term) as (person, server):
        person.says("# the port is 8080")
        person.sees("u  user", "p  project", "l  local", "store in [u/p/l]")
        person.says("p")
        person.sees("stored in AGENTS.md")
        person.says("#")
        person.sees("# NOTE stores")
        person.says("help")
        person.sees("/members", "Ctrl-D")
        person.says("exit")
        assert person.leaves() == 0
        assert server.bodies == []
    assert (repo / "AGENTS.md").read_text() == "- the port is 8080\n"
