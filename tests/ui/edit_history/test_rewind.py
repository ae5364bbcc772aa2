"""`teamwright rewind`: conversation and files of a session go back to the time before a prompt, also after a kill."""

import json
import multiprocessing
import os
import signal
import sys
from pathlib import Path

import pexpect
import pytest

from teamwright.edit_history.edit_journal_reader import read_journal
from teamwright.edit_history.history_location import find_history
from teamwright.edit_history.rewind import rewind_on_disk
from teamwright.storage.file_lease import Lease, lease_path
from teamwright.storage.paths import Home
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S
from tests.ui.member_processes.house import BYPASS
from tests.ui.program import COMMAND, Program, error_of, words_of
from tests.ui.subagents.play import Play

pytestmark = pytest.mark.finding("L1")

FILES = 40


def rewind(program: Program, *args: str) -> dict:
    made = program.run("rewind", "--yes", "--json", *args)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


def ask(program: Program, play: Play, prompt: str) -> str:
    """Return the user's texts and the lead's answers in the request that a further prompt makes."""
    play.lead[:] = ["I see."]
    again = program.run("-c", "-p", prompt, BYPASS)
    assert again.returncode == 0, again.stderr
    request = play.asked()[-1]
    answers = [json.dumps(message["content"]) for message in request["messages"] if message["role"] == "assistant"]
    return "\n".join([words_of(request), *answers])


@pytest.mark.slow
def test_conversation_and_files_go_back_to_the_time_before_a_prompt_and_the_lead_is_told(edited, repo):
    program, play = edited
    listed = program.run("rewind").stdout
    assert [line.split()[0] for line in listed.splitlines() if "make" in line] == ["1", "2", "3"]
    made = rewind(program, "--to", "2")
    assert made["prompt"] == "make it second" and made["scope"] == "all" and not made["completed"]
    assert {(file["path"], file["did"]) for file in made["files"]} == {
        ("main.py", "restored"),
        ("deep/new.txt", "removed"),
    }
    assert (repo / "main.py").read_text() == "print('first')\n" and not (repo / "deep").exists()
    told = ask(program, play, "and now?")
    assert "make it first" in told and "First." in told
    assert "Second." not in told and "make a file" not in told and "Third." not in told
    assert 'back to the time before the prompt "make it second"' in told and "earlier content again: main.py" in told
    listed = program.run("rewind").stdout
    assert "make it first" in listed and "and now?" in listed and "make it second" not in listed
    assert rewind(program, "--to", "1")["prompt"] == "make it first"
    assert (repo / "main.py").read_text() == "print('hello')\n"
    audited = program.run("audit")
    assert audited.returncode == 0, audited.stdout + audited.stderr


@pytest.mark.slow_after(1)
def test_before_the_first_prompt_the_conversation_is_empty_and_the_next_prompt_begins_it(edited):
    program, play = edited
    first = play.asked()[0]["messages"][0]["content"]
    rewind(program, "--to", "1")
    ask(program, play, "begin again")
    messages = play.asked()[-1]["messages"]
    assert len(messages) == 1 and "make it first" not in json.dumps(messages[0]["content"][:-3])
    beginning = [block["text"][:40] for block in first[:-2]]
    assert [text for text in beginning if text not in json.dumps(messages[0])] == []


@pytest.mark.slow
def test_only_the_conversation_or_only_the_files_go_back(edited, repo):
    program, play = edited
    rewind(program, "--to", "3", "--conversation-only")
    assert (repo / "deep/new.txt").exists()
    assert "make a file" not in ask(program, play, "four").replace('the prompt "make a file"', "")
    rewind(program, "--to", "2", "--files-only")
    assert not (repo / "deep").exists() and (repo / "main.py").read_text() == "print('first')\n"
    told = ask(program, play, "five")
    assert "make it second" in told and "took back the edits" in told


@pytest.mark.slow
def test_a_file_that_changed_since_is_named_and_stays(edited, repo):
    program, _ = edited
    (repo / "main.py").write_text("mine\n")
    done = program.run("rewind", "--to", "1", "--yes")
    assert done.returncode == 0 and "left       main.py  (it changed since)" in done.stdout
    assert (repo / "main.py").read_text() == "mine\n" and not (repo / "deep").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--to", "9", "--yes"), 2, "the prompts have the numbers 1 to 3"),
        (("--to", "0", "--yes"), 2, "has no prompt 0"),
        (("--to", "1"), 2, "add --yes"),
        (("--to", "1", "--files-only", "--conversation-only"), 2, "exclude each other"),
        (("--to", "x"), 2, "x"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(edited, repo, args, code, words):
    program, _ = edited
    refused = program.run("rewind", *args)
    assert refused.returncode == code and words in refused.stderr
    assert (repo / "deep/new.txt").exists() and "make a file" in program.run("rewind").stdout


@pytest.mark.slow
def test_a_person_sees_what_would_be_done_and_may_say_no(edited, repo):
    program, _ = edited
    for answer, content in (("n", "second"), ("y", "first")):
        env = {**program.environment, "TERM": "xterm-256color"}
        args = [*COMMAND[1:], "rewind", "--to", "2"]
        child = pexpect.spawn(COMMAND[0], args, cwd=str(repo), env=env, encoding="utf-8", timeout=WAIT_S)
        child.expect_exact("[y/N]")
        assert '"make it second"' in child.before and "restore  main.py" in child.before
        assert "shell commands" in child.before
        child.sendline(answer)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
        assert (repo / "main.py").read_text() == f"print('{content}')\n"


@pytest.mark.slow
def test_a_session_that_a_process_drives_is_refused_with_what_to_do(edited, repo):
    program, _ = edited
    place = find_history(Home.at(program.home), repo, None)
    lease = Lease.take(lease_path(place.directory), "a test")
    try:
        refused = program.run("rewind", "--to", "1", "--yes")
    finally:
        lease.release()
    slug, lines = error_of(refused)
    assert (refused.returncode, slug) == (3, "session-busy") and "end it, then rewind" in "\n".join(lines)
    assert (repo / "deep/new.txt").exists() and "make a file" in program.run("rewind").stdout


def rewind_it(home: str, cwd: str, removed: int) -> None:
    """Rewind to the first prompt, and die by SIGKILL when the next file after so many would be removed."""
    import asyncio

    left = iter(range(removed))

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.remove" and str(arguments[0]).startswith(cwd) and next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    asyncio.run(rewind_on_disk(find_history(Home.at(Path(home)), Path(cwd), None), 1, "all"))


@pytest.mark.slow
@pytest.mark.parametrize("done", [0, 13, FILES - 1])
def test_a_rewind_that_a_kill_interrupted_is_completed_before_the_session_is_resumed(
    repo: Path, own_home: Path, done: int
):
    names = [f"f{number}" for number in range(FILES)]
    play = Play([Answer(tools=[("Write", {"file_path": name, "content": "text\n"}) for name in names]), "Written."])
    with play.on(repo, own_home / ".teamwright") as program:
        assert program.run("-p", "write them", BYPASS).returncode == 0
        history = find_history(Home.at(program.home), repo, None).history
        arguments = (str(program.home), os.path.realpath(repo), done)
        worker = multiprocessing.get_context("spawn").Process(target=rewind_it, args=arguments)
        worker.start()
        worker.join(WAIT_S)
        assert worker.exitcode == -signal.SIGKILL
        assert sum((repo / name).exists() for name in names) == FILES - done
        refused = program.run("undo", "--yes")
        assert error_of(refused)[0] == "undo-refused" and "a rewind was interrupted" in refused.stderr
        told = ask(program, play, "and now?")
        assert not any((repo / name).exists() for name in names)
        assert "Written." not in told and told.count("back to the time before the prompt") == 1
        assert read_journal(history).cut_off is None
        assert "write them" not in program.run("rewind").stdout


@pytest.mark.slow
def test_an_intent_without_any_change_is_completed_by_the_command_too(edited, repo):
    program, _ = edited
    history = find_history(Home.at(program.home), repo, None).history
    prompt = read_journal(history).prompts[2].id
    paths = [str(repo / "main.py"), str(repo / "deep/new.txt")]
    line = {"at": "x", "undo": "u1", "of": prompt, "by": [], "paths": paths, "left": [], "rewind": "all"}
    with (history / "edits.jsonl").open("a") as file:
        file.write(f"\n{json.dumps(line)}\n")
    done = program.run("rewind")
    assert done.returncode == 0 and "completed a rewind that was interrupted" in done.stdout
    assert (repo / "main.py").read_text() == "print('first')\n" and not (repo / "deep").exists()
    assert "make it second" not in program.run("rewind").stdout
