"""A slash command works while a request waits, and the request waits on."""

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.ui.test_terminal_session import at_terminal


@pytest.mark.finding("U9")
@pytest.mark.slow
def test_a_slash_command_runs_while_a_request_waits(repo, tmp_path):
    def play(body: dict) -> Answer | str:
        done = "tool_result" in str(body["messages"][-1])
        return "Made." if done else Answer(tools=[("Bash", {"command": "touch made", "description": "makes a file"})])

    with at_terminal(play, repo, HOME=str(tmp_path / "home")) as (person, _):
        person.says("make it")
        person.sees("touch made", "allow?")
        person.says("/tasks")
        person.sees("/tasks", "no tasks", "touch made", "allow?")
        assert not (repo / "made").exists()
        person.says("y")
        person.sees("Made.")
        assert (repo / "made").exists()
