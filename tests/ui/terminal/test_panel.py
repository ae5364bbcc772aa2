"""What stands below the line at a real terminal: who is there, what is open, the session; nothing that is no more."""

import re

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.ui.terminal.crew import below, crew, gates, last, opens, row_of, spawn, starts
from tests.ui.terminal_driver import CTRL_D, CTRL_T
from tests.ui.test_terminal_session import all_told, at_terminal, bash, told, who

__all__ = ["gates"]


@pytest.mark.promise("H9")
def test_alone_and_at_rest_there_is_one_line_about_the_session_and_no_panel(repo):
    with at_terminal(lambda _: "Yes.", repo) as (person, _):
        [status] = below(person.until(lambda rows: len(below(rows)) == 1))
        assert "sonnet" in status and "default" in status and "$0.00" in status
        person.says("hello")
        person.sees("Yes.")
        person.until(lambda rows: len(below(rows)) == 1 and "context 0% of" in below(rows)[0])


@pytest.mark.promise("H9")
@pytest.mark.slow
def test_each_member_has_a_row_that_says_what_it_does_and_the_age_of_it_moves(gates):
    with at_terminal(crew, gates) as (person, _):
        starts(person)
        rows = person.until(lambda rows: "working" in row_of(rows, "ben") and "0/2 tasks" in last(rows))
        assert row_of(rows, "ada").split()[:5] == ["●", "ada", "working", "#1", "Bash"]
        assert row_of(rows, "lead").split()[:3] == ["○", "lead", "idle"]
        first = row_of(rows, "ada")
        person.until(lambda rows: row_of(rows, "ada") != first and re.search(r"\d s$", row_of(rows, "ada")))
        opens(gates, "ada")
        person.sees("ada → lead:")
        person.until(lambda rows: "idle" in row_of(rows, "ada") and "working" in row_of(rows, "ben"))


@pytest.mark.promise("F67")
@pytest.mark.slow
def test_a_member_that_is_gone_and_a_team_that_is_deleted_stand_nowhere(gates):
    with at_terminal(crew, gates) as (person, _):
        starts(person)
        person.says("/stop ada")
        person.sees("ada was stopped")
        person.until(lambda rows: not row_of(rows, "ada") and row_of(rows, "ben"))
        person.says("/stop ben")
        person.sees("ben was stopped")
        person.says("end it")
        person.sees("TeamDelete")
        person.until(lambda rows: len(below(rows)) == 1 and "tasks" not in below(rows)[0])


@pytest.mark.promise("H9")
def test_the_task_list_comes_and_goes_with_a_key_and_says_what_waits_for_what(gates):
    def play(body):
        if who(body) == "lead" and "tool_use" not in all_told(body):
            one, two = spawn().tools[:2]
            waits = ("TaskUpdate", {"taskId": "2", "addBlockedBy": ["1"]})
            return Answer(tools=[one, two, waits])
        return "Written down."

    with at_terminal(play, gates) as (person, _):
        person.says("go")
        person.sees("Written down.")
        person.types("half a line")
        person.types(CTRL_T)
        rows = person.until(lambda rows: len(below(rows)) == 3)
        assert below(rows)[:2] == [" · #1 job of ada", " · #2 job of ben  waits for #1"]
        person.types(CTRL_T)
        person.until(lambda rows: len(below(rows)) == 1)
        assert person.shows("> half a line")


@pytest.mark.promise("H9")
@pytest.mark.slow
def test_a_window_of_forty_columns_and_one_that_changes_in_the_middle(gates):
    with at_terminal(crew, gates, "--permission-mode", "acceptEdits", COLUMNS="100") as (person, _):
        starts(person)
        person.types("half a line")
        person.resizes(24, 40)
        person.until(lambda rows: len(rows) <= 24 and row_of(rows, "ada") and len(last(rows)) < 40)
        person.until(
            lambda rows: (
                re.search(r"\d s$", row_of(rows, "ada"))
                and "0/2 tasks" in last(rows)
                and all(len(row) < 40 for row in below(rows))
            )
        )
        person.resizes(40, 100)
        person.until(lambda rows: "sonnet" in last(rows) and "acceptEdits" in last(rows))
        opens(gates, "ada")
        rows = person.until(lambda rows: "idle" in row_of(rows, "ada") and "0/2 tasks" in last(rows))
        assert sum("0/2 tasks" in row for row in below(rows)) == 1
        assert person.shows("> half a line")


@pytest.mark.promise("H9", "K11")
def test_without_colours_marks_and_words_say_it(gates):
    with at_terminal(crew, gates, NO_COLOR="1") as (person, _):
        starts(person)
        person.until(lambda rows: row_of(rows, "ada").startswith(" ● ada"))
        assert not re.search(r"\x1b\[[0-9;]*(3[0-79]|4[0-79]|9[0-7]|38;)[0-9;]*m", person.raw)


HOSTILE = "\x1b]0;owned\x07\x1b[2J漢字👩‍🔬"


@pytest.mark.promise("H9", "F65")
@pytest.mark.slow
def test_what_others_wrote_is_shown_there_too_and_steers_nothing(gates):
    def play(body):
        if who(body) != "lead":
            return bash("cat gate-ada") if "through" not in told(body) else HOSTILE
        first = "tool_use" not in all_told(body)
        tasks = ("TaskCreate", {"subject": HOSTILE, "description": HOSTILE})
        agent = ("Agent", {"description": "start", "prompt": HOSTILE, "name": "ada"})
        return Answer(tools=[tasks, agent]) if first else "They are at it."

    with at_terminal(play, gates) as (person, _):
        person.says("go")
        person.sees("They are at it.")
        person.types(CTRL_T)
        person.until(lambda rows: any("#1 \\x1b]0;owned\\x07\\x1b[2J漢字" in row for row in below(rows)))
        person.says("/view ada")
        person.sees("── ada", "lead → ada: \\x1b]0;owned")
        opens(gates, "ada")
        person.sees("\n\\x1b]0;owned\\x07\\x1b[2J漢字")
        assert "\x1b]0;" not in person.raw
        assert "\x1b[2J" not in person.raw


@pytest.mark.promise("H9")
@pytest.mark.slow
def test_a_member_that_asks_says_so_and_the_request_is_counted(gates):
    def play(body):
        if who(body) == "lead":
            return spawn(("ada",)) if "tool_use" not in all_told(body) else "They are at it."
        return bash("touch made") if "Take task" in told(body) else "Made."

    with at_terminal(play, gates) as (person, _):
        person.says("go")
        person.sees("ada wants to use Bash", "allow?")
        person.says("/later")
        person.sees("it waits; /requests", "\n>")
        rows = person.until(lambda rows: "1 request waits" in last(rows))
        assert "? ada  asks" in row_of(rows, "ada") and "touch made" in row_of(rows, "ada")
        person.says("/requests")
        person.sees("it waits", "allow?")
        person.says("y")
        person.sees("ada → lead: Made.")
        person.until(lambda rows: "request" not in last(rows) and "idle" in row_of(rows, "ada"))


@pytest.mark.finding("U7")
@pytest.mark.promise("H9")
@pytest.mark.slow
def test_sub_agents_in_the_background_have_rows_are_counted_and_asked_about_on_leaving(gates):
    def play(body):
        if "background job" in all_told(body):
            return bash("cat gate-ben") if "through" not in told(body) else "Found."
        if who(body) == "lead":
            return spawn(("ada",)) if "tool_use" not in all_told(body) else "They are at it."
        if "Take task" in told(body):
            given = {"description": "look", "prompt": "a job behind", "run_in_background": True}
            return Answer(tools=[("Agent", given)])
        return bash("cat gate-ada") if "through" not in told(body) else "Done."

    def with_agents(body):
        first = body["messages"][0]["content"]
        if any("a job behind" in str(block) for block in first):
            return bash("cat gate-ben") if "through" not in told(body) else "Found."
        return play(body)

    with at_terminal(with_agents, gates) as (person, _):
        person.says("go")
        person.until(lambda rows: "+1 sub-agent · Bash cat gate-ada" in row_of(rows, "ada"))
        rows = person.until(lambda rows: any("general-purpose: look" in row for row in below(rows)))
        id = next(row.split()[1] for row in below(rows) if "general-purpose: look" in row)
        person.says(f"/view {id}")
        person.sees(f"── {id} · sub-agent of ada, running ──", f"ada → {id}: a job behind", "Bash cat gate-ben")
        person.types(CTRL_D)
        person.sees(f"ada, sub-agent {id} are at work:", "wait until all is done", "leave? [w/s/l]")
        person.says("")
        opens(gates, "ben")
        person.until(lambda rows: row_of(rows, "ada") and "sub-agent" not in row_of(rows, "ada"))
        person.until(lambda rows: not any("general-purpose" in row for row in below(rows)))


@pytest.mark.slow
@pytest.mark.promise("H9", "F67")
def test_a_session_that_is_gone_on_with_shows_its_members_and_tasks_again(gates, own_home):
    with at_terminal(crew, gates) as (person, _):
        starts(person)
        person.says("/stop ben")
        person.sees("ben was stopped")
        person.says("/quit")
        person.sees("leave? [w/s/l]")
        person.says("l")
        person.leaves()
    with at_terminal(crew, gates, "-c") as (person, _):
        rows = person.until(lambda rows: row_of(rows, "ada") and "0/2 tasks" in last(rows))
        assert not row_of(rows, "ben")
        person.types(CTRL_T)
        person.until(lambda rows: "▸ #1 job of ada  ada" in "\n".join(below(rows)))
        person.says("/view ada")
        person.sees("── ada ·", "lead → ada: Take task 1.", "ada        TaskUpdate 1", "\n@ada>")
