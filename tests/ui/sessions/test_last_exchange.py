"""A session that continues shows its last prompt and answer."""

import pytest

from tests.ui.terminal_driver import Person
from tests.ui.test_terminal_session import at_terminal, told


@pytest.mark.finding("U9")
@pytest.mark.slow
def test_a_continued_session_shows_its_last_prompt_and_answer(repo, tmp_path):
    def play(body: dict) -> str:
        return "Two is the **last** answer." if "second words" in told(body) else "One was the first answer."

    home = str(tmp_path / "home")
    with at_terminal(play, repo, HOME=home) as (person, server):
        person.says("first words")
        person.sees("first answer")
        person.says("second words")
        person.sees("last answer")
        person.says("/quit")
        assert person.leaves() == 0
        keys = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-test-000000001234", "HOME": home}
        again = Person("--model", "sonnet", "-c", cwd=repo, **keys)
        try:
            again.sees("continues; it has 4 messages", "> second words", "Two is the last answer.", "\n>")
            assert not again.shows("first words")
        finally:
            again.ends()
