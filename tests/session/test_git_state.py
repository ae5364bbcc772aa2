"""The state of the repository in the first line of a transcript: the commit, and whether tracked files differ."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from teamwright import Team
from teamwright.git import git_calls
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S


def call_git(root: Path, *args: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *author, *args], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def head(root, monkeypatch) -> str:
    """The commit of a repository in `root`, which git may take its time to read."""
    monkeypatch.setattr(git_calls, "STATE_TIMEOUT_S", WAIT_S)
    call_git(root, "init", "-q")
    (root / "a.txt").write_text("one\n")
    call_git(root, "add", "a.txt")
    call_git(root, "commit", "-qm", "one")
    return call_git(root, "rev-parse", "HEAD")


async def headers(root: Path) -> dict[str, dict[str, Any]]:
    """Start a lead and a teammate in this directory; return the first lines of their transcripts."""
    async with Team("crew", model=ScriptedModel({"*": ["done"]}), cwd=root, replace=True) as team:
        await team.spawn("ada", "say it")
        agents = [team.session.lead.agent, team.session.team.find_in_process("ada").agent]
        return {one.name: json.loads(one.conversation.path.read_bytes().split(b"\n")[0]) for one in agents}


async def test_the_transcripts_of_lead_and_teammate_name_the_commit_of_a_clean_tree(root, head):
    (root / "untracked.txt").write_text("new\n")
    found = await headers(root)
    assert {name: (one["git_head"], one["git_dirty"]) for name, one in found.items()} == {
        "team-lead": (head, False),
        "ada": (head, False),
    }


@pytest.mark.parametrize("staged", [False, True])
async def test_a_tree_with_a_changed_tracked_file_is_dirty(root, head, staged):
    (root / "a.txt").write_text("two\n")
    if staged:
        call_git(root, "add", "a.txt")
    found = await headers(root)
    assert [(one["git_head"], one["git_dirty"]) for one in found.values()] == [(head, True)] * 2


async def test_outside_a_repository_and_before_its_first_commit_there_is_no_state(root, monkeypatch):
    monkeypatch.setattr(git_calls, "STATE_TIMEOUT_S", WAIT_S)
    outside = await headers(root)
    call_git(root, "init", "-q")
    empty = await headers(root)
    assert not [key for one in (*outside.values(), *empty.values()) for key in one if key.startswith("git")]


async def test_a_slow_git_holds_no_start_up(root, head, tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\nexec sleep 1000\n")
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(git_calls, "STATE_TIMEOUT_S", 0.15)
    found = await headers(root)
    assert not [key for one in found.values() for key in one if key.startswith("git")]
