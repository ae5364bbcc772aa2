"""The examples run as they are, each in a process and a directory of its own, without key and network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waits import WAIT_S

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(name: str, cwd: Path, *, said: str = "", script: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    if script:
        env["TEAMWRIGHT_MODEL"] = f"scripted:{EXAMPLES / 'scripts' / name}.toml"
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    return subprocess.run(
        command, cwd=cwd, input=said, capture_output=True, text=True, timeout=WAIT_S, env={**os.environ, **env}
    )


@pytest.mark.slow
@pytest.mark.promise("J1")
def test_the_ten_lines_work_off_two_tasks_in_order(tmp_path):
    for again in range(2):  # the name is free again, and nothing of the first run is in the way
        done = run("release_team", tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), again
        lines = done.stdout.splitlines()
        moves = [line for line in lines if line.startswith("#") and line.split()[1] != "pending"]
        assert moves == [
            "#1 in_progress scout",
            "#1 completed scout",
            "#2 in_progress writer",
            "#2 completed writer",
        ]
        assert "Both tasks are done" in lines[-2] and "0.0000 USD" in lines[-1]
        assert (tmp_path / "FLAGS.md").read_text().startswith("- `--verbose`")
        (tmp_path / "FLAGS.md").unlink()


@pytest.mark.slow
@pytest.mark.promise("J1", "K14")
def test_the_ci_script_prints_the_answer_alone_and_has_the_exit_codes(tmp_path):
    (tmp_path / "README.md").write_text("x")
    done = run("ci_check", tmp_path)
    assert (done.returncode, done.stdout) == (0, "README.md names all 1 files.\n")
    assert done.stderr.startswith("done: 0 tokens in")
    refusing = tmp_path / "refusing.toml"
    refusing.write_text(
        '[[agent.lead.turn]]\n[[agent.lead.turn.call]]\ntool = "Bash"\ninput = { command = "touch x" }\n'
        '[[agent.lead.otherwise]]\nsay = "refused"\n'
    )
    done = run("ci_check", tmp_path, script=False, TEAMWRIGHT_MODEL=f"scripted:{refusing}")
    assert (done.returncode, done.stdout) == (5, "refused\n")
    assert "refused: Bash of team-lead" in done.stderr and not (tmp_path / "x").exists()
    done = run("ci_check", tmp_path, script=False, TEAMWRIGHT_MODEL="sonnet")
    assert done.returncode == 3 and done.stdout == "" and "[no-model]" in done.stderr


@pytest.mark.slow
@pytest.mark.promise("J1")
def test_the_functions_of_the_tool_example_are_called_and_may_raise(tmp_path):
    done = run("custom_tool", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "{'number': 1, 'title': 'The nightly backup failed', 'severity': 'high'}",
        "Ticket 1 is open; a second one was not needed.",
    ]


@pytest.mark.slow_after(1)
@pytest.mark.promise("J1", "K5")
@pytest.mark.parametrize(("said", "written"), [("y\n", True), ("a\n", True), ("no\n", False)])
def test_the_surface_asks_at_the_keyboard_and_shows_what_happens(tmp_path, said, written):
    done = run("custom_surface", tmp_path, said=said)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "ANSWER.txt").exists() is written
    assert "? team-lead wants Write" in done.stdout and "ANSWER.txt" in done.stdout
    assert ("(done)" if written else "(denied)") in done.stdout
    assert "events, done, 0 tokens in" in done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.promise("J1", "G4", "F44")
def test_the_answering_program_changes_a_call_grants_a_mode_and_refuses_the_rest(tmp_path):
    (tmp_path / "deploy.sh").write_text('echo "deployed to $1"\n')
    done = run("answering", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "team-lead Bash: changed to staging",
        "team-lead Write: allowed, with all further edits",
        "team-lead Bash: denied",
        "Deployed to staging; two files say so, and deploy.sh is still there.",
        "denied: ['Bash']",
    ]
    assert (tmp_path / "DEPLOYED.txt").read_text() == "staging\n" and (tmp_path / "LOG.txt").exists()
    assert (tmp_path / "deploy.sh").exists()


@pytest.mark.slow
@pytest.mark.promise("J1")
def test_the_example_of_a_test_passes(tmp_path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, "-c", os.devnull, str(EXAMPLES / "test_review_team.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


MANUAL = (ROOT / "docs" / "reference" / "python.md").read_text()


def test_every_example_is_run_here_and_is_in_the_manual():
    here = Path(__file__).read_text() + Path(__file__).with_name("test_service_example.py").read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f"examples/{example.name}" in MANUAL
        assert f'"{example.stem}"' in here or f'"{example.name}"' in here or f'"{example.stem}:app"' in here
    assert {p.stem for p in EXAMPLES.glob("scripts/*.toml")} < {p.stem for p in EXAMPLES.glob("*.py")}


def test_the_programs_in_the_manual_are_python():
    blocks = re.findall(r"```python\n(.*?)```", MANUAL, re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        compile(block, "docs/reference/python.md", "exec")


@pytest.mark.promise("J1")
@pytest.mark.slow
def test_the_first_program_of_the_manual_runs(tmp_path):
    block = re.findall(r"```python\n(.*?)```", MANUAL, re.DOTALL)[0]
    script = EXAMPLES / "scripts" / "release_team.toml"
    program = tmp_path / "program.py"
    program.write_text(block.replace('"sonnet"', f'"scripted:{script}"'))
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tokens in" in done.stdout
