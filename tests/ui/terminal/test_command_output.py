"""What commands print is on the screen: a person's own all of it, an agent's last lines, and all of a call by /log."""

import pytest

from teamwright.testing.replies import Answer
from tests.ui.test_terminal_session import at_terminal


@pytest.mark.finding("U3")
def test_output_of_commands_is_visible_and_log_shows_all_of_it(repo, tmp_path):
    def play(body: dict) -> Answer | str:
        done = "tool_result" in str(body["messages"][-1])
        return "Counted." if done else Answer(tools=[("Bash", {"command": "seq 101 120", "description": "counts"})])

    with at_terminal(play, repo, "--permission-mode", "bypassPermissions", HOME=str(tmp_path / "home")) as (person, _):
        person.says("!printf 'one\\ntwo\\n'; ls")
        person.sees("shell      ! printf", "\n  one\n  two\n", "README.md")
        person.says("count")
        person.sees("lead       Bash seq 101 120", "… 17 more lines: /log c1", "118", "119", "120", "Counted.")
        assert "105" not in person.screen.text
        person.says("/log c1")
        person.sees("c1 lead Bash", "seq 101 120", "101", "105", "120")
        person.says("/log 99")
        person.sees("there is no call c99")
        person.says("/log everything")
        person.sees("/log cN: N is the number of a call")
