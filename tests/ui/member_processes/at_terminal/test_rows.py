"""The lead's terminal shows members that live elsewhere as it shows those of its own process, and a stranger's part."""

import asyncio
import os
import signal
import threading

import pytest

from teamwright.testing.model_server_replies import Answer, Stall
from tests.support.leftovers import await_end
from tests.support.waits import WAIT_S, wait_until
from tests.ui.member_processes.at_terminal.desk import STRANGER, at_desk, process_of
from tests.ui.terminal.crew import below, crew, gates, opens, row_of, spawn, starts
from tests.ui.terminal_driver import CTRL_C, ESC
from tests.ui.test_terminal_session import all_told, who

__all__ = ["gates"]


@pytest.mark.slow_after(1)
@pytest.mark.promise("H9", "C10", "E1", "E2")
@pytest.mark.finding("3S13")
def test_a_member_in_a_process_of_its_own_has_a_row_a_view_and_an_end(gates, own_home, backend, marked):
    with at_desk(crew, gates, own_home, backend, marked) as desk:
        person = desk.person
        starts(person)
        rows = person.until(lambda rows: "working" in row_of(rows, "ada"))
        assert row_of(rows, "ada").split()[:5] == ["●", "ada", "working", "#1", "Bash"]
        person.says("/view ada")
        person.sees("── ada · working", "lead → ada: Take task 1.", "ada        TaskUpdate 1", "\n@ada>")
        person.says("say hello")
        person.sees("you → ada: say hello")
        opens(gates, "ada")
        person.sees("\nHello from ada.", "\nThe second line.")
        person.until(lambda rows: "idle" in row_of(rows, "ada") and "working" in row_of(rows, "ben"))
        assert person.screen.text.count("\nHello from ada.") == 1, "an answer is shown once"
        person.types(ESC)
        person.sees("── lead ──", "\n>")
        ben = process_of(marked, "ben")
        os.kill(ben, signal.SIGKILL)
        assert await_end(ben)
        person.until(lambda rows: not row_of(rows, "ben") and row_of(rows, "ada"))
        bells = own_home / ".teamwright/teams"
        wait_until(lambda: not [*bells.glob("*/bells/ben")], "the end of the bell of a killed process")
        assert [*bells.glob("*/bells/ada")]
        person.says("/stop ada")
        person.sees("ada was stopped")
        person.until(lambda rows: not row_of(rows, "ada"))


@pytest.mark.slow
@pytest.mark.promise("F28", "E2")
def test_ctrl_c_in_its_view_ends_the_turn_of_a_member_elsewhere_and_its_process_stays(gates, own_home, backend, marked):
    with at_desk(crew, gates, own_home, backend, marked) as desk:
        person = desk.person
        starts(person)
        before = process_of(marked, "ada")
        person.says("/view ada")
        person.sees("\n@ada>")
        person.types(CTRL_C)
        person.sees("ada's turn was ended; it waits for your message. All others continue.")
        person.until(lambda rows: "idle" in row_of(rows, "ada") and "working" in row_of(rows, "ben"))
        assert process_of(marked, "ada") == before
        person.says("say hello")
        person.sees("\nHello from ada.")


def led_to(body, name):
    """A lead that starts one member."""
    return spawn((name,)) if "tool_use" not in all_told(body) else "They are at it."


def led(body):
    """The lead of a stranger."""
    return led_to(body, "zed")


@pytest.mark.slow
@pytest.mark.promise("E8", "H9")
def test_a_stranger_has_a_row_and_its_view_shows_what_it_writes_to_the_team(gates, own_home, tmp_path, marked):
    first, second = tmp_path / "first", tmp_path / "second"
    turns = [
        {
            "when": "Take task",
            "do": [{"do": "await", "file": str(first)}, {"do": "send", "to": "team-lead", "text": "half"}],
        },
        {"when": "and then", "do": [{"do": "claim"}, {"do": "await", "file": str(second)}, {"do": "complete"}]},
    ]
    with at_desk(led, gates, own_home, STRANGER, marked, turns={"zed": turns}) as desk:
        person = desk.person
        person.says("go")
        person.sees("They are at it.")
        person.until(lambda rows: "working" in row_of(rows, "zed"))
        person.says("/view zed")
        person.sees("── zed · working", "another program runs it, and has its conversation", "\n@zed>")
        person.types(CTRL_C)
        person.sees("zed's turn cannot be cut from here; /stop ends zed")
        first.touch()
        person.sees("zed → lead: half")
        person.until(lambda rows: "idle" in row_of(rows, "zed"))
        person.says("and then?")
        person.sees("you → zed: and then?")
        assert "and then?" in desk.logged("zed", "told", "and then?")["text"]
        person.until(lambda rows: "working  #1 job of zed" in row_of(rows, "zed"))
        second.touch()
        person.sees("✓ #1 job of zed")
        person.until(lambda rows: "idle" in row_of(rows, "zed") and "1/1 tasks" in below(rows)[-1])
        person.says("/stop")
        person.sees("end zed for good? [y/n]")
        person.says("y")
        person.sees("── lead ──")
        person.until(lambda rows: not row_of(rows, "zed"))


@pytest.mark.slow
@pytest.mark.promise("H9", "E1", "E2")
def test_a_long_answer_of_a_member_elsewhere_comes_line_by_line_while_it_is_given(gates, own_home, backend, marked):
    long = Answer("".join(f"line {number} of a long answer\n" for number in range(200)))

    viewed = threading.Event()

    async def play(body):
        if who(body) == "lead":
            return led_to(body, "ada")
        if "Take task" not in all_told(body):
            return "Ready."
        assert await asyncio.to_thread(viewed.wait, WAIT_S), "nobody viewed ada"
        return Stall(60, long)

    with at_desk(play, gates, own_home, backend, marked) as desk:
        person = desk.person
        person.says("go")
        person.sees("They are at it.")
        person.says("/view ada")
        person.sees("── ada", "back to the lead")
        viewed.set()
        person.sees("line 0 of a long answer", "line 3 of a long answer")
        person.until(lambda rows: "working" in row_of(rows, "ada"))
        person.types(CTRL_C)
        person.sees("ada's turn was ended")
        person.until(lambda rows: "idle" in row_of(rows, "ada"))
