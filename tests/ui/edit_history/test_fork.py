"""`--fork-session`, `teamwright rewind --fork`, `/fork`: a second session; the first one stays as it is."""

import json
import uuid
from pathlib import Path

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.ui.member_processes.house import BYPASS
from tests.ui.program import words_of
from tests.ui.test_terminal_session import at_terminal

pytestmark = pytest.mark.finding("L1")


def sessions(program) -> dict[str, bytes]:
    """Return the transcript of each session by its id."""
    views = json.loads(program.run("sessions", "--json").stdout)
    return {view["id"]: Path(view["path"]).read_bytes() for view in views}


def continued(program, play, id: str, prompt: str = "and now?") -> str:
    """Return the texts that the model reads when the session continues with a prompt."""
    play.lead[:] = ["I see."]
    again = program.run("-r", id, "-p", prompt, BYPASS)
    assert again.returncode == 0, again.stderr
    request = play.asked()[-1]
    return words_of(request) + json.dumps([m["content"] for m in request["messages"] if m["role"] == "assistant"])


@pytest.mark.slow
def test_a_fork_before_a_prompt_has_the_conversation_before_it_and_changes_no_file(edited, repo):
    program, play = edited
    before = sessions(program)
    made = json.loads(program.run("rewind", "--fork", "--to", "2", "--json").stdout)
    assert made["source"] in before and made["before"]["text"] == "make it second"
    assert (repo / "main.py").read_text() == "print('second')\n" and (repo / "deep/new.txt").exists()
    told = continued(program, play, made["session"])
    assert "make it first" in told and "First." in told and "second session" in told
    assert "Second." not in told and "make a file" not in told
    now = sessions(program)
    assert now[made["source"]] == before[made["source"]]
    listed = program.run("rewind", made["session"]).stdout
    assert "make it first" in listed and "and now?" in listed and "make a file" not in listed


@pytest.mark.slow
def test_fork_session_continues_in_a_copy_with_the_given_id(edited):
    program, play = edited
    before, wanted = sessions(program), str(uuid.uuid4())
    play.lead[:] = ["Forked."]
    made = program.run("-c", "--fork-session", "--session-id", wanted, "-p", "go on", BYPASS)
    assert made.returncode == 0, made.stderr
    now = sessions(program)
    assert set(now) == {*before, wanted} and all(now[id] == text for id, text in before.items())
    assert b"make a file" in now[wanted] and b"Forked." in now[wanted]
    again = program.run("-c", "--fork-session", "--session-id", wanted, "-p", "go on", BYPASS)
    assert again.returncode == 2 and "already" in again.stderr


@pytest.mark.slow
def test_a_fork_that_cannot_be_opened_leaves_no_session(edited):
    program, _play = edited
    before = sessions(program)
    failed = program.run("-c", "--fork-session", "-p", "go on", "--allowed-tools", "NoSuchTool")
    assert failed.returncode == 2, failed.stderr
    assert set(sessions(program)) == set(before)


@pytest.mark.slow
def test_a_fork_needs_a_session_and_a_known_prompt(edited):
    program, _play = edited
    alone = program.run("--fork-session", "-p", "go on")
    assert alone.returncode == 2 and "needs a session" in alone.stderr
    unknown = program.run("rewind", "--fork", "--to", "9")
    assert unknown.returncode == 2 and "no prompt 9" in unknown.stderr


@pytest.mark.slow_after(1)
def test_the_command_fork_makes_a_session_and_stays_in_this_one(repo):
    with at_terminal(lambda body: Answer("Done."), repo, BYPASS) as (person, _server):
        person.says("do this first")
        person.sees("Done.")
        person.says("/fork list")
        person.sees("1  do this first", "/fork N")
        person.says("/fork")
        person.sees("has this conversation", "/resume")
        person.says("/fork x")
        person.sees("/fork N or /fork list")
