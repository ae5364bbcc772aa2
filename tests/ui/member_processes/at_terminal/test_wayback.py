"""`/diff`, `/undo` and `/clear` at the lead's terminal while members live elsewhere."""

import os

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.ui.member_processes.at_terminal.desk import STRANGER, at_desk, process_of
from tests.ui.program import told_results
from tests.ui.terminal.crew import gates, row_of, spawn
from tests.ui.test_terminal_session import all_told, bash, told, who

__all__ = ["gates"]

pytestmark = pytest.mark.slow

BYPASS = "--dangerously-skip-permissions"
HERS = Answer(tools=[("Write", {"file_path": "hers.txt", "content": "hers\n"})])


def play(body):
    """ada writes a file, and waits at her gate when she is told to."""
    if who(body) == "ada":
        if "to the gate" in told(body):
            return bash("cat gate-ada")
        return ("Through." if "through" in told(body) else "Written.") if told_results(body) else HERS
    if "say it" in told(body):
        return "I know that ada wrote." if "Written." in all_told(body) else "I know nothing."
    return spawn(("ada",)) if "tool_use" not in all_told(body) and "go" in all_told(body) else "They are at it."


@pytest.mark.promise("K6", "P5", "E1", "E2")
def test_what_a_member_elsewhere_edited_is_shown_and_taken_back_once_it_rests(gates, own_home, backend, marked):
    with at_desk(play, gates, own_home, backend, marked, BYPASS) as desk:
        person = desk.person
        person.says("go")
        person.sees("Write hers.txt (+1 -0)", "+hers", "ada → lead: Written.")
        person.says("/diff @ada")
        person.sees("hers.txt (created)  +1 -0  ada 1 edit", "+hers", "1 file, +1 -0; ada 1 edit")
        person.says("@ada go to the gate")
        person.until(lambda rows: "cat gate-ada" in row_of(rows, "ada"))
        person.says("/undo @ada")
        person.sees("ada is at work", "[undo-refused]  nothing was changed")
        with open(gates / "gate-ada", "w") as pipe:
            pipe.write("through\n")
        person.sees("ada → lead: Through.")
        person.until(lambda rows: "idle" in row_of(rows, "ada") and "idle" in row_of(rows, "lead"))
        person.says("/undo @ada")
        person.sees("take this back?")
        person.says("y")
        person.sees("removed    hers.txt  (ada)")
        assert not (gates / "hers.txt").exists()


@pytest.mark.promise("K6", "E8")
def test_what_a_stranger_edited_nobody_took_down_and_that_is_said(gates, own_home, marked):
    path = gates / "theirs.txt"
    write = {"do": "tool", "tool": "Write", "input": {"file_path": str(path), "content": "theirs\n"}}
    turns = [{"when": "Take task", "do": [write, {"do": "send", "to": "team-lead", "text": "written"}]}]

    def led(body):
        return spawn(("zed",)) if "tool_use" not in all_told(body) else "They are at it."

    with at_desk(led, gates, own_home, STRANGER, marked, turns={"zed": turns}) as desk:
        person = desk.person
        person.says("go")
        person.sees("zed wants to use Write", "allow?")
        person.says("y")
        person.sees("zed → lead: written")
        person.until(lambda rows: "idle" in row_of(rows, "zed"))
        person.says("/diff @zed")
        person.sees("/diff @zed", "what zed edited is not known here: another program runs it")
        person.says("/undo @zed")
        person.sees("/undo @zed", "what zed edited is not known here: another program runs it")
        assert not person.shows("permission_re")
        person.sees("zed        what it writes is in", "zed        joined\n")
        assert path.exists()


@pytest.mark.promise("K9", "E1", "E2")
def test_the_lead_begins_anew_and_a_member_elsewhere_goes_on(gates, own_home, backend, marked):
    with at_desk(play, gates, own_home, backend, marked, BYPASS) as desk:
        person = desk.person
        person.says("go")
        person.sees("ada → lead: Written.")
        person.says("@ada go to the gate")
        person.until(lambda rows: "cat gate-ada" in row_of(rows, "ada"))
        before = process_of(marked, "ada")
        person.says("/clear")
        person.sees("/clear")
        person.says("say it")
        person.sees("I know nothing.")
        assert process_of(marked, "ada") == before
        person.until(lambda rows: "cat gate-ada" in row_of(rows, "ada"))
        with open(gates / "gate-ada", "w") as pipe:
            pipe.write("through\n")
        person.sees("ada → lead: Through.")
        person.until(lambda rows: "idle" in row_of(rows, "ada"))
        assert os.path.exists(gates / "hers.txt")
