"""What a stranger asks at the lead's terminal: a permission and a plan, shown as people read them and answered once."""

import json
import os
import signal

import pytest

from tests.ui.member_processes.at_terminal.desk import STRANGER, Desk, at_desk, process_of
from tests.ui.terminal.crew import gates, row_of, spawn
from tests.ui.test_terminal_session import all_told, who

__all__ = ["gates"]

pytestmark = pytest.mark.promise("E8", "F44", "K5")


def leads(**more):
    """A lead that starts zed."""

    def play(body):
        return (
            spawn(("zed",), **more) if who(body) == "lead" and "tool_use" not in all_told(body) else "They are at it."
        )

    return play


def answers(desk: Desk, kind: str) -> list[dict]:
    """The answers of this kind that zed was sent."""
    texts = [line["entry"]["text"] for line in desk.log("zed") if line["kind"] == "envelope"]
    bodies = [json.loads(text) for text in texts if text.startswith("{")]
    return [body for body in bodies if body.get("type") == kind]


def tool(name: str, **given: object) -> dict:
    return {"do": "tool", "tool": name, "input": given}


@pytest.mark.slow_after(1)
def test_its_edit_is_shown_as_lines_with_its_name_and_the_answer_reaches_it_once(gates, own_home, marked):
    path = gates / "new.txt"
    write = tool("Write", file_path=str(path), content="one\ntwo\n")
    turns = [{"when": "Take task", "do": [write, {"do": "send", "to": "team-lead", "text": "written"}]}]
    with at_desk(leads(), gates, own_home, STRANGER, marked, turns={"zed": turns}, size=(40, 200)) as desk:
        person = desk.person
        person.says("go")
        person.sees("zed wants to use Write", f"{path}: all of it", "+one", "+two", "another program", "allow?")
        person.until(lambda rows: "asks" in row_of(rows, "zed") or "? zed" in "\n".join(rows))
        assert not path.exists()
        person.says("y")
        person.sees("zed → lead: written")
        person.until(lambda rows: "idle" in row_of(rows, "zed"))
        assert path.read_text() == "one\ntwo\n"
        assert person.screen.text.count("zed wants to use Write") == 1
        assert [one["subtype"] for one in answers(desk, "permission_response")] == ["success"]


@pytest.mark.slow
def test_its_command_is_shown_plainly_may_be_edited_and_is_refused_with_a_reason(gates, own_home, marked):
    calls = [tool("Bash", command="make all"), tool("Bash", command="make clean")]
    turns = [{"when": "Take task", "do": [*calls, {"do": "send", "to": "team-lead", "text": "through"}]}]
    with at_desk(leads(), gates, own_home, STRANGER, marked, turns={"zed": turns}) as desk:
        person = desk.person
        person.says("go")
        person.sees("zed wants to use Bash", "    make all\n", "allow?")
        person.says("e")
        person.sees("run: make all")
        person.says(" -j2")
        person.sees("zed wants to use Bash", "    make clean\n", "allow?")
        person.says("n not on a Friday")
        person.sees("zed → lead: through")
        results = [line["result"] for line in desk.log("zed") if line["kind"] == "result" and line["do"] == "tool"]
        assert results[0] == {"is_error": False, "ran": {"command": "make all -j2"}}
        assert "not on a Friday" in results[1]["text"]


@pytest.mark.slow
def test_its_plan_is_sent_back_and_then_approved(gates, own_home, marked):
    first, second = {"do": "plan", "plan": "# One"}, {"do": "plan", "plan": "# Two"}
    turns = [{"when": "Take task", "do": [first]}, {"when": "name the file", "do": [second]}]
    args = ("--plan-approval", "human")
    with at_desk(leads(mode="plan"), gates, own_home, STRANGER, marked, *args, turns={"zed": turns}) as desk:
        person = desk.person
        person.says("go")
        person.sees("zed asks for approval of its plan", "# One", "approve?")
        person.says("n name the file")
        person.sees("# One", "zed asks for approval of its plan", "# Two", "approve?")
        person.says("y")
        assert desk.logged("zed", "mode")["mode"] == "default"
        person.until(lambda rows: "idle" in row_of(rows, "zed"))
        assert [one["approved"] for one in answers(desk, "plan_approval_response")] == [False, True]


@pytest.mark.slow
def test_what_it_asks_and_dies_over_is_asked_no_longer(gates, own_home, marked):
    turns = [{"when": "Take task", "do": [tool("Bash", command="make all")]}]
    with at_desk(leads(), gates, own_home, STRANGER, marked, turns={"zed": turns}) as desk:
        person = desk.person
        person.says("go")
        person.sees("zed wants to use Bash", "allow?")
        zed = process_of(marked, "zed")
        os.kill(zed, signal.SIGKILL)
        person.until(lambda rows: not row_of(rows, "zed") and not any("allow?" in row for row in rows[-6:]))
        person.says("are they?")
        person.sees("They are at it.", "They are at it.")
