"""Sessions that go on: with a prompt or without, after their end, a signal, or a kill in the middle of a call."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Stall, Status
from tests.support.model_requests import teammate_of
from tests.support.transcripts import lines_of
from tests.support.waits import WAIT_S
from tests.ui.program import Mark, Program, error_of, told_results, words_of

pytestmark = pytest.mark.usefixtures("unconfined")

BOTH_ROLES = ("user", "assistant")


def session_of(done) -> str:
    return json.loads(done.stdout.splitlines()[-1])["session_id"]


def kill_in_the_call(program: Program, mark: Mark) -> None:
    """SIGKILL while the command runs that writes its number; the command is ended as well."""
    process = program.start("-p", "begin", "--dangerously-skip-permissions")
    command = int(mark.wait())
    process.kill()
    process.communicate(timeout=WAIT_S)
    os.kill(command, signal.SIGKILL)


def roles(body: dict) -> list[str]:
    return [message["role"] for message in body["messages"]]


@pytest.mark.promise("H5", "K8")
@pytest.mark.slow
def test_a_session_goes_on_by_c_by_the_beginning_of_its_id_and_by_resume(tmp_path, repo):
    with LoopbackModel.in_thread(["One.", "Two.", "Three.", "Four."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        first = program.run("-p", "first", "--output-format", "json")
        own = session_of(first)
        ways = [("-c", "-p", "second"), ("-p", "third", "--resume", own[:8]), ("resume", own[:6], "fourth")]
        said = [program.run(*way) for way in ways]
    assert [(d.returncode, d.stdout) for d in said] == [(0, "Two.\n"), (0, "Three.\n"), (0, "Four.\n")]
    assert roles(server.bodies[-1]) == ["user", "assistant"] * 3 + ["user"]
    assert words_of(server.bodies[-1]).split() == ["first", "second", "third", "fourth"]
    assert len({json.dumps(body["system"]) for body in server.bodies}) == 1, "the prefix is what it was, to the byte"
    assert len({json.dumps(body["tools"]) for body in server.bodies}) == 1


@pytest.mark.slow
def test_a_session_goes_on_where_it_was_begun_from_wherever_it_is_named(tmp_path, repo):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    turns = ["One.", Answer(tools=[("Bash", {"command": "pwd"})]), "Two."]
    with LoopbackModel.in_thread(turns) as server:
        own = session_of(Program(repo, tmp_path / "home", server.url).run("-p", "hi", "--output-format", "json"))
        other = Program(elsewhere, tmp_path / "home", server.url)
        assert other.run("-c", "-p", "go on").returncode == 2, "this directory has no session of its own"
        done = other.run("-r", own[:8], "-p", "go on")
    assert (done.returncode, done.stdout) == (0, "Two.\n"), done.stderr
    assert told_results(server.bodies[-1])[-1]["text"] == str(repo)


@pytest.mark.promise("H5", "D8", "F55")
@pytest.mark.slow
def test_a_kill_in_the_middle_of_a_call_leaves_a_session_that_answers_what_it_owes(tmp_path, repo):
    mark = Mark(tmp_path / "running")
    command = f"echo $$ > {mark.path}; exec sleep 300"
    with LoopbackModel.in_thread([Answer("I wait.", tools=[("Bash", {"command": command})])]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        kill_in_the_call(program, mark)
    with LoopbackModel.in_thread(["What it did stays done."]) as server:
        again = Program(repo, tmp_path / "home", server.url).run("resume", program_session(program)[:8])
    assert (again.returncode, again.stdout) == (0, "What it did stays done.\n"), again.stderr
    [body] = server.bodies
    assert roles(body) == ["user", "assistant", "user"]
    [result] = told_results(body)
    assert result["is_error"]
    assert "interrupted" in result["text"]
    assert words_of(body) == "begin", "nothing was said in the user's name"


def program_session(program: Program) -> str:
    [path] = program.home.glob("projects/*/*.jsonl")
    return path.stem


@pytest.mark.promise("H5")
@pytest.mark.slow
def test_a_prompt_with_the_resume_comes_behind_the_repaired_call_in_one_round(tmp_path, repo):
    mark = Mark(tmp_path / "running")
    calls = [("Bash", {"command": f"echo $$ > {mark.path}; exec sleep 300"}), ("Bash", {"command": "exec sleep 301"})]
    with LoopbackModel.in_thread([Answer(tools=calls)]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        kill_in_the_call(program, mark)
    with LoopbackModel.in_thread(["Well."]) as server:
        again = Program(repo, tmp_path / "home", server.url).run("-c", "-p", "never mind")
    assert (again.returncode, again.stdout) == (0, "Well.\n"), again.stderr
    [body] = server.bodies
    results = told_results(body)
    made = [
        b["id"] for m in body["messages"] if m["role"] == "assistant" for b in m["content"] if b["type"] == "tool_use"
    ]
    assert [r["tool_use_id"] for r in results] == made
    assert words_of(body).split("\n") == ["begin", "never mind"]
    turned = [role for n, role in enumerate(roles(body)) if n == 0 or roles(body)[n - 1] != role]
    assert turned == ["user", "assistant", "user"]


@pytest.mark.slow
def test_a_session_that_owes_nothing_says_so_instead_of_asking_the_model(tmp_path, repo):
    with LoopbackModel.in_thread() as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.run("-p", "hi")
        again = program.run("-c", "-p")
    assert (again.returncode, error_of(again)[0], again.stdout) == (2, "usage", "")
    assert "has answered every prompt" in again.stderr
    assert len(server.bodies) == 1


@pytest.mark.slow
def test_a_run_that_failed_goes_on_without_the_prompt_being_typed_again(tmp_path, repo):
    with LoopbackModel.in_thread([Status(401), "Now it works."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        failed = program.run("-p", "a long prompt")
        line = re.search(r"teamwright resume (\w+)", failed.stderr)
        again = program.run("resume", line[1])
    assert failed.returncode == 3
    assert (again.returncode, again.stdout) == (0, "Now it works.\n"), again.stderr
    assert words_of(server.bodies[-1]) == "a long prompt"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
@pytest.mark.promise("P5", "F21")
def test_a_signal_saves_ends_everything_and_says_how_to_go_on(tmp_path, repo, number, code):
    marks = {name: Mark(tmp_path / name) for name in ("ada", "lead")}
    calls = {
        "ada": Answer(tools=[("Bash", {"command": f"echo $$ > {tmp_path}/ada; exec sleep 300"})]),
        "lead": Answer(tools=[("Bash", {"command": f"echo $$ > {tmp_path}/lead; sleep 300 & wait"})]),
        "begin": Answer(tools=[("Agent", {"description": "x", "prompt": "sleep", "name": "ada"})]),
    }

    def players(body: dict) -> Answer:
        if teammate_of(body) == "ada":
            return calls["ada"]
        return calls["lead"] if told_results(body) else calls["begin"]

    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        process = program.start("-p", "begin", "--dangerously-skip-permissions", "--output-format", "stream-json")
        pids = {name: int(mark.wait()) for name, mark in marks.items()}
        process.send_signal(number)
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == code, err
    assert "Traceback" not in err
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["is_error"], last["team"]["stop"]) == ("result", True, "cancelled")
    assert last["num_turns"] == 2, "rounds of a turn that was cut short count"
    assert last["team"]["cut_off"] == ["ada"]
    assert "teamwright resume " in err
    assert not any(map(alive, pids.values())), "a command lives on"
    assert_loadable(program.home)
    with LoopbackModel.in_thread(["I went on."]) as server:
        again = Program(repo, program.home, server.url).run("-c", "-p", "go on")
    assert (again.returncode, again.stdout) == (0, "I went on.\n"), again.stderr


@pytest.mark.finding("T21")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)])
@pytest.mark.promise("P5", "F21")
@pytest.mark.slow_after(1)
def test_a_signal_while_a_session_opens_ends_all_that_it_started(tmp_path, repo, number, code):
    mark = Mark(tmp_path / "server")
    program = Program(repo, tmp_path / "home")
    server = {"command": "sh", "args": ["-c", f"echo $$ > {mark.path}; exec sleep 300"]}
    program.settings(mcpServers={"slow": server}, mcp={"wait_s": WAIT_S})
    process = program.start("-p", "begin")
    pid = int(mark.wait())
    process.send_signal(number)
    _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert not alive(pid), "the server lives on"


@pytest.mark.slow
def test_a_signal_in_the_middle_of_an_answer_leaves_a_session_that_owes_it(tmp_path, repo):
    asked = Mark(tmp_path / "asked")

    def stalls(_body: dict) -> Stall:
        asked.path.write_text("the model is asked\n")
        return Stall(after_events=4, answer=Answer("Half of an answer that never comes to its end."))

    with LoopbackModel.in_thread(stalls) as server:
        program = Program(repo, tmp_path / "home", server.url)
        process = program.start("-p", "begin", "--output-format", "json")
        asked.wait()
        process.terminate()
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 143, err
    half = json.loads(out)["result"]  # as much as had come when the signal did; the reason if nothing had
    half = "" if half.startswith("interrupted") else half
    assert "Half of an answer that never comes to its end.".startswith(half)
    assert_loadable(program.home)
    with LoopbackModel.in_thread(["A whole one."]) as server:
        again = Program(repo, program.home, server.url).run("-c", "-p")
    assert (again.returncode, again.stdout) == (0, "A whole one.\n"), again.stderr
    assert roles(server.bodies[0]) == (["user", "assistant", "user"] if half else ["user"])


def alive(pid: int) -> bool:
    """Whether the process runs; one that is only waiting to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def assert_loadable(home: Path) -> None:
    """Every transcript has whole lines, begins with its header, and answers each call."""
    paths = [*home.glob("projects/*/*.jsonl"), *home.glob("projects/*/*/agents/*.jsonl")]
    assert paths
    for path in paths:
        lines = lines_of(path)
        assert lines[0]["type"] == "header"
        content = [block for line in lines[1:] for block in line["message"]["content"]]
        asked = [block["id"] for block in content if block["type"] == "tool_use"]
        answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert asked == answered, path


@pytest.mark.slow
def test_the_second_signal_changes_nothing(tmp_path, repo):
    mark = Mark(tmp_path / "running")
    command = f"trap '' TERM INT; echo > {mark.path}; while :; do sleep 1; done"
    with LoopbackModel.in_thread([Answer(tools=[("Bash", {"command": command})])]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        process = program.start("-p", "begin", "--dangerously-skip-permissions")
        mark.wait()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, err
    assert "teamwright resume " in err
    assert_loadable(program.home)


@pytest.mark.slow
def test_only_one_process_drives_a_session(tmp_path, repo):
    mark = Mark(tmp_path / "running")
    with LoopbackModel.in_thread(
        [Answer(tools=[("Bash", {"command": f"echo > {mark.path}; exec sleep 300"})]), Answer("copied")]
    ) as server:
        program = Program(repo, tmp_path / "home", server.url)
        process = program.start("-p", "begin", "--dangerously-skip-permissions")
        mark.wait()
        second = program.run("-c", "-p", "me too")
        copied = program.run("-c", "-p", "me too", "--fork-session")
        process.terminate()
        process.communicate(timeout=WAIT_S)
    assert (second.returncode, error_of(second)[0]) == (3, "session-busy")
    assert f"process {process.pid}" in second.stderr and "add --fork-session" in second.stderr
    assert copied.returncode == 0, copied.stderr


@pytest.mark.slow
def test_a_session_id_of_ones_own_is_taken_once(tmp_path, repo):
    own = "0f0e0d0c-0b0a-4908-8706-050403020100"
    with LoopbackModel.in_thread() as server:
        program = Program(repo, tmp_path / "home", server.url)
        first = program.run("-p", "hi", "--session-id", own, "--output-format", "json")
        second = program.run("-p", "hi", "--session-id", own)
    assert session_of(first) == own
    assert (second.returncode, error_of(second)[0]) == (2, "usage")
    assert f"teamwright resume {own[:8]}" in second.stderr
    assert len(server.bodies) == 1


@pytest.mark.slow
def test_a_transcript_that_is_damaged_is_named_and_left_as_it_is(tmp_path, repo):
    with LoopbackModel.in_thread() as server:
        program = Program(repo, tmp_path / "home", server.url)
        own = session_of(program.run("-p", "hi", "--output-format", "json"))
        [path] = program.home.glob("projects/*/*.jsonl")
        path.write_text('{"type":"something"}\n')
        again = program.run("-r", own, "-p", "go on")
    assert again.returncode == 1
    assert "[damaged-file]" in again.stderr
    assert path.read_text() == '{"type":"something"}\n'


@pytest.mark.slow
def test_a_resumed_session_keeps_its_model_unless_another_is_named(tmp_path, repo):
    with LoopbackModel.in_thread() as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.run("-p", "one", "--model", "haiku")
        program.run("-c", "-p", "two")
        program.run("-c", "-p", "three", "--model", "opus")
    models = [body["model"] for body in server.bodies]
    assert models[0] == models[1]
    assert "haiku" in models[0]
    assert "opus" in models[2]
    assert "haiku" not in models[2]
    parts = [{key: body[key] for key in ("system", "tools")} for body in server.bodies]
    assert parts[0] == parts[2], "the words are what they were"


@pytest.mark.finding("D2")
@pytest.mark.promise("H5")
@pytest.mark.slow
def test_a_resume_says_which_lines_of_its_files_were_damaged_and_continues_validly(tmp_path, repo):
    with LoopbackModel.in_thread([Answer(tools=[("Bash", {"command": "pwd"})]), "One.", "Two."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        own = session_of(program.run("-p", "first", "--output-format", "json"))
        transcript = next((tmp_path / "home").glob(f"projects/*/{own}.jsonl"))
        log = transcript.with_suffix("") / "events.jsonl"
        for path, number in ((transcript, 2), (log, 1)):
            lines = path.read_bytes().splitlines(keepends=True)
            lines[number] = b"\0" * (len(lines[number]) - 1) + b"\n"
            path.write_bytes(b"".join(lines))
        done = program.run("resume", own[:8], "-p", "second")
    assert (done.returncode, done.stdout) == (0, "Two.\n"), done.stderr
    for path in (transcript, log):
        assert f"1 line of {path} could not be read" in done.stderr
        assert b"\0\0\0" in next(path.parent.glob(f"{path.name}.bad.*")).read_bytes()
    body = server.bodies[-1]
    assert roles(body) == ["user", "assistant"] * 2 + ["user"]
    blocks = [block for message in body["messages"] for block in message["content"]]
    assert {block["type"] for block in blocks} == {"text"}, blocks
    assert "transcript file was damaged" in blocks[2]["text"]
