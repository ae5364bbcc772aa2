"""`teamwright review`: the work of each member on one screen, and the actions on it, with real processes and git."""

import json
import subprocess
from collections.abc import Generator
from pathlib import Path

import pexpect
import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S
from tests.ui.program import COMMAND, Program
from tests.ui.test_main_job import all_told, who
from tests.ui.test_terminal_session import at_terminal

pytestmark = [pytest.mark.finding("C9"), pytest.mark.slow_after(1)]

TEAM = "Release Team"
BYPASS = "--dangerously-skip-permissions"
LEAD = [
    ("TeamCreate", {"team_name": TEAM, "description": "a release"}),
    ("TaskCreate", {"subject": "the job", "description": "do it", "for": ["ada"], "metadata": {"check": "true"}}),
    ("Agent", {"description": "ada", "prompt": "You help.", "name": "ada", "subagent_type": "general-purpose"}),
]
ADA = [
    ("Read", {"file_path": "main.py"}),
    ("Edit", {"file_path": "main.py", "old_string": "hello", "new_string": "ada was here"}),
    ("Write", {"file_path": "new.txt", "content": "one\ntwo\n"}),
    ("TaskUpdate", {"taskId": "1", "status": "completed"}),
]


def crew(body: dict) -> Answer | str:
    """The lead starts ada, who does the one task and reports."""
    name = who(body)
    calls = [b for m in body["messages"] if m["role"] == "assistant" for b in m["content"] if b["type"] == "tool_use"]
    steps = ADA if name == "ada" else LEAD
    if len(calls) < len(steps):
        return Answer(tools=[steps[len(calls)]])
    if name == "ada":
        return "Ada reports: the job is done."
    return "FINAL: all is done." if "Ada reports" in all_told(body) else "I wait for ada."


@pytest.fixture
def ended(repo: Path, own_home: Path) -> Generator[Program]:
    """A run that has ended: ada changed two files and completed the one task."""
    with LoopbackModel.in_thread(crew) as server:
        program = Program(repo, own_home / ".teamwright", server.url)
        made = program.run("-p", "do the job", BYPASS)
        assert made.returncode == 0, made.stderr
        yield program


def review(program: Program, *args: str) -> dict:
    made = program.run("review", TEAM, "--json", *args)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


def of(found: dict, name: str) -> dict:
    return next(one for one in found["members"] if one["name"] == name)


@pytest.mark.slow
def test_a_review_has_report_files_tasks_and_cost_of_each_member_and_takes_decisions(ended: Program, repo: Path):
    found = review(ended)
    ada, lead = of(found, "ada"), of(found, "lead")
    assert "FINAL" in lead["report"] and not lead["files"]
    assert ada["report"] == "Ada reports: the job is done." and not ada["accepted"]
    assert {(file["path"], file["added"], file["removed"]) for file in ada["files"]} == {
        ("main.py", 1, 1),
        ("new.txt", 2, 0),
    }
    assert [(task["id"], task["status"]) for task in ada["tasks"]] == [("1", "completed")]
    assert ada["model_calls"] >= 5 and ada["tokens"] > 0
    assert [one["name"] for one in found["actions"]] == ["accept", "return", "undo", "commit"]

    shown = ended.run("review", TEAM).stdout
    assert "ada  open" in shown and "Ada reports" in shown and "completed, its check passed: true" in shown

    assert review(ended, "--do", "accept", "--member", "ada")["action"] == "accept"
    assert of(review(ended), "ada")["accepted"]

    said = review(ended, "--do", "return", "--member", "ada", "--text", "Name it better.")["result"]
    assert "task #1 is open again" in said
    assert [task["status"] != "completed" for task in json.loads(ended.run("tasks", TEAM, "--json").stdout)] == [True]
    boxes = "".join(path.read_text() for path in Path(ended.home).glob("teams/*/inboxes/*.json"))
    assert "Name it better." in boxes

    (repo / "README.md").write_text("not ada's\n")
    for name, value in (("user.name", "T"), ("user.email", "t@example.org"), ("commit.gpgsign", "false")):
        subprocess.run(["git", "config", name, value], cwd=repo, check=True)
    review(ended, "--do", "commit", "--member", "ada", "--text", "Ada's job")
    git = ["git", "-C", str(repo)]
    names = subprocess.run([*git, "show", "--format=%s", "--name-only"], capture_output=True, text=True, check=True)
    assert names.stdout.split("\n")[0] == "Ada's job" and set(names.stdout.split()[2:]) == {"main.py", "new.txt"}
    left = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    assert left.split() == ["M", "README.md"]

    review(ended, "--do", "undo", "--member", "ada")
    assert (repo / "main.py").read_text() == "print('hello')\n" and not (repo / "new.txt").exists()


@pytest.mark.slow
def test_a_review_refuses_what_it_cannot_do(ended: Program):
    for args, code, words in (
        (("--do", "accept"), 2, "needs --member"),
        (("--do", "return", "--member", "ada"), 2, "needs a text"),
        (("--do", "accept", "--member", "adda"), 2, "ada"),
        (("--do", "commit", "--member", "lead", "--text", "x"), 2, "changed no file"),
    ):
        made = ended.run("review", TEAM, *args)
        assert made.returncode == code and words in made.stderr, (args, made.stderr)


@pytest.mark.slow
def test_a_person_reviews_in_the_session_and_takes_edits_back(repo: Path):
    with at_terminal(crew, repo, BYPASS) as (person, _server):
        person.says("do the job")
        person.sees("FINAL: all is done.")
        person.says("/review-team")
        person.sees("ada  open", "main.py  +1 -1", "#1 the job: completed", "u NAME")
        person.says("/review-team a ada")
        person.sees("the work of ada is accepted")
        person.says("/review-team u ada")
        person.sees("took back the last edits of ada")
    assert (repo / "main.py").read_text() == "print('hello')\n"


@pytest.mark.slow
def test_a_person_decides_at_a_terminal_after_the_run_and_a_refusal_ends_nothing(ended: Program):
    env = {key: value for key, value in ended.environment.items() if key != "NO_COLOR"} | {"TERM": "xterm-256color"}
    args = [*COMMAND[1:], "review", TEAM]
    typed = pexpect.spawn(COMMAND[0], args, cwd=str(ended.cwd), env=env, encoding="utf-8", timeout=WAIT_S)
    typed.expect_exact("review> ")
    typed.sendline("x ada")
    typed.expect_exact("no action")
    typed.sendline("d ada")
    typed.expect_exact("\x1b[7;31mhello\x1b[0m")
    typed.expect_exact("\x1b[7;32mada was here\x1b[0m")
    typed.sendline("a ada")
    typed.expect_exact("the work of ada is accepted")
    typed.sendline("")
    typed.expect(pexpect.EOF)
    typed.close()
    assert of(review(ended), "ada")["accepted"]
