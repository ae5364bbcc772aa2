"""`/resume` at a real terminal: another session in the same process; nothing of the present one is lost."""

import contextlib
import json
import re

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.ui.terminal_driver import CTRL_C, CTRL_D, Person
from tests.ui.test_terminal_session import all_told, at_terminal, gate, told, who

__all__ = ["gate"]


@contextlib.contextmanager
def a_person(server: LoopbackModel, cwd, *args: str, **env):
    keys = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-test-000000001234"}
    person = Person(*args, cwd=cwd, **keys, **env)
    try:
        yield person
    finally:
        person.child.close(force=True)


def ids(home) -> dict[str, str]:
    """The ids of sessions by their first words."""
    found = {}
    for path in (home / ".teamwright" / "projects").glob("*/*.jsonl"):
        words = re.search(r'"(?:text|content)":"(\w+ words)"', path.read_text())
        found[words[1] if words else ""] = path.stem
    return found


def echoes(body) -> str:
    return f"Heard {sum('words' in json.dumps(one) for one in body['messages'] if one['role'] == 'user')}."


@pytest.mark.slow
@pytest.mark.promise("K8")
def test_a_session_is_picked_by_number_and_gone_on_with_in_the_same_process(repo, own_home):
    with at_terminal(echoes, repo) as (first, server):
        first.says("/resume")
        first.sees("there is no other session of this directory")
        first.says("first words")
        first.sees("Heard 1.")
        first.types(CTRL_D)
        assert first.leaves() == 0
        with a_person(server, repo, "--model", "sonnet") as person:
            person.sees("/help", "\n>")
            person.says("second words")
            person.sees("Heard 1.")
            person.says("/resume")
            person.sees("id", "last", "prompt", "1  ", "first words", "which one?")
            assert "second words" not in person.screen.text.split("/resume")[-1], "the present one is not offered"
            person.says("7")
            person.sees("a number from 1 to 1")
            person.says("")
            person.sees("you stay in this session")
            person.says("/resume")
            person.sees("you stay", "which one?")
            person.says("1")
            person.sees("continue: teamwright resume ", "continues; it has 2 messages", "\n>")
            person.says("more words")
            person.sees("Heard 2.")
            person.says(f"/resume {ids(own_home)['second words'][:8]}")
            person.sees("Heard 2.", "continue: ", "continues; it has 2 messages", "\n>")
            person.says("yet more words")
            person.sees("yet more words", "Heard 2.")
            person.types(CTRL_D)
            assert person.leaves() == 0
    assert "first words" not in json.dumps(server.bodies[-1]["messages"])


@pytest.mark.slow
@pytest.mark.promise("K8", "F56")
def test_a_session_that_another_process_drives_is_refused_and_nothing_ends(repo, own_home):
    with at_terminal(echoes, repo) as (busy, server):
        busy.says("first words")
        busy.sees("Heard 1.")
        with a_person(server, repo, "--model", "sonnet") as person:
            person.sees("/help", "\n>")
            busy_id = ids(own_home)["first words"]
            refused = (f"process {busy.child.pid} drives this session already", "nothing was ended")
            person.says("/resume")
            person.sees(f"runs, pid {busy.child.pid}", "which one?")
            person.says("1")
            person.sees(*refused)
            person.says(f"/resume {busy_id[:8]}")
            person.sees(*refused, *refused)
            person.says("/resume nothing-of-that-name")
            person.sees("no session begins with 'nothing-of-that-name'")
            person.says("second words")
            person.sees("Heard 1.")
            own = ids(own_home)["second words"]
            person.says(f"/resume {own}")
            person.sees("this is the session that you are in")
            person.types(CTRL_D)
            assert person.leaves() == 0


@pytest.mark.slow
@pytest.mark.promise("K8", "F28", "H5")
def test_with_somebody_at_work_it_is_asked_what_becomes_of_them_and_they_are_there_afterwards(repo, gate, own_home):
    def play(body):
        if who(body) != "lead":
            return "Ada is done." if "open" in all_told(body) else Answer(tools=[("Bash", {"command": "cat gate"})])
        if "start ada" in told(body) and "spawned" not in told(body):
            return Answer(tools=[("Agent", {"description": "hold", "prompt": "Hold the gate.", "name": "ada"})])
        return "Ada reported." if "Ada is done." in told(body) else "Well."

    with at_terminal(play, repo, "--dangerously-skip-permissions") as (first, server):
        first.says("first words")
        first.sees("Well.")
        first.types(CTRL_D)
        assert first.leaves() == 0
        with a_person(server, repo, "--model", "sonnet", "--dangerously-skip-permissions") as person:
            person.sees("/help", "\n>")
            person.says("start ada, second words")
            person.sees("joined", "Well.", "Bash cat gate")
            session = next(id for words, id in ids(own_home).items() if words != "first words")
            person.says(f"/resume {ids(own_home)['first words']}")
            person.sees("ada is at work:", "leave everything as it is", "leave?")
            person.says("")
            person.says("/members")
            person.sees("leave?", "ada", "working")
            person.says(f"/resume {ids(own_home)['first words']}")
            person.sees("working", "leave?")
            person.says("l")
            person.sees("continues; it has 2 messages", "\n>")
            person.says(f"/resume {session}")
            person.sees("continues; it has", "resumed: 1 member")
            gate()
            person.sees("Ada reported.")


@pytest.mark.slow
@pytest.mark.promise("K8")
def test_waiting_ends_in_the_other_session_and_ctrl_c_stays(repo, gate, own_home):
    def play(body):
        return Answer(tools=[("Bash", {"command": "cat gate"})]) if told(body).strip() == "go" else "Well."

    with at_terminal(play, repo) as (first, server):
        first.says("first words")
        first.sees("Well.")
        first.types(CTRL_D)
        assert first.leaves() == 0
        other = ids(own_home)["first words"]
        with a_person(server, repo, "--model", "sonnet") as person:
            person.sees("/help", "\n>")
            person.says("go")
            person.sees("Bash cat gate")
            person.says(f"/resume {other}")
            person.sees("lead is at work", "leave?")
            person.says("w")
            person.sees("waiting; Ctrl-C stays")
            gate()
            person.sees("Well.", "continues; it has 2 messages", "\n>")
            person.types(CTRL_D)
            assert person.leaves() == 0


@pytest.mark.slow
@pytest.mark.promise("K8")
def test_one_that_cannot_be_opened_brings_the_person_back(repo, own_home):
    with at_terminal(echoes, repo) as (first, server):
        first.says("first words")
        first.sees("Heard 1.")
        first.types(CTRL_D)
        assert first.leaves() == 0
        other = ids(own_home)["first words"]
        [path] = (own_home / ".teamwright" / "projects").glob(f"*/{other}.jsonl")
        for prefix in (path.with_suffix("") / "prefixes").iterdir():
            prefix.write_text("{}")
        with a_person(server, repo, "--model", "sonnet") as person:
            person.sees("/help", "\n>")
            person.says("second words")
            person.sees("Heard 1.")
            person.says(f"/resume {other}")
            person.sees("[damaged-file]", "back to the session that you were in", "continues; it has 2 messages", "\n>")
            person.says("more words")
            person.sees("Heard 2.")
            person.types(CTRL_C + CTRL_C)
            assert person.leaves() == 0
