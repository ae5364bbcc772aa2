"""`/btw`: a question in passing, which the lead answers while it works."""

import pytest

from teamwright.testing.model_server_replies import Answer, Stall
from tests.ui.test_terminal_session import at_terminal, told


@pytest.mark.finding("S4")
def test_btw_is_answered_while_the_lead_works_and_the_lead_never_hears_of_it(repo, tmp_path):
    def play(body: dict) -> Answer | Stall | str:
        if "in passing" in told(body):
            return "I am **reading** the tests."
        return Stall(20, Answer("It took a while, and now it is done."))

    with at_terminal(play, repo, HOME=str(tmp_path / "home")) as (person, server):
        person.says("work for long")
        person.until(lambda _rows: len(server.bodies) == 1)
        person.says("/btw what are you doing?")
        person.sees("lead, in passing, about: what are you doing?", "I am reading the tests.")
        person.says("/btw")
        person.sees("the question is empty")
        person.says("/btw @nobody who are you?")
        person.sees("nobody")
        person.says("/cost")
        person.sees("side question")
