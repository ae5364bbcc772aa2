"""Undo and rewind restore contents, modes and links that shell commands changed, and name what git's index keeps."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.ui.program import Program

pytestmark = pytest.mark.finding("3F7")

COMMAND = """
chmod 644 run.sh && git rm -q gone && rm tool && mkdir d && ln -s ../run.sh d/new && chmod 755 plain
ln -sfn gone turned && rm lost && rm real && ln -s run.sh real && rm was_link && echo text > was_link
"""
SCRIPT = """
[script]
name = "change"
[[agent.lead.turn]]
[[agent.lead.turn.call]]
tool = "Bash"
input = {{ command = {command!r} }}
[[agent."*".otherwise]]
say = "END"
"""


def state(repo) -> dict[str, tuple[str, str]]:
    """Kind and content of each file outside .git."""
    found = {}
    for top, directories, files in os.walk(repo):
        directories[:] = [one for one in directories if one != ".git"]
        for name in files:
            path = os.path.join(top, name)
            if os.path.islink(path):
                found[os.path.relpath(path, repo)] = ("link", os.readlink(path))
            else:
                kind = "program" if os.access(path, os.X_OK) else "file"
                found[os.path.relpath(path, repo)] = (kind, Path(path).read_text())
    return found


@pytest.mark.parametrize("back", [("undo", "--yes"), ("rewind", "--to", "1", "--yes")])
def test_modes_and_links_come_back_and_the_index_is_named(tmp_path, repo, back):
    for name, mode in (("run.sh", 0o755), ("tool", 0o755), ("gone", 0o644), ("plain", 0o644), ("real", 0o644)):
        (repo / name).write_text(name)
        (repo / name).chmod(mode)
    for name in ("turned", "lost", "was_link"):
        (repo / name).symlink_to("run.sh")
    git = ("git", "-c", "user.name=n", "-c", "user.email=a@b.c")
    subprocess.run([*git, "add", "-A"], cwd=repo, check=True)
    subprocess.run([*git, "commit", "-qm", "i"], cwd=repo, check=True)
    before = state(repo)
    (tmp_path / "script.toml").write_text(SCRIPT.format(command=" ; ".join(COMMAND.strip().splitlines())))
    program = Program(repo, tmp_path / "home")
    model = ("--model", f"scripted:{tmp_path / 'script.toml'}")
    done = program.run("-p", "go", *model, "--dangerously-skip-permissions", "--sandbox", "off")
    assert done.returncode == 0, done.stderr
    assert state(repo) != before
    undone = program.run(*back)
    assert undone.returncode == 0, undone.stderr
    assert state(repo) == before
    assert (
        "git's index still has the changes of 1 of them: git restore --staged -- gone" in undone.stdout + undone.stderr
    )


def test_a_file_that_only_looks_like_a_link_in_the_history_comes_back_as_a_file(tmp_path, repo):
    (repo / "odd").write_bytes(b"\0link\0/etc/passwd")
    git = ("git", "-c", "user.name=n", "-c", "user.email=a@b.c")
    subprocess.run([*git, "add", "-A"], cwd=repo, check=True)
    subprocess.run([*git, "commit", "-qm", "i"], cwd=repo, check=True)
    (tmp_path / "script.toml").write_text(SCRIPT.format(command="rm odd"))
    program = Program(repo, tmp_path / "home")
    model = ("--model", f"scripted:{tmp_path / 'script.toml'}")
    program.run("-p", "go", *model, "--dangerously-skip-permissions", "--sandbox", "off")
    assert not (repo / "odd").exists()
    assert program.run("undo", "--yes").returncode == 0
    assert not (repo / "odd").is_symlink()
    assert (repo / "odd").read_bytes() == b"\0link\0/etc/passwd"
