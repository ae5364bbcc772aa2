"""Our own reading of git runs nothing that a repository configures."""

import os
import subprocess

import pytest

from teamwright.storage.git import git, git_env
from teamwright.storage.gitdir import running_entries


@pytest.fixture
def hostile(tmp_path):
    """A repository in which everything that can name a program names one that leaves a mark."""
    root = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    git_here = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    (root / "a.txt").write_text("one\n")
    subprocess.run([*git_here, "add", "a.txt"], check=True)
    subprocess.run([*git_here, "commit", "-q", "-m", "first"], check=True)
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    names = ("core.fsmonitor", "diff.external", "core.pager", "diff.x.textconv", "diff.x.command", "filter.x.clean")
    for name in (*names, "gpg.program", "core.sshCommand", "core.editor"):
        subprocess.run([*git_here, "config", name, str(program)], check=True)
    subprocess.run([*git_here, "config", "log.showSignature", "true"], check=True)
    (root / ".gitattributes").write_text("* diff=x filter=x\n")
    (root / "a.txt").write_text("two\n")
    hook = root / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(program.read_text())
    hook.chmod(0o755)
    return root


READING = [
    ("status", "--porcelain"),
    ("diff",),
    ("log", "-p"),
    ("show", "HEAD"),
    ("blame", "a.txt"),
    ("grep", "one"),
    ("ls-files", "-m"),
    ("rev-parse", "--show-toplevel"),
]


@pytest.mark.promise("K1", "P7")
@pytest.mark.parametrize("args", READING, ids=" ".join)
async def test_our_own_reading_runs_nothing_of_the_repository(hostile, args):
    result = await git(hostile, *args)
    assert result.ok or args[0] == "grep", result.errors
    assert not (hostile.parent / "ran").exists()


def test_the_same_reading_without_our_arguments_would_run_it(hostile):
    subprocess.run(["git", "-C", str(hostile), "status"], capture_output=True, check=False)
    assert (hostile.parent / "ran").exists()


async def test_a_directory_outside_git_or_a_missing_git_is_a_result(tmp_path, monkeypatch):
    assert not (await git(tmp_path, "rev-parse")).ok
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (await git(tmp_path, "status")).exit_code == 127


def test_no_variable_of_the_caller_steers_our_git():
    env = git_env({"PATH": "/bin", "GIT_DIR": "/evil", "GIT_SSH_COMMAND": "x", "GIT_CONFIG_COUNT": "1"})
    assert {name for name in env if name.startswith("GIT_")} == {
        "GIT_OPTIONAL_LOCKS",
        "GIT_TERMINAL_PROMPT",
        "GIT_PAGER",
        "GIT_CONFIG_NOSYSTEM",
    }
    assert env["GIT_OPTIONAL_LOCKS"] == "0"


def test_a_plain_repository_names_nothing_that_runs(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", "https://example.org/x"], check=True)
    assert running_entries(tmp_path) == []


@pytest.mark.promise("P7")
def test_what_could_run_is_named(hostile):
    names = {name for _, name in running_entries(hostile)}
    assert {"core.fsmonitor", "diff.external", "diff.x.textconv", "filter.x.clean", "hook post-index-change"} <= names


@pytest.mark.promise("P7")
@pytest.mark.parametrize(
    "config",
    [
        "[include]\n\tpath = /evil",
        '[includeIf "gitdir:/"]\n\tpath = /evil',
        "[core] fsmonitor = ./evil",
        "[CORE]\n\tFSMONITOR=./evil",
        "[core]\n\tworktree = /",
        '[remote "x"]\n\tpromisor = true',
        "[core]\n\tfsmonitor = \\\n\t./evil",
        "garbage",
        "[core",
    ],
)
def test_a_configuration_that_may_run_something_is_seen_however_it_is_written(tmp_path, config):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with open(tmp_path / ".git" / "config", "a") as file:
        file.write(config + "\n")
    assert running_entries(tmp_path)
    os.unlink(tmp_path / ".git" / "config")
    assert running_entries(tmp_path) == []
