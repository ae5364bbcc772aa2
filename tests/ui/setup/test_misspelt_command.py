"""A misspelt command is no prompt: nothing is started, and both ways on are named."""

import re

import pytest

from teamwright.testing.model_server import LoopbackModel
from tests.ui.program import Program


@pytest.mark.parametrize(("word", "meant"), [("sttaus", "status"), ("Doctor", "doctor"), ("requets", "requests")])
def test_one_word_that_is_a_command_but_for_a_letter_starts_nothing(tmp_path, repo, word, meant):
    with LoopbackModel.in_thread() as server:
        done = Program(repo, tmp_path / "home", server.url).run(word, stdin="some text")
        assert (done.returncode, server.bodies) == (2, [])
    assert f"teamwright {meant}\n" in done.stderr and f"teamwright -- {word} " in done.stderr


@pytest.mark.finding("U6")
@pytest.mark.parametrize("word", ["login", "logout", "exit", "QUIT", "update", "init"])
@pytest.mark.slow_after(2)
def test_a_command_of_similar_programs_starts_nothing_and_says_what_helps(tmp_path, repo, word):
    with LoopbackModel.in_thread() as server:
        done = Program(repo, tmp_path / "home", server.url).run(word, stdin="some text")
        assert (done.returncode, server.bodies) == (2, [])
    assert re.search(r"do one of +teamwright \w+\n", done.stderr)
    assert f"teamwright -- {word} " in done.stderr


@pytest.mark.finding("U6")
@pytest.mark.slow
def test_help_and_version_are_commands_and_reach_no_model(tmp_path, repo):
    with LoopbackModel.in_thread() as server:
        program = Program(repo, tmp_path / "home", server.url)
        for same in (("help",), "--help"), (("version",), "--version"), (("help", "send"), "send --help"):
            written = program.run(*same[0], stdin="some text")
            flag = program.run(*same[1].split())
            assert (written.returncode, written.stdout) == (0, flag.stdout)
        below = program.run("help", "agents", "show")
        assert below.stdout.startswith("Usage: teamwright agents show ")
        wrong = program.run("help", "agents", "shwo")
        assert wrong.returncode == 2 and "teamwright help agents show" in wrong.stderr
        assert server.bodies == []


@pytest.mark.parametrize("args", [("-p", "sttaus"), ("--", "sttaus"), ("please sttaus",), ("hello",)])
@pytest.mark.slow_after(1)
def test_what_is_said_to_be_a_prompt_and_what_is_like_no_command_is_one(tmp_path, repo, args):
    with LoopbackModel.in_thread() as server:
        done = Program(repo, tmp_path / "home", server.url).run(*args, stdin="")
        assert done.returncode == 0, done.stderr
        assert len(server.bodies) == 1
