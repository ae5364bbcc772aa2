"""What commands print is on the screen: a person's own all of it, an agent's last lines, and all of a call by /log."""

import os

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.ui.test_terminal_session import at_terminal


@pytest.mark.finding("U3")
@pytest.mark.slow
def test_output_of_commands_is_visible_and_log_shows_all_of_it(repo, tmp_path):
    def play(body: dict) -> Answer | str:
        done = "tool_result" in str(body["messages"][-1])
        return "Counted." if done else Answer(tools=[("Bash", {"command": "seq 101 120", "description": "counts"})])

    with at_terminal(play, repo, "--permission-mode", "bypassPermissions", HOME=str(tmp_path / "home")) as (person, _):
        person.says("!printf 'one\\ntwo\\n'; ls")
        person.sees("shell      ! printf", "\n  one\n  two\n", "README.md")
        person.says("count")
        person.sees("lead       Bash seq 101 120 [c1]\n           ✓ 120 · 19 more lines\n", "Counted.")
        assert "105" not in person.screen.text
        person.says("/log c1")
        person.sees("c1 lead Bash", "seq 101 120", "101", "105", "120")
        person.says("/log 99")
        person.sees("there is no call c99")
        person.says("/log everything")
        person.sees("/log cN: N is the number of a call")


@pytest.mark.finding("U3")
@pytest.mark.slow
def test_the_last_lines_of_a_running_command_are_shown_and_give_way_to_its_result(repo, tmp_path):
    gate = repo / "gate"
    os.mkfifo(gate)

    def play(body: dict) -> Answer | str:
        done = "tool_result" in str(body["messages"][-1])
        return "Counted." if done else Answer(tools=[("Bash", {"command": "seq 101 120; cat gate"})])

    with at_terminal(play, repo, "--permission-mode", "bypassPermissions", HOME=str(tmp_path / "home")) as (person, _):
        person.says("count")
        shown = ["lead       Bash seq 101 120; cat gate [c1]", "… 17 lines", "118", "119", "120", ">"]
        person.until(lambda rows: any([row.strip() for row in rows[at : at + 6]] == shown for at in range(len(rows))))
        gate.write_text("through\n")
        person.sees("lead       Bash seq 101 120; cat gate [c1]\n           ✓ through · 20 more lines", "Counted.")
        assert "… 17 lines" not in person.screen.text
