"""Fixed worlds of the fuzz of surroundings: real sessions in a clone whose programs leave marks.

`make fuzz ARGS=--surroundings` makes such worlds at random.
"""

import json
import random
import subprocess
import sys
from dataclasses import asdict

import pytest

from tests.permissions.fuzz.sandbox import ROOT
from tests.permissions.fuzz.surroundings import Case, pick_case
from tests.permissions.fuzz.surroundings_calls import CallMaker
from tests.permissions.fuzz.surroundings_run import missing_for_surroundings
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.skipif(
    missing_for_surroundings() != "", reason=missing_for_surroundings() or "everything is there"
)

HELPED = ("Bash(egrep -n one a.py)", "Bash(zcat numbers.gz)", "Bash(tar tf x.tar.gz)", "Bash(find . -exec zcat {} +)")
GIT = ("Bash(git status)", "Bash(git diff)", "Bash(git log -p -1)", "Bash(git show --textconv HEAD:a.py)")
CASES = {
    "programs": Case(("path {project}/.venv/bin:* grep gzip sh node less",), "plan", calls=(*HELPED, "Bash(npm -v)")),
    "a program of git settings": Case(("git filter.y.clean=mk_filter", "path {project}/bin:* mk_filter"), calls=GIT),
    "the PATH of the shell's startup": Case(
        ("path *:{project}/.venv/bin git",), calls=("Bash(env git diff --stat)", "Bash(git branch -a)")
    ),
    "modules": Case(
        ("variable PYTHONPATH={project}/src PERL5LIB={project}/perl", "variable NODE_OPTIONS=-r=./mark.js"),
        calls=("Bash(python3 --version)", "Bash(egrep one a.py)", "Bash(file a.py)", "Grep(one)"),
        acts=("status",),
    ),
    "libraries": Case(("variable LD_LIBRARY_PATH=:{project}/lib BASH_ENV=./mark.sh",), calls=("Bash(ls)", "Grep(one)")),
    "git settings": Case(("git core.fsmonitor=scripts/fsmonitor", "git core.hooksPath=.githooks"), calls=GIT[:2]),
    "filters": Case(("git filter.y.clean=./mark.sh", "git diff.y.textconv=./mark.sh"), calls=GIT, acts=("diff",)),
    "version files": Case(
        ("version .jenv/shims .java-version ../../../project/evil",),
        calls=("Bash(java -version)", "Bash(javac --version)"),
    ),
    "our programs": Case(
        ("path {project}/.venv/bin:* git rg bash python3 sh",),
        calls=("Grep(one)", "Glob(*.py)"),
        acts=("doctor", "diff"),
    ),
    "a changed script": Case(
        ("entry hook SessionStart cd tools && ./b.sh", "changed tools/b.sh"), trusted=True, calls=("Read(a.py)",)
    ),
    "a script that an agent changes": Case(
        ("entry hook PostToolUse cd tools && ./b.sh",),
        "acceptEdits",
        trusted=True,
        calls=("Write(tools/b.sh)", "Bash(cp mark.sh tools/b.sh)", "Read(a.py)"),
    ),
    "hard links": Case(
        ("link linked.py outside/cached", "link linked.txt project/.git/config"),
        "acceptEdits",
        calls=(
            "Bash(cp data.csv linked.py)",
            "Bash(cp data.csv linked.txt)",
            "Bash(touch linked.py)",
            "Write(linked.py)",
        ),
    ),
    "a trusted mark": Case(("entry hook SessionStart ./mark.sh",), trusted=True, calls=("Read(a.py)",)),
    "a trusted change": Case(("entry hook SessionStart touch ../outside/new",), trusted=True),
}


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """The steps of each case. One process plays all of them."""
    file = tmp_path_factory.mktemp("cases") / "cases.json"
    file.write_text(json.dumps([asdict(case) for case in CASES.values()]))
    words = [sys.executable, "-m", "tests.permissions.fuzz", "--surroundings", "--seed=1", f"--cases={file}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=10 * WAIT_S)
    lines = [json.loads(line) for line in done.stdout.splitlines()[1:]]
    assert len(lines) == len(CASES), done.stderr
    return dict(zip(CASES, lines, strict=True))


def left(steps):
    """What the steps of a case left: the marks, the changes and the different verdicts, with the step of each."""
    assert steps[-1]["what"] not in {"cut off", "failure"}, steps[-1]
    return [
        (step["what"], step["marks"][:1], step["changes"], step["check"])
        for step in steps
        if step["marks"] or step["changes"] or step["check"]
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("programs", marks=pytest.mark.finding("3P1")),
        pytest.param("a program of git settings", marks=pytest.mark.finding("3P1")),
        pytest.param("the PATH of the shell's startup", marks=pytest.mark.finding("3P1")),
        pytest.param("modules", marks=pytest.mark.finding("3P2")),
        pytest.param("libraries", marks=pytest.mark.finding("3P2")),
        pytest.param("git settings", marks=pytest.mark.finding("3P3")),
        pytest.param("filters", marks=pytest.mark.finding("3P3")),
        pytest.param("version files", marks=pytest.mark.finding("3P3")),
        pytest.param("our programs", marks=pytest.mark.finding("3P4")),
        pytest.param("a changed script", marks=pytest.mark.finding("3P5")),
        pytest.param("a script that an agent changes", marks=pytest.mark.finding("3P5")),
        pytest.param("hard links", marks=pytest.mark.finding("3P6")),
    ],
)
def test_no_call_that_runs_unasked_starts_a_program_of_the_project_or_changes_a_file_outside(steps, name):
    assert left(steps[name]) == []


def test_the_fuzz_sees_a_program_that_ran(steps):
    assert [what for what, marks, _, _ in left(steps["a trusted mark"]) if marks]


def test_the_fuzz_sees_a_file_that_changed(steps):
    assert any("outside/new" in changes for _, _, changes, _ in left(steps["a trusted change"]))


def test_calls_without_helpers_of_the_project_run(steps):
    outcomes = [step["outcome"] for step in steps["git settings"] if step["what"].startswith("Bash")]
    assert len(outcomes) == 2
    assert {step["outcome"] for step in steps["libraries"]} & {"ran"}


def test_a_seed_makes_the_same_cases_again():
    def made(seed):
        pick = random.Random(seed)
        case = pick_case(pick)
        return case, CallMaker(pick).calls(20, case.mode)

    assert [made(seed) for seed in range(20)] == [made(seed) for seed in range(20)]
