"""Text of an agent arrives by the word, and is one block whatever else happens."""

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.ui.terminal.crew import crew, gates, opens, row_of, starts
from tests.ui.terminal.slow_answers import paused
from tests.ui.terminal_driver import ENTER
from tests.ui.test_terminal_session import at_terminal, told, who

__all__ = ["gates"]

WORDS = "The first words of a long paragraph arrive while another member works, and nothing cuts the sentence that"
TEXT = f"{WORDS} the lead is about to finish here.\n\nA second paragraph."


@pytest.mark.finding("U1")
@pytest.mark.slow
def test_a_paragraph_is_shown_while_it_arrives_and_lines_of_others_follow_it(gates, tmp_path):
    answer, continued = paused(TEXT, WORDS)

    def play(body: dict):
        if who(body) == "lead" and "tell me" in told(body):
            return answer
        return crew(body)

    with at_terminal(play, gates, size=(40, 60), HOME=str(tmp_path / "home")) as (person, _):
        starts(person)
        person.says("tell me")
        rows = person.until(lambda rows: any("nothing cuts the sentence" in row for row in rows))
        assert next(row for row in rows if row.startswith("The first words")) == (
            "The first words of a long paragraph arrive while another"
        )
        opens(gates, "ada")
        person.until(lambda rows: "cat gate-ada" not in row_of(rows, "ada"))
        assert not person.shows("Bash cat gate-ada")
        person.types("half a line")
        person.sees("> half a line")
        continued.set()
        person.sees("about to finish here.", "Bash cat gate-ada", "A second paragraph.")
        lines = person.screen.text.split("\n")
        at = lines.index("The first words of a long paragraph arrive while another")
        paragraph = " ".join(lines[at : at + 3])
        assert paragraph == TEXT.partition("\n")[0]
        assert person.screen.text.count("The first words") == 1
        person.types(ENTER)


@pytest.mark.finding("U1")
def test_a_paragraph_without_movable_cursor_is_printed_whole(repo, tmp_path):
    with at_terminal(lambda _body: Answer(TEXT), repo, size=(40, 60), TERM="dumb", HOME=str(tmp_path / "h")) as (
        person,
        _,
    ):
        person.says("tell me")
        person.sees("finish here.", "A second paragraph.")
        assert "arrive while another\nmember works" in person.screen.text
        assert "\x1b" not in person.raw
