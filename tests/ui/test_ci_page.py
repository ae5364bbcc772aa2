"""docs/ci.md: what the page tells people to paste is run here, as it stands there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.replies import Answer, Status
from tests.ui.program import KEY, Program

PAGE = Path(__file__).parents[2] / "docs" / "ci.md"


def blocks(language: str) -> list[str]:
    """The code blocks of the page in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def job(tmp_path, repo):
    """A machine of the CI: our program on the PATH, a `pip` that writes down what it is asked, a wheel to install."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, script in {
        "teamwright": f'exec {sys.executable} -m teamwright "$@"',
        "pip": f'echo "$@" > {tmp_path}/pip',
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    (repo / "teamwright-0.1.0-py3-none-any.whl").touch()
    summary = tmp_path / "summary.md"
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "CI": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    return Program(repo, tmp_path / "home", env=env)


def run_step(job: Program, step: dict) -> subprocess.CompletedProcess[str]:
    """One step as the CI runs it: `bash -e`, secrets put in, its own variables."""
    own = {name: re.sub(r"\$\{\{ secrets\.\w+ \}\}", KEY, value) for name, value in step.get("env", {}).items()}
    kept = {name: value for name, value in job.environment.items() if name != "ANTHROPIC_API_KEY"}
    return subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=job.cwd,
        env=kept | own,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )


def run_job(job: Program, steps: list[dict]) -> list[tuple[str, subprocess.CompletedProcess[str]]]:
    """The steps in order; after one that failed only those that always run."""
    made: list[tuple[str, subprocess.CompletedProcess[str]]] = []
    for step in steps:
        failed = any(done.returncode for _, done in made)
        if "run" in step and (not failed or step.get("if") == "always()"):
            made.append((step["run"], run_step(job, step)))
    return made


@pytest.mark.promise("K14")
def test_the_steps_of_the_page_run_as_they_stand(tmp_path, job):
    [text] = blocks("yaml")
    turns = [Answer(tools=[("Bash", {"command": "cat README.md"})]), Answer("They match [c1].")]
    with LoopbackModel.in_thread(turns) as server:
        job.url = server.url
        made = run_job(job, yaml.safe_load(text))
    assert [done.returncode for _, done in made] == [0, 0, 0], [done.stderr for _, done in made]
    assert (tmp_path / "pip").read_text() == "install ./teamwright-0.1.0-py3-none-any.whl\n"
    assert made[1][1].stdout == "They match [c1].\n"
    summary = (tmp_path / "summary.md").read_text()
    assert "They match [c1]." in summary
    assert "### c1" in summary
    assert server.requests[0].headers["x-api-key"] == KEY


@pytest.mark.promise("K14")
def test_a_job_that_fails_is_red_and_its_report_is_shown(tmp_path, job):
    [text] = blocks("yaml")
    with LoopbackModel.in_thread([Answer("Looking.", tools=[("Glob", {"pattern": "*"})]), Status(400, "no")]) as server:
        job.url = server.url
        made = run_job(job, yaml.safe_load(text))
    assert [done.returncode for _, done in made] == [0, 1, 0], [done.stderr for _, done in made]
    assert "refused the request" in (tmp_path / "summary.md").read_text()


@pytest.mark.promise("K14")
@pytest.mark.parametrize(
    ("command", "code"),
    [("make docs", 0), ("make docs && git push", 5), ("make install", 5)],
)
def test_the_first_command_of_the_page_allows_what_it_says_and_no_more(job, command, code):
    (job.cwd / "Makefile").write_text("docs install:\n\t@echo made $@ | tee made\n")
    with LoopbackModel.in_thread([Answer(tools=[("Bash", {"command": command})]), "Done."]) as server:
        job.url = server.url
        done = run_step(job, {"run": blocks("sh")[0], "env": {"ANTHROPIC_API_KEY": KEY}})
    assert (done.returncode, done.stdout) == (code, "Done.\n"), done.stderr
    assert (job.cwd / "made").exists() == (code == 0)
    assert (job.cwd / "report.md").exists()
    assert "no cap is set" not in done.stderr


def test_the_fields_that_the_page_names_are_in_the_result(job):
    with LoopbackModel.in_thread() as server:
        job.url = server.url
        done = job.run("-p", "hi", "--output-format", "json")
    result = json.loads(done.stdout)
    table = PAGE.read_text().partition("| in the JSON result |")[2].partition("\n\n")[0]
    named = re.findall(r"`([\w.]+)`", table)
    assert {"result", "permission_denials", "team.limit"} <= set(named)
    for name in named:
        value = result
        for part in name.split("."):
            assert part in value, name
            value = value[part]
