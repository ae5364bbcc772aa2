"""Looking at one member as at the lead: there and back by keys, words to it alone, and ending its turn alone."""

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.support.waits import wait_until
from tests.ui.terminal.crew import below, crew, gates, opens, row_of, spawn, starts
from tests.ui.terminal_driver import CTRL_C, CTRL_D, DOWN, ENTER, ESC, SHIFT_DOWN, SHIFT_UP, UP
from tests.ui.test_terminal_session import all_told, at_terminal, bash, told, who

__all__ = ["gates"]


def marked(rows: list[str]) -> str:
    """The name in the row that the keys stand on."""
    return next((row.split()[1] for row in below(rows) if row.startswith(">")), "")


def words_to(server, name: str) -> str:
    """All that this member was told."""
    return "".join(all_told(body) for body in server.bodies if who(body) == name)


@pytest.mark.slow
@pytest.mark.promise("H9", "C10")
def test_down_and_enter_view_a_member_whose_words_come_and_to_whom_lines_go(gates):
    with at_terminal(crew, gates) as (person, server):
        starts(person)
        person.types(DOWN)
        person.until(lambda rows: marked(rows) == "ada")
        person.types(DOWN)
        person.until(lambda rows: marked(rows) == "ben")
        person.types(ENTER)
        person.sees(
            "── ben · working", "lead → ben: Take task 2.", "ben        TaskUpdate 2", "ben        Bash cat gate-ben"
        )
        person.sees("Esc or /view: back to the lead", "\n@ben>")
        person.says("say hello")
        person.sees("you → ben: say hello")
        opens(gates, "ben")
        person.sees("\nHello from ben.", "\nThe second line.")
        assert "say hello" in words_to(server, "ben")
        assert "say hello" not in words_to(server, "lead") + words_to(server, "ada")
        person.types(ESC)
        person.sees("── lead ──", "\n>")
        person.says("are they?")
        person.sees("── lead ──", "\nYes, they are.")
        assert "are they?" in words_to(server, "lead")


@pytest.mark.promise("F28")
@pytest.mark.slow
def test_ctrl_c_in_a_view_ends_that_members_turn_and_nobody_elses(gates):
    with at_terminal(crew, gates) as (person, _):
        starts(person)
        person.says("wait here")
        person.until(lambda rows: "cat gate-lead" in row_of(rows, "lead"))
        person.says("/view ada")
        person.sees("── ada", "\n@ada>")
        person.types(CTRL_C)
        person.sees("ada's turn was ended; it waits for your message. All others continue.")
        rows = person.until(lambda rows: "idle" in row_of(rows, "ada"))
        assert "cat gate-lead" in row_of(rows, "lead") and "cat gate-ben" in row_of(rows, "ben")
        person.types(CTRL_C)
        person.sees("Ctrl-C again within 2 s leaves", "Esc returns to the")
        assert not person.shows("the lead's turn was ended")
        opens(gates, "ben")
        person.sees("ben → lead: ben is through.")
        opens(gates, "lead")
        person.sees("lead       The lead is through.")
        person.says("say hello")
        person.sees("\nHello from ada.")


@pytest.mark.promise("F28")
@pytest.mark.slow
def test_ctrl_c_at_the_lead_ends_no_turn_of_a_member_that_was_viewed_before(gates):
    with at_terminal(crew, gates) as (person, _):
        starts(person)
        person.says("/view ada")
        person.sees("\n@ada>")
        person.types(ESC)
        person.sees("── lead ──", "\n>")
        person.says("wait here")
        person.until(lambda rows: "cat gate-lead" in row_of(rows, "lead"))
        person.types(CTRL_C)
        person.sees("the lead's turn was ended; ada, ben continue")
        opens(gates, "ada")
        person.sees("ada → lead: ada is through.")


@pytest.mark.promise("H9", "F67")
@pytest.mark.slow
def test_stop_without_a_name_ends_the_viewed_member_once_it_was_meant_and_the_view_goes_back(gates):
    with at_terminal(crew, gates) as (person, _):
        starts(person)
        person.says("/stop")
        person.sees("/stop NAME: the name is missing")
        person.says("/view ben")
        person.sees("\n@ben>")
        person.says("/stop")
        person.sees("end ben for good? [y/n]")
        person.says("")
        person.sees("ben stays", "\n@ben>")
        person.says("/stop")
        person.sees("ben stays", "end ben for good? [y/n]")
        person.says("y")
        person.sees("── lead ──", "ben was stopped; handed back to the list: #2 job of ben")
        person.until(lambda rows: not row_of(rows, "ben") and rows[-1] and any(row.startswith(">") for row in rows))


@pytest.mark.promise("H9")
@pytest.mark.slow
def test_words_in_the_line_stay_there_while_a_member_is_marked_and_go_to_it_then(gates):
    with at_terminal(crew, gates) as (person, _):
        starts(person)
        person.types("say hel")
        person.types(DOWN)
        person.types("l")
        person.sees("> say hell")
        assert not marked(person.screen.shown)
        person.types(SHIFT_DOWN)
        person.until(lambda rows: marked(rows) == "ada")
        person.types(SHIFT_UP)
        person.until(lambda rows: not marked(rows))
        person.types(SHIFT_DOWN)
        person.until(lambda rows: marked(rows) == "ada")
        person.types(ENTER)
        person.sees("── ada", "\n@ada> say hell")
        person.types("o" + ENTER)
        person.sees("you → ada: say hello")
        opens(gates, "ada")
        person.sees("\nHello from ada.")


@pytest.mark.promise("H9")
@pytest.mark.slow
def test_up_on_an_empty_line_is_the_history_and_leaves_the_members_again(gates):
    with at_terminal(crew, gates) as (person, _):
        starts(person)
        person.types(UP)
        person.sees("They are at it.", "\n> go")
        person.types(DOWN)
        person.until(lambda rows: ">" in rows and not marked(rows))
        person.types(DOWN)
        person.until(lambda rows: marked(rows) == "ada")
        person.types(UP)
        person.until(lambda rows: not marked(rows))
        person.types(DOWN + ESC)
        person.until(lambda rows: not marked(rows))
        person.types(DOWN + "x")
        person.until(lambda rows: "> x" in rows and not marked(rows))


@pytest.mark.promise("H9", "F67")
@pytest.mark.slow
def test_a_viewed_member_that_ends_is_left_and_lines_go_to_the_lead_again(gates):
    with at_terminal(crew, gates) as (person, server):
        starts(person)
        person.says("/view ada")
        person.sees("\n@ada>")
        person.types("half a line")
        person.says("")
        person.sees("you → ada: half a line")
        person.says("/stop ada")
        person.sees("ada        was stopped", "── lead ──", "ada was stopped", "\n>")
        person.says("are they?")
        person.sees("── lead ──", "\nYes, they are.")
        assert "are they?" in words_to(server, "lead")
        person.says("/view ada")
        person.sees("── ada · has ended ──", "  your lines go to lead", "\n>")
        person.says("/view ada2")
        person.sees("'ada2' is not in")


@pytest.mark.promise("H9")
@pytest.mark.slow
def test_a_question_in_the_middle_takes_no_key_of_the_rows_and_the_view_is_the_same_behind_it(gates):
    def play(body):
        if who(body) == "lead":
            return spawn(("ada",)) if "tool_use" not in all_told(body) else "They are at it."
        if "Take task" in told(body):
            return bash("cat gate-ada")
        return bash("touch made") if "through" in told(body) else "Made."

    with at_terminal(play, gates) as (person, _):
        person.says("go")
        person.until(lambda rows: "cat gate-ada" in row_of(rows, "ada"))
        person.says("/view ada")
        person.sees("\n@ada>")
        person.types(DOWN)
        person.until(lambda rows: marked(rows) == "lead")
        opens(gates, "ada")
        person.sees("ada wants to use Bash", "touch made", "allow?")
        person.types(DOWN)
        person.says("y")
        person.sees("\nMade.", "\n@ada>")
        assert (gates / "made").exists()


@pytest.mark.slow
@pytest.mark.promise("H9", "E1")
def test_a_member_in_a_process_of_its_own_is_viewed_like_any_other(gates):
    with at_terminal(crew, gates, "--backend", "detached") as (person, _):
        person.says("go")
        person.sees("They are at it.")
        person.until(lambda rows: "cat gate-ada" in row_of(rows, "ada") and "cat gate-ben" in row_of(rows, "ben"))
        person.says("/view ada")
        person.sees("── ada · working", "detached", "lead → ada: Take task 1.", "ada        TaskUpdate 1", "\n@ada>")
        person.says("say hello")
        person.sees("you → ada: say hello")
        opens(gates, "ada")
        person.sees("\nHello from ada.", "\nThe second line.")
        person.says("wait")
        person.until(lambda rows: "working" in row_of(rows, "ada"))
        person.types(CTRL_C)
        person.sees("ada's turn was ended; it waits for your message. All others continue.")
        person.until(lambda rows: "idle" in row_of(rows, "ada") and "cat gate-ben" in row_of(rows, "ben"))
        person.types(CTRL_D)
        person.sees("leave? [w/s/l]")
        person.says("s")
        person.leaves()


@pytest.mark.promise("H9", "K11")
@pytest.mark.slow
def test_a_dumb_terminal_has_the_same_by_commands_and_nothing_moves(gates):
    with at_terminal(crew, gates, TERM="dumb") as (person, server):
        person.says("go")
        person.sees("They are at it.")
        person.says("/view ben")
        person.sees("── ben · ", "lead → ben: Take task 2.", "@ben>")
        wait_until(lambda: sum(who(body) == "ben" for body in server.bodies) == 2, "ben's request before its command")
        person.says("say hello")
        person.sees("you → ben: say hello")
        opens(gates, "ben")
        person.sees("Hello from ben.")
        person.says("/view")
        person.sees("── lead ──", ">")
        person.says_until("/members", "  ben ", "idle")
        person.says("/tasks")
        person.sees("#2   job of ben")
        assert "\x1b" not in person.raw
        assert "say hello" in words_to(server, "ben")


@pytest.mark.promise("H9")
def test_a_long_conversation_is_shown_from_its_end(gates):
    def play(body):
        if who(body) == "lead":
            return spawn(("ada",)) if "tool_use" not in all_told(body) else "They are at it."
        if "Take task" in told(body):
            return Answer("\n".join(f"line {n}" for n in range(100)), tools=[("Bash", {"command": "cat gate-ada"})])
        return "Done."

    with at_terminal(play, gates) as (person, _):
        person.says("go")
        person.until(lambda rows: "cat gate-ada" in row_of(rows, "ada"))
        person.says("/view ada")
        person.sees("── ada · working", "  …", "line 99", "ada        Bash cat gate-ada", "\n@ada>")
        assert not person.shows("line 3\n")


@pytest.mark.finding("U9")
@pytest.mark.slow
def test_a_member_that_has_ended_can_be_viewed_and_lines_still_go_to_the_lead(gates):
    with at_terminal(crew, gates) as (person, server):
        starts(person)
        person.says("/stop ada")
        person.sees("ada was stopped")
        person.says("/view ada")
        person.sees("── ada · has ended ──", "lead → ada: Take task 1.", "ada        Bash cat gate-ada")
        person.sees("  your lines go to lead", "\n>")
        person.says("are they?")
        person.sees("Yes, they are.")
        person.says("/view zoe")
        person.sees("zoe", "nothing was changed")
        assert "are they?" in words_to(server, "lead") and not person.shows("── zoe")
