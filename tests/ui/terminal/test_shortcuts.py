"""Keys that similar programs have: Esc, Shift-Tab, Ctrl-O."""

import pytest

from teamwright.testing.model_server_replies import Answer, Stall
from teamwright.ui.terminal.keys import ESCAPE_WINDOW_S, InterruptState
from tests.ui.terminal_driver import ENTER, ESC
from tests.ui.test_terminal_session import at_terminal, told

SHIFT_TAB, CTRL_O = "\x1b[Z", "\x0f"


@pytest.mark.finding("U9")
@pytest.mark.slow
def test_esc_ends_the_turn_of_the_lead_and_its_next_line_continues(repo, tmp_path):
    def play(body: dict):
        return Stall(4, Answer("Half of this sentence arrives.")) if "hang" in told(body) else "Again here."

    with at_terminal(play, repo, HOME=str(tmp_path / "home")) as (person, _):
        person.says("hang")
        person.sees("Half of this")
        person.types(ESC)
        person.sees("the lead's turn was ended")
        person.says("once more")
        person.sees("Again here.")


@pytest.mark.finding("U9")
@pytest.mark.slow
def test_esc_esc_lists_the_earlier_prompts_and_changes_nothing_without_a_number(repo, tmp_path):
    with at_terminal(lambda _body: "Good day.", repo, HOME=str(tmp_path / "home")) as (person, server):
        person.says("hello")
        person.sees("Good day.")
        person.types(ESC + ESC)
        person.sees("> /rewind", "1  hello", "which prompt?")
        person.says("")
        person.sees("nothing was changed")
        assert len(server.bodies) == 1


def test_two_esc_that_are_far_apart_list_nothing():
    presses = InterruptState()
    assert not presses.press_escape(10.0)
    assert not presses.press_escape(10.0 + ESCAPE_WINDOW_S * 2)
    assert presses.press_escape(10.5 + ESCAPE_WINDOW_S * 2)
    assert not presses.press_escape(10.6 + ESCAPE_WINDOW_S * 2)


@pytest.mark.finding("U9")
def test_shift_tab_sets_the_next_mode(repo, tmp_path):
    with at_terminal(lambda _body: "Read.", repo, HOME=str(tmp_path / "home")) as (person, server):
        for mode in ("acceptEdits", "plan", "default"):
            person.types(SHIFT_TAB)
            person.until(lambda rows, mode=mode: any(f"· {mode} ·" in row for row in rows[-6:]))
        assert server.bodies == []


@pytest.mark.finding("U3", "U9")
def test_ctrl_o_shows_all_output_of_the_last_call(repo, tmp_path):
    def play(body: dict):
        done = "tool_result" in str(body["messages"][-1])
        return "Counted." if done else Answer(tools=[("Bash", {"command": "seq 101 120", "description": "counts"})])

    with at_terminal(play, repo, "--permission-mode", "bypassPermissions", HOME=str(tmp_path / "home")) as (person, _):
        person.types(CTRL_O)
        person.sees("no call was shown in part")
        person.says("count")
        person.sees("✓ 120 · 19 more lines", "Counted.")
        person.types(CTRL_O)
        person.sees("c1 lead Bash", "101", "105", "120")


@pytest.mark.finding("U9")
def test_a_plan_that_is_approved_after_shift_tab_leads_to_questions_about_edits(repo, tmp_path):
    def play(body: dict):
        done = "tool_result" in str(body["messages"][-1])
        return "Approved." if done else Answer(tools=[("ExitPlanMode", {"plan": "Change the parser."})])

    with at_terminal(play, repo, HOME=str(tmp_path / "home")) as (person, _):
        for mode in ("acceptEdits", "plan"):
            person.types(SHIFT_TAB)
            person.until(lambda rows, mode=mode: any(f"· {mode} ·" in row for row in rows[-6:]))
        person.says("plan it")
        person.sees("until the plan was approved, then mode default", "approve? [y/n]")
        person.says("y")
        person.sees("Approved.")
        person.until(lambda rows: any("· default ·" in row for row in rows[-6:]))


@pytest.mark.finding("U9")
def test_a_change_of_the_mode_has_one_line_and_plan_with_words_is_a_prompt(repo, tmp_path):
    with at_terminal(lambda _body: "Here is the plan.", repo, HOME=str(tmp_path / "home")) as (person, server):
        person.says("/plan change the parser")
        person.sees("is in mode plan now", "Here is the plan.")
        assert "from its next call on" not in person.screen.text
        assert "change the parser" in told(server.bodies[-1]) and "plan mode" in str(server.bodies[-1])


@pytest.mark.finding("U8")
@pytest.mark.slow
def test_a_backslash_before_enter_begins_a_new_line(repo, tmp_path):
    with at_terminal(lambda _body: "Both read.", repo, HOME=str(tmp_path / "home")) as (person, server):
        person.types("first\\" + ENTER)
        person.types("second" + ENTER)
        person.sees("Both read.")
        assert "first\nsecond" in told(server.bodies[-1])


@pytest.mark.finding("U8")
@pytest.mark.slow
def test_a_slash_command_on_the_command_line_is_that_command(repo, tmp_path):
    home = {"HOME": str(tmp_path / "home")}
    with at_terminal(lambda _body: "Written.", repo, "/init", **home) as (person, server):
        person.sees("Written.")
        assert "write AGENTS.md" in told(server.bodies[-1])
    with at_terminal(lambda _body: "Written.", repo, "/context", **home) as (person, server):
        person.sees("system prompt", "it is compacted at")
        assert server.bodies == []
