"""What members elsewhere ask at the lead's terminal: who asks and what, answered once, wherever it is answered."""

import json

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.ui.member_processes.at_terminal.desk import TMUX, at_desk
from tests.ui.terminal.crew import gates, row_of, spawn
from tests.ui.test_terminal_session import all_told, told, who

__all__ = ["gates"]


WRITE = ("Write", {"file_path": "new.txt", "content": "one\ntwo\n"})
CHOICE = {"question": "Which one?", "header": "One", "options": [{"label": "red"}, {"label": "blue"}]}


def doing(*steps, **more):
    """ada does these steps, each with what came before; the lead starts her."""

    def play(body):
        if who(body) == "lead":
            return spawn(("ada",), **more) if "tool_use" not in all_told(body) else "They are at it."
        done = json.dumps(body["messages"]).count('"type": "tool_result"')
        return Answer(tools=[steps[done]]) if done < len(steps) else f"I was told: {told(body)[:60]}"

    return play


@pytest.mark.slow
@pytest.mark.promise("K5", "F44", "E2")
def test_an_edit_of_a_member_elsewhere_is_shown_as_a_diff_and_answered_once(gates, own_home, backend, marked):
    with at_desk(doing(WRITE), gates, own_home, backend, marked) as desk:
        person = desk.person
        person.says("go")
        person.sees("ada wants to use Write", "+one", "+two", "allow?")
        person.until(lambda rows: "? ada  asks" in "\n".join(rows))
        person.says("y")
        person.sees("Write new.txt (+2 -0)", "ada → lead: I was told")
        person.until(lambda rows: "idle" in row_of(rows, "ada"))
        assert (gates / "new.txt").read_text() == "one\ntwo\n"
        assert desk.server.bodies and person.screen.text.count("ada wants to use Write") == 1


@pytest.mark.slow
@pytest.mark.promise("K5", "F44", "E2")
def test_a_question_of_a_member_elsewhere_takes_a_number(gates, own_home, backend, marked):
    with at_desk(doing(("AskUserQuestion", {"questions": [CHOICE]})), gates, own_home, backend, marked) as desk:
        person = desk.person
        person.says("go")
        person.sees("ada asks", "Which one?", "1  red", "2  blue", "answer:")
        person.says("2")
        person.sees("ada → lead:", "I was told", "blue")


@pytest.mark.slow
@pytest.mark.promise("G5", "F44", "E2")
def test_a_plan_of_a_member_elsewhere_is_sent_back_and_then_approved(gates, own_home, backend, marked):
    steps = ("ExitPlanMode", {"plan": "# One"}), ("ExitPlanMode", {"plan": "# Two"})
    args = ("--plan-approval", "human")
    with at_desk(doing(*steps, mode="plan"), gates, own_home, backend, marked, *args) as desk:
        person = desk.person
        person.says("go")
        person.sees("ada asks for approval of its plan", "# One", "approve?")
        person.says("n name the file")
        person.sees(
            "ada asks for approval of its plan", "# One", "ada asks for approval of its plan", "# Two", "approve?"
        )
        person.says("y")
        person.sees("ada → lead: I was told")
        person.until(lambda rows: "idle" in row_of(rows, "ada"))
        assert "name the file" in "".join(all_told(body) for body in desk.server.bodies if who(body) == "ada")


@pytest.mark.slow
@pytest.mark.promise("K5", "F44", "E2")
@pytest.mark.parametrize("where", ["pane", "lead"])
def test_of_two_dialogs_for_one_request_one_is_answered_and_the_other_disappears(gates, own_home, marked, where):
    with at_desk(doing(WRITE), gates, own_home, TMUX, marked) as desk:
        person = desk.person
        person.says("go")
        person.sees("ada wants to use Write", "+two", "allow?")
        pane = desk.pane("ada")
        pane.sees("ada wants to use Write", "+two", "allow?")
        if where == "pane":
            pane.says("y")
            person.sees("allowed from another terminal: Write", "Write new.txt (+2 -0)", "ada → lead: I was told")
            person.until(lambda rows: not any("allow?" in row for row in rows[-6:]))
        else:
            person.says("n not today")
            pane.sees("answered in another terminal")
            person.sees("ada → lead: I was told")
        pane.sees("I was told")
        assert (gates / "new.txt").exists() == (where == "pane")
        person.says("are they?")
        person.sees("They are at it.", "They are at it.")
