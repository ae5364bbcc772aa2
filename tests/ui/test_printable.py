"""Text of models, files and commands: nothing steers a terminal, and JSON reads back the same."""

import io
import json
import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.events import Notice, TaskChanged, TaskInfo
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from teamwright.ui.display_text import clean, json_text
from teamwright.ui.headless.run_output import RunOutput
from teamwright.ui.member_process import show_event
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S
from tests.ui.program import Program

pytestmark = pytest.mark.finding("P17")

STEERING = "a\u202eb\x1b[31m\x9bc\u2066d\u200be\x07"


def steers(text: str) -> set[str]:
    """The characters of a text that a terminal obeys, but for line feeds."""
    return {char for char in text if char != "\n" and unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}


@given(st.text())
def test_no_text_steers_a_terminal_and_a_second_cleaning_changes_nothing(text):
    assert not steers(clean(text)) - set("\u200c\u200d")
    assert clean(clean(text)) == clean(text)


@given(st.recursive(st.text() | st.integers() | st.none(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)))
def test_json_has_nothing_that_steers_a_terminal_and_reads_back_the_same(value):
    text = json_text({"x": value})
    assert not steers(text) - set("\u200c\u200d") - {char for char in text if unicodedata.category(char) == "Cf"}
    assert json.loads(text) == {"x": value}
    assert not set(STEERING) & steers(json_text(STEERING)) and json.loads(json_text(STEERING, indent=2)) == STEERING


def test_progress_of_a_run_is_cleaned():
    err = io.StringIO()
    outlet = RunOutput("text", progress=True, out=io.StringIO(), err=err)
    task = TaskInfo(id="1", subject=STEERING, status="pending")
    outlet.show_event(TaskChanged(member="ada", task=task, change="created"), "s")
    outlet.show_event(Notice(member="ada", text=STEERING, level="warning"), "s")
    assert err.getvalue().count("\\u202e") == 2 and not steers(err.getvalue())


def test_the_answer_is_cleaned_on_a_terminal(tmp_path, repo):
    ours, theirs = os.openpty()
    with LoopbackModel.in_thread([STEERING]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        running = program.start("-p", "hi", stdout=theirs)
        os.close(theirs)
        assert running.wait(WAIT_S) == 0
        running.communicate()
    said = os.read(ours, 4096).decode().replace("\r\n", "\n")
    os.close(ours)
    assert "\\u202e" in said and not steers(said)


def test_a_members_plain_lines_are_cleaned(capsys):
    show_event(Notice(member="ada", text=STEERING, level="warning"))
    assert "\\u202e" in (said := capsys.readouterr().out) and not steers(said)


@pytest.mark.slow
def test_verbose_prints_no_character_that_steers_a_terminal(tmp_path, repo):
    (repo / f"{STEERING}.txt").write_text("x")
    calls = [
        ("Bash", {"command": f"echo '{STEERING}'", "description": STEERING}),
        ("TaskCreate", {"subject": STEERING, "description": STEERING}),
        ("Read", {"file_path": f"{repo}/{STEERING}.txt"}),
        ("Read", {"file_path": f"/nowhere/{STEERING}"}),
        ("Agent", {"description": STEERING, "prompt": STEERING, "name": "ada"}),
        (STEERING, {}),
    ]

    def players(body):
        if teammate_of(body) == "ada":
            return Answer(f"I say {STEERING}")
        return Answer(STEERING) if len(body["messages"]) > 1 else Answer(tools=calls)

    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        text = program.run("-p", "hi", "--verbose", "--dangerously-skip-permissions")
        failed = program.run("-p", f"@{STEERING}")
        stream = program.run(
            "-p", "hi", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"
        )
        log = [program.run("log", *more) for more in ((), ("--json",))]
    assert text.returncode == stream.returncode == 0, text.stderr
    assert text.stdout == f"{STEERING}\n", "a pipe gets the answer as it is"
    assert text.stderr.count("\\u202e") >= 6 and not steers(text.stderr)
    assert failed.returncode == 2 and "\\u202e" in failed.stderr and not steers(failed.stderr)
    assert not steers(stream.stdout + stream.stderr)
    assert any(json.loads(line).get("result") == STEERING for line in stream.stdout.splitlines())
    assert not any(steers(done.stdout + done.stderr) for done in log)
