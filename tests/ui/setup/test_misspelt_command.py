"""A misspelt command is no prompt: nothing is started, and both ways on are named."""

import pytest

from teamwright.testing.model_server import LoopbackModel
from tests.ui.program import Program


@pytest.mark.parametrize(("word", "meant"), [("sttaus", "status"), ("Doctor", "doctor"), ("requets", "requests")])
def test_one_word_that_is_a_command_but_for_a_letter_starts_nothing(tmp_path, repo, word, meant):
    with LoopbackModel.in_thread() as server:
        done = Program(repo, tmp_path / "home", server.url).run(word, stdin="some text")
        assert (done.returncode, server.bodies) == (2, [])
    assert f"teamwright {meant}\n" in done.stderr and f"teamwright -- {word} " in done.stderr


@pytest.mark.parametrize("args", [("-p", "sttaus"), ("--", "sttaus"), ("please sttaus",), ("hello",)])
def test_what_is_said_to_be_a_prompt_and_what_is_like_no_command_is_one(tmp_path, repo, args):
    with LoopbackModel.in_thread() as server:
        done = Program(repo, tmp_path / "home", server.url).run(*args, stdin="")
        assert done.returncode == 0, done.stderr
        assert len(server.bodies) == 1
