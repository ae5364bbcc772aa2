"""`/diff` and `/undo` at a real terminal: a member and the lead edit, the person looks and takes it back."""

import os
import re
from pathlib import Path

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.ui.program import told_results
from tests.ui.terminal_driver import Person
from tests.ui.test_terminal_session import all_told, at_terminal, told, who

pytestmark = pytest.mark.promise("K6", "P5")

BYPASS = "--dangerously-skip-permissions"
LONG = "".join(f"line {number}\n" for number in range(40))
STEPS = [
    Answer(tools=[("Read", {"file_path": "main.py"})]),
    Answer(tools=[("Edit", {"file_path": "main.py", "old_string": "hello", "new_string": "lead"})]),
    Answer(tools=[("Write", {"file_path": "long.txt", "content": LONG})]),
    Answer(tools=[("Agent", {"description": "ada", "prompt": "Write hers.", "name": "ada"})]),
]
AGAIN = Answer(tools=[("Edit", {"file_path": "main.py", "old_string": "hello", "new_string": "again"})])
HERS = Answer(tools=[("Write", {"file_path": "hers.txt", "content": "hers\n"})])
WAIT = Answer(tools=[("Bash", {"command": "cat gate", "description": "wait"})])


def a_team(body: dict) -> Answer | str:
    """The lead edits two files and starts ada, who writes a third and, asked to, waits at the gate."""
    if who(body) == "ada":
        if "to the gate" in told(body):
            return WAIT
        return ("Opened." if re.search(r"\bopen\b", told(body)) else "Written.") if told_results(body) else HERS
    words = all_told(body)
    if "change it again" in words:
        return "Tried." if "tool_result" in str(body["messages"][-1]) else AGAIN
    if "Opened." in words:
        return "Ada is through."
    done = len(told_results(body))
    return STEPS[done] if done < len(STEPS) else "All is edited."


def rests(person: Person) -> None:
    """Wait until nobody is in a turn, as the last rows of the screen have it."""
    person.until(lambda rows: not any("working" in row for row in rows[-6:]))


@pytest.mark.slow_after(1)
@pytest.mark.finding("U12", "C9")
def test_a_person_sees_who_changed_what_and_takes_the_last_prompt_back(repo: Path):
    os.mkfifo(repo / "gate")
    with at_terminal(a_team, repo, BYPASS) as (person, server):
        person.says("edit all")
        person.sees("lead       Write long.txt (+40 -0)", "more lines: /diff c3")
        person.sees("ada → lead: Written.")
        person.sees("All is edited.")
        person.says("/diff c3")
        person.sees("long.txt (created)  +40 -0  lead 1 edit", "+line 39")
        person.says("/diff --stat")
        person.sees("main.py  +1 -1  lead 1 edit", "hers.txt  +1 -0  ada 1 edit  created", "3 files, +42 -1;")
        person.says("/diff @ada")
        person.sees("hers.txt (created)  +1 -0  ada 1 edit", "+hers", "1 file, +1 -0; ada 1 edit")
        person.says("/diff @nobody")
        person.sees("'nobody' is not in this session", "[unknown-member]")
        person.says("/undo everything")
        person.sees("it is /undo [@NAME] [--except PATH] [--force]", "[usage]")

        person.says("@ada go to the gate")
        person.sees("Bash cat gate")
        person.says("/undo")
        person.sees("ada is at work", "/undo --force", "[undo-refused]  nothing was changed")
        assert (repo / "hers.txt").exists()
        with open(repo / "gate", "w") as gate:
            gate.write("open\n")
        person.sees("Ada is through.")
        rests(person)

        (repo / "long.txt").write_text("mine\n")
        person.says("/undo")
        person.sees("restore  main.py", "leave  ", "long.txt  it changed since", "that git ignores [y/n]")
        asked = len(server.bodies)
        person.says("n")
        person.sees("nothing was changed\n")
        assert (repo / "hers.txt").exists() and len(server.bodies) == asked, "the n answers, and is no prompt"
        person.says("/undo")
        person.says("y")
        person.sees('took back the edits of "edit all"', "restored   main.py  (lead)", "removed    hers.txt  (ada)")
        person.sees("left       long.txt  (it changed since)", "changes by shell commands are covered")
        assert (repo / "main.py").read_text() == "print('hello')\n"
        assert not (repo / "hers.txt").exists() and (repo / "long.txt").read_text() == "mine\n"

        person.says("now change it again")
        person.sees("Tried.")
        rests(person)
        last = server.bodies[-1]
        assert 'took back the edits of the prompt \\"edit all\\": main.py, hers.txt.' in all_told(last)
        assert "main.py is not what you read: the user's undo changed it" in told(last)
        assert (repo / "main.py").read_text() == "print('hello')\n"
        person.says("/undo")
        person.sees("no edit is left that could be taken back")


@pytest.mark.slow
def test_an_undo_while_somebody_works_is_done_when_the_person_insists(repo: Path):
    os.mkfifo(repo / "gate")

    def lead(body: dict) -> Answer | str:
        steps = [Answer(tools=[("Write", {"file_path": "made.txt", "content": "x"})]), WAIT]
        done = len(told_results(body))
        return steps[done] if done < len(steps) else "Through."

    with at_terminal(lead, repo, BYPASS) as (person, _):
        person.says("make it")
        person.sees("Bash cat gate")
        person.says("/undo")
        person.sees("lead is at work")
        person.says("/undo --force")
        person.sees("take this back?")
        person.says("y")
        person.sees("removed    made.txt  (lead)")
        assert not (repo / "made.txt").exists()
        with open(repo / "gate", "w") as gate:
            gate.write("open\n")
        person.sees("Through.")
