"""docs/reference/exit-codes.md: each code, from the real program, as a shell sees it."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Stall, Status
from tests.docs.pages import ROOT
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S
from tests.ui.program import Program

CODES = {
    int(code)
    for code in re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "reference" / "exit-codes.md").read_text(), re.MULTILINE)
}
REFUSED = [Answer(tools=[("Bash", {"command": "touch made"})]), "Done."]
BROKEN = "import sys\n\nif 'teamwright' in sys.orig_argv:\n    import json\n\n    json.dumps = None\n"
"""Breaks something that the program uses: a stand-in for a mistake of ours."""


def ended(script: object = ("Hello.",), *flags: str, **env: str) -> Callable[[Program], int]:
    """A headless run to its end."""

    def run(program: Program) -> int:
        with LoopbackModel.in_thread(script) as server:
            program.url = server.url
            program.env |= env
            return program.run("-p", "hi", *flags).returncode

    return run


def signalled(number: signal.Signals) -> Callable[[Program], int]:
    """A headless run that is told to end while its model is silent."""

    def run(program: Program) -> int:
        with LoopbackModel.in_thread([Stall()]) as server:
            program.url = server.url
            process = program.start("-p", "hi", "--output-format", "stream-json")
            assert process.stdout
            assert process.stdout.readline()
            process.send_signal(number)
            process.communicate(timeout=WAIT_S)
            return process.returncode

    return run


def with_members(*answers: Status | str, flags: tuple[str, ...] = ()) -> Callable[[Program], int]:
    """A lead that comes to its end beside a member for each of the answers, which is all that its service says."""
    by_name = dict(zip(("ada", "bob"), answers, strict=False))
    starts = [("Agent", {"description": "start", "prompt": "Go.", "name": name}) for name in by_name]

    def play(body: dict) -> Answer | Status | str:
        if member := teammate_of(body):
            return by_name[member]
        if "TeamCreate" not in json.dumps(body["messages"]):
            return Answer(tools=[("TeamCreate", {"team_name": "crew", "description": "d"})])
        if '"Agent"' not in json.dumps(body["messages"]):
            return Answer(tools=starts)
        return "Done."

    return ended(play, *flags)


def a_bug(program: Program) -> int:
    """`sitecustomize` is what Python loads first."""
    (program.cwd / "broken").mkdir()
    (program.cwd / "broken" / "sitecustomize.py").write_text(BROKEN)
    code = ended(PYTHONPATH=str(program.cwd / "broken"))(program)
    assert list((program.home / "debug").iterdir()), "a crash file"
    return code


ENDINGS: dict[tuple[int, str], Callable[[Program], int]] = {
    (0, "done"): ended(),
    (0, "a refused call without --strict"): ended(REFUSED),
    (1, "the service refuses after an answer"): ended([Answer(tools=[("Glob", {"pattern": "*"})]), Status(400, "no")]),
    (2, "a flag that is none"): ended(("Hello.",), "--colour"),
    (3, "no model"): ended(ANTHROPIC_API_KEY=""),
    (3, "a wrong key"): ended([Status(401, "no")]),
    (4, "a cap"): ended([Answer(tools=[("Glob", {"pattern": "*"})]), "Done."], "--max-turns", "1"),
    (0, "one of two members failed, without --strict"): with_members(Status(400, "no"), "Here I am."),
    (5, "all members failed, without --strict"): with_members(Status(400, "no")),
    (5, "a member cut off: its service is unpaid"): with_members(Status(402, "no")),
    (5, "one of two members failed, with --strict"): with_members(Status(400, "no"), "Here I am.", flags=("--strict",)),
    (5, "a refused call with --strict"): ended(REFUSED, "--strict"),
    (70, "a bug in Teamwright"): a_bug,
    (130, "SIGINT"): signalled(signal.SIGINT),
    (143, "SIGTERM"): signalled(signal.SIGTERM),
    (143, "SIGHUP"): signalled(signal.SIGHUP),
}


@pytest.mark.promise("K11", "H8")
@pytest.mark.parametrize(("code", "how"), ENDINGS, ids=lambda value: str(value))
@pytest.mark.slow_after(1)
def test_the_program_ends_with_the_code_of_the_page(tmp_path: Path, repo: Path, code: int, how: str):
    assert ENDINGS[code, how](Program(repo, tmp_path / "home")) == code


def test_every_code_of_the_page_is_tried_here():
    assert {code for code, _ in ENDINGS} == CODES


@pytest.mark.promise("K11")
@pytest.mark.slow
def test_a_shell_sees_the_code_through_a_pipe_with_pipefail(tmp_path: Path, repo: Path):
    program = Program(repo, tmp_path / "home", env={"ANTHROPIC_API_KEY": ""})
    line = f"set -o pipefail; {sys.executable} -m teamwright -p hi | cat"
    done = subprocess.run(["bash", "-c", line], cwd=repo, env=program.environment, capture_output=True, timeout=WAIT_S)
    assert done.returncode == 3
