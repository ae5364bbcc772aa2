"""The marks of usage at a real terminal: the person is asked, and a yes or a no decides how the work goes on."""

import json
from pathlib import Path

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.ui.terminal_driver import CTRL_D
from tests.ui.test_terminal_session import all_told, at_terminal, bash, who


def home_with(tmp_path: Path, **portions: float) -> str:
    """The home of a person who set these portions."""
    home = tmp_path / "their-home"
    home.mkdir()
    (home / "settings.json").write_text(json.dumps({"budget": {"run": portions}}))
    return str(home)


def reads_on(body: dict):
    """A model that looks at another file in each call until it has seen five."""
    seen = all_told(body).count('"tool_use_id"')
    return bash(f"echo {seen}") if seen < 5 else "I have read all five."


@pytest.mark.slow
def test_at_its_mark_of_model_calls_the_lead_waits_and_a_yes_permits_another_portion(repo, tmp_path):
    with at_terminal(reads_on, repo, TEAMWRIGHT_HOME=home_with(tmp_path, turns=3)) as (person, server):
        person.says("read")
        person.sees("Go on? 3 model calls of lead are used.", "another 3 model calls", "go on? [y/n]")
        assert len(server.bodies) == 3
        person.says("y")
        person.sees("I have read all five.")
        assert len(server.bodies) == 6
        person.types(CTRL_D)
        assert person.leaves() == 0


@pytest.mark.slow
def test_a_no_at_a_mark_ends_the_turn_and_the_session_stays(repo, tmp_path):
    with at_terminal(reads_on, repo, TEAMWRIGHT_HOME=home_with(tmp_path, turns=2)) as (person, server):
        person.says("read")
        person.sees("go on? [y/n]")
        person.says("n")
        person.sees("2 model calls of lead are used, and the user did not go on")
        assert len(server.bodies) == 2
        person.says("go on")
        person.sees("go on? [y/n]", "go on? [y/n]")
        person.says("y")
        person.sees("go on? [y/n]", "go on? [y/n]", "go on? [y/n]")
        person.says("y")
        person.sees("I have read all five.")


@pytest.mark.slow
def test_a_member_at_its_mark_waits_for_the_person_at_the_leads_terminal(repo, tmp_path):
    def play(body: dict):
        if who(body) == "ada":
            return reads_on(body)
        start = ("Agent", {"description": "start", "prompt": "Read all.", "name": "ada"})
        return "She reads." if "tool_use" in all_told(body) else Answer(tools=[start])

    options = ("--backend", "in-process")
    with at_terminal(play, repo, *options, TEAMWRIGHT_HOME=home_with(tmp_path, turns=4)) as (person, server):
        person.says("go")
        person.sees("ada waits at a mark of its usage", "Go on? 4 model calls of ada are used.", "go on? [y/n]")
        assert sum(who(body) == "ada" for body in server.bodies) == 4
        person.says("y")
        person.sees("I have read all five.")
