"""The installed program in odd surroundings: variables that name the project, a git hook, an installation of a user."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waits import WAIT_S
from tests.ui.conftest import GIT

ROOT = Path(__file__).parents[2]
MEMBER = """
[[agent."ada".otherwise]]
say = "member here"

[[agent."*".otherwise]]
say = "Done."
"""


def call(tool: str, **given: str) -> str:
    return f'[[agent."lead".turn]]\n[[agent."lead".turn.call]]\ntool = "{tool}"\ninput = {toml(given)}\n'


def toml(given: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in given.items()) + " }"


def script(path: Path, *calls: str) -> str:
    path.write_text("\n".join(['[script]\nname = "x"\npace_ms = 0\n', *calls, MEMBER]))
    return f"scripted:{path}"


def start(*args: str, cwd: Path, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it as a person does, with Python's own start."""
    env = {**os.environ, "TEAMWRIGHT_HOME": str(home), **variables}
    command = [sys.executable, "-P", "-m", "teamwright", "-p", *args, "go"]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=WAIT_S, check=False)


@pytest.mark.finding("3P2")
@pytest.mark.slow
def test_a_module_that_an_edit_put_on_the_module_path_runs_neither_in_grep_nor_in_a_member_process(tmp_path, repo):
    (repo / "src").mkdir()
    marks = tmp_path / "marks"
    code = f"import sys\nopen({str(marks)!r}, 'a').write(' '.join(sys.argv) + chr(10))\n"
    written = [
        call("Write", file_path=str(repo / "src" / f"{name}.py"), content=code)
        for name in ("sitecustomize", "usercustomize")
    ]
    calls = [*written, call("Grep", pattern="hello"), call("Grep", pattern="(?=hello)")]
    member = call("Agent", name="ada", description="w", prompt="say hello", model="inherit")
    model = script(tmp_path / "script.toml", *calls, member.replace(', model = "inherit"', ""))
    flags = ("--model", model, "--permission-mode", "bypassPermissions", "--backend", "detached", "--verbose")
    done = start(*flags, cwd=repo, home=tmp_path / "home", PYTHONPATH="src")
    assert done.returncode == 0, done.stderr
    assert (repo / "src" / "sitecustomize.py").exists() and "ada" in done.stderr
    assert not marks.exists(), marks.read_text()


@pytest.mark.finding("3W2")
def test_an_agent_that_a_git_hook_starts_commits_to_its_own_branch(tmp_path, repo):
    """A hook of git has `GIT_DIR`, `GIT_INDEX_FILE` and the author of the commit in its environment."""
    linked, said = tmp_path / "linked", tmp_path / "said"
    subprocess.run(["git", "worktree", "add", "-q", "-b", "feature", str(linked)], cwd=repo, check=True)
    names = "GIT_(DIR|INDEX_FILE|PREFIX|AUTHOR_.*|WORK_TREE|CONFIG_COUNT)"
    line = f"env | grep -E '^{names}=' > seen.txt; git rev-parse --show-toplevel --git-dir >> seen.txt"
    model = script(tmp_path / "script.toml", call("Bash", command=line))
    flags = f"-p --model '{model}' --permission-mode bypassPermissions --worktree own go"
    hook = repo / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    started = f"exec {sys.executable} -m teamwright {flags} </dev/null >{said} 2>&1"
    hook.write_text(f'#!/bin/sh\ntest -n "$GIT_INDEX_FILE" || exit 9\nunset PYTHONPATH\n{started}\n')
    hook.chmod(0o755)
    (linked / "b.txt").write_text("b\n")
    env = {**os.environ, "TEAMWRIGHT_HOME": str(tmp_path / "home")}
    subprocess.run(["git", "add", "b.txt"], cwd=linked, check=True)
    subprocess.run([*GIT, "commit", "-q", "-m", "by the person"], cwd=linked, env=env, check=True, timeout=WAIT_S)
    found = list((tmp_path / "home" / "worktrees").glob("*/*/seen.txt"))
    assert found, said.read_text()
    top, git_dir = found[0].read_text().splitlines()
    assert top == str(found[0].parent) and "linked" not in git_dir, "the agent's own worktree, not the person's"


@pytest.mark.finding("3P2")
@pytest.mark.slow
def test_a_member_process_of_an_installation_of_a_user_starts(tmp_path, repo):
    """`pip install --user`: Python finds the package in the home only, so that `-I` would not find it."""
    home = tmp_path / "home"
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = home / ".local" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    for directory in {Path(one) for one in sys.path if one.endswith("site-packages")}:
        for entry in directory.iterdir():
            if not entry.name.startswith(("__editable__", "teamwright")) and not entry.name.endswith(".pth"):
                (site / entry.name).symlink_to(entry)
    (site / "teamwright").symlink_to(ROOT / "src" / "teamwright")
    model = script(tmp_path / "script.toml", call("Agent", name="ada", description="w", prompt="say hello"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {"HOME": str(home)}
    command = [str(base), "-m", "teamwright", "-p", "--model", model, "--backend", "detached", "--verbose", "go"]
    done = subprocess.run(command, cwd=repo, env=env, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0 and "ada" in done.stderr, done.stderr
    assert "member here" in done.stderr, done.stderr
