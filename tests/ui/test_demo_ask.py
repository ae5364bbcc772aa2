"""`teamwright demo --ask` as a user runs it: a nested request, answered by a second terminal, a policy, a deadline."""

import json
import os
import re
import signal
import subprocess
import tomllib
from importlib import resources
from pathlib import Path

import pytest

from teamwright.ui.demo.demo import GIT_COMMAND
from tests.ui.demo_runs import Stage
from tests.ui.histories import git, invented, snapshot
from tests.ui.test_demo_terminal import Watcher

ALLOW = re.compile(r"^  (?:teamwright|\S+ -m teamwright) requests allow (\w+)$", re.MULTILINE)
ASKS = "? historian › general-purpose: count the commits wants to use Bash"


@pytest.fixture
def stage(tmp_path) -> Stage:
    return Stage(tmp_path / "stage")


@pytest.fixture
def place(tmp_path) -> Path:
    return invented("python and go", 35, commits=30).write(tmp_path / "shown")


def commits(place: Path) -> str:
    done = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=place, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.promise("F44", "G4", "K5")
@pytest.mark.slow
def test_off_a_terminal_a_second_process_answers_and_that_is_said(stage, place):
    before = snapshot(place)
    stage.watching = True
    done = stage.run("demo", "--ask", cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    out = done.stdout
    assert ASKS in out
    assert "rev-list --count" in out.replace("\n      ", " ")
    assert "No person is asked here: a second process of this program answers." in out
    assert ALLOW.search(out)
    assert "✓ allowed from another terminal" in out
    history = next(line for line in out.splitlines() if line.startswith("History: "))
    assert re.fullmatch(rf"History: {commits(place)} in all \[c\d+\]", history)
    assert "3 agents · 2 tasks" in out and "0 bytes written here" in out
    assert snapshot(place) == before
    assert max(map(len, out.splitlines())) <= 80
    assert not stage.leftovers
    assert not [line for line in stage.watched if line.startswith("network")]


@pytest.mark.slow
@pytest.mark.promise("F44", "G4")
def test_a_person_answers_from_a_second_terminal(stage, place):
    watcher = Watcher(stage, "--ask", "--pace", "0", cwd=place, size=(60, 80))
    watcher.sees("requests allow")
    watcher.sees("Answer it in another terminal:")
    [name] = ALLOW.findall(watcher.screen.text)
    listed = stage.run("requests", cwd=place)
    assert ASKS in listed.stdout
    assert stage.run("requests", "allow", name, cwd=place).returncode == 0
    assert watcher.leaves() == 0
    text = watcher.screen.text
    assert "✓ allowed from another terminal" in text
    assert f"History: {commits(place)} in all" in text
    assert not stage.leftovers


@pytest.mark.promise("F44", "P4")
@pytest.mark.slow
def test_a_person_refuses_and_the_demo_still_ends_well(stage, place):
    watcher = Watcher(stage, "--ask", "--pace", "0", cwd=place, size=(60, 80))
    watcher.sees("Answer it in another terminal:")
    watcher.sees("requests allow")
    [name] = ALLOW.findall(watcher.screen.text)
    assert stage.run("requests", "deny", name, "--reason", "no counting", cwd=place).returncode == 0
    assert watcher.leaves() == 0
    assert "✗ denied from another terminal (no counting)" in watcher.screen.text
    assert "History: left out, the call was not allowed" in watcher.screen.text


@pytest.mark.promise("F44", "P4")
@pytest.mark.slow
def test_at_its_deadline_it_is_denied_and_the_demo_still_ends_well(stage, place):
    watcher = Watcher(stage, "--ask", "--within", "1s", "--pace", "0", cwd=place, size=(60, 80))
    watcher.sees("it waits 1 s for a yes")
    assert watcher.leaves() == 0
    assert "✗ denied at its deadline (no answer within 1 s)" in watcher.screen.text
    assert "History: left out, the call was not allowed" in watcher.screen.text
    assert "denied at its deadline after 1." in watcher.screen.text


@pytest.mark.promise("F44", "P4")
@pytest.mark.slow
def test_by_policy_nobody_is_asked_and_the_report_says_what_is_missing(stage, place):
    done = stage.run("demo", "--ask", "deny", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "requests allow" not in done.stdout
    assert "refused: no user is present t" in done.stdout
    assert "History: left out, the call was not allowed" in done.stdout
    assert "asked     no one: the policy of this run denies" in done.stdout


@pytest.mark.slow
def test_as_json_the_answer_stands_beside_the_result(stage, place):
    done = stage.run("demo", "--ask", "--output-format", "json", cwd=place)
    body = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (body["asked"]["verdict"], body["asked"]["by"], body["asked"]["tool"]) == (
        "allow",
        "another terminal",
        "Bash",
    )
    assert body["subtype"] == "success" and "History: " in body["result"]


@pytest.mark.promise("F21")
@pytest.mark.slow
def test_an_interrupt_while_it_waits_leaves_nothing(stage, place):
    watcher = Watcher(stage, "--ask", "--pace", "0", cwd=place)
    watcher.sees("Answer it in another terminal:")
    os.kill(watcher.child.pid, signal.SIGINT)
    assert watcher.leaves() == 130
    assert not stage.leftovers
    assert stage.run("requests", cwd=place).stdout.startswith("No request is open.")


@pytest.mark.parametrize("kind", ["empty", "outside"])
@pytest.mark.slow
def test_without_a_commit_and_outside_git_it_ends_well(stage, tmp_path, kind):
    there = tmp_path / "there"
    there.mkdir()
    if kind == "empty":
        git(there, "init", "-q", ".")
    done = stage.run("demo", "--ask", cwd=there)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("History: left out, no commit yet" in done.stdout) is (kind == "empty")


@pytest.mark.slow_after(2)
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--ask", "--kill"], "--kill goes without --ask"),
        (["--ask", "--model", "sonnet"], "--ask goes without --model"),
        (["--ask", "--report", "x"], "--ask goes without --report"),
        (["--ask", "--backend", "tmux"], "--ask goes without --backend"),
        (["--within", "5s"], "--within is for --ask"),
        (["--ask", "perhaps"], "perhaps"),
        (["--ask", "--within", "soon"], "is not a time span"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_starts(stage, place, args, said):
    done = stage.run("demo", *args, cwd=place)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (stage.root / "home" / ".teamwright").exists()


@pytest.mark.slow
def test_a_repository_cannot_put_a_program_of_its_own_into_the_second_process(stage, place, tmp_path):
    (place / "teamwright").mkdir()
    (place / "teamwright" / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    (place / "teamwright" / "__main__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    done = stage.run("demo", "--ask", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "✓ allowed from another terminal" in done.stdout
    assert not (tmp_path / "ran").exists()


def test_its_git_commands_run_nothing_of_a_repository_either():
    files = resources.files("teamwright.ui.demo")
    texts = [
        tomllib.loads((files / name).read_text())["script"]["text"]["git"] for name in ("ask_demo.toml", "demo.toml")
    ]
    assert texts == [GIT_COMMAND, GIT_COMMAND]
