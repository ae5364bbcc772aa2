"""`teamwright worktrees` and `teamwright integrate` on real git."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from teamwright.protocol.errors import UsageError
from teamwright.storage.file_lease import Lease
from teamwright.storage.paths import find_home
from teamwright.ui.cli.root import root
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, create_worktree
from teamwright.worktrees.worktree_record import repository_directory
from tests.support.programs import needs
from tests.support.repositories import commit, git, make_repository, write_files


@pytest.fixture
def shop(tmp_path, monkeypatch):
    place = make_repository(tmp_path / "shop")
    monkeypatch.chdir(place)
    return place


def make_work(shop, *names: str):
    repository = RepositoryGit.open(shop)
    made = {name: create_worktree(repository, find_home().worktrees, Owner("demo", name, "s")).record for name in names}
    for name, record in made.items():
        commit(record.tree, f"work of {name}", {f"{name}.txt": "x\n"})
    return made


def give(*args: str):
    return CliRunner().invoke(root, list(args), standalone_mode=False)


@pytest.mark.slow
def test_members_branches_are_integrated_and_their_worktrees_removed_from_the_command_line(shop):
    made = make_work(shop, "ann", "bob")
    assert "1 commit not merged" in give("worktrees").output
    done = give("integrate", "--check", "test -e a.txt", "--into", "main", "--json")
    assert done.exception is None, done.exception
    assert [entry["state"] for entry in json.loads(done.output)] == ["merged", "merged"]
    assert sorted(path.name for path in shop.glob("*.txt")) == ["a.txt", "ann.txt", "bob.txt"]
    for name in made:
        assert give("worktrees", "remove", name).exception is None
    assert json.loads(give("worktrees", "--json").output) == []
    branches = git(shop, "branch", "--format=%(refname:short)").split()
    assert [name for name in branches if name.endswith(("ann", "bob"))] == []


@needs("bwrap")
@pytest.mark.slow
def test_setup_and_check_run_in_the_sandbox_without_the_credentials_of_the_person(shop, monkeypatch):
    outside = Path(f"/var/lib/teamwright-test-{os.getpid()}")
    monkeypatch.setenv("TEAMWRIGHT_SANDBOX", "auto")
    monkeypatch.setenv("NPM_TOKEN", "SECRET-7f3a")
    make_work(shop, "ann")
    check = "test -e ann.txt && ! env | grep SECRET-7f3a && echo x > made.txt"
    done = give("integrate", "demo", "--check", f"sh -c '{check}'", "--json")
    assert done.exception is None, done.exception
    assert [entry["state"] for entry in json.loads(done.stdout)] == ["merged"], done.output
    make_work(shop, "bob")
    entries = json.loads(give("integrate", "demo", "--check", f"touch {outside}", "--json").stdout)
    assert "The sandbox (policy work) refused to write" in entries[-1]["detail"] and not outside.exists()


def test_the_queue_of_a_running_team_is_listed_and_left_alone(shop):
    make_work(shop, "ann")
    tree = repository_directory(find_home().worktrees, shop / ".git") / ".integration-demo.lease"
    lease = Lease.take(tree, "a session")
    done = give("integrate", "demo")
    assert "works its queue" in done.stderr
    assert git(shop, "branch", "--list", "teamwright/demo/integration") == ""
    lease.release()
    assert give("integrate", "demo").exception is None
    assert git(shop, "show", "teamwright/demo/integration:ann.txt") == "x"
    assert ".integration" not in git(shop, "worktree", "list")


@pytest.mark.slow
def test_the_check_of_the_team_file_counts_once_the_file_is_trusted(shop):
    write_files(shop, {".teamwright/team.toml": "[checks]\nintegration = 'exit 3'\n"})
    make_work(shop, "ann")
    assert give("integrate", "--json").exception is None
    make_work(shop, "bob")
    assert give("trust", "--yes").exception is None
    assert [entry["state"] for entry in json.loads(give("integrate", "--json").output)] == ["failed"]


def test_a_pull_request_is_opened_for_the_pushed_integration_branch(shop, tmp_path, monkeypatch):
    make_work(shop, "ann")
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    git(shop, "remote", "add", "origin", str(tmp_path / "origin.git"))
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "gh").write_text(f"#!/bin/sh\nprintf '%s|' \"$@\" > {tmp_path}/gh.log\necho https://example.org/pull/1\n")
    (tools / "gh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    done = give("integrate", "demo", "--pull-request")
    assert done.exception is None, done.exception
    assert "https://example.org/pull/1" in done.output
    asked = (tmp_path / "gh.log").read_text()
    assert asked.startswith("pr|create|--head|teamwright/demo/integration|--base|main|")
    assert "ann" in asked
    assert git(tmp_path / "origin.git", "show", "teamwright/demo/integration:ann.txt") == "x"


def test_the_three_ends_exclude_each_other(shop):
    make_work(shop, "ann")
    assert isinstance(give("integrate", "--keep", "--pull-request").exception, UsageError)
    assert git(shop, "branch", "--list", "teamwright/demo/integration") == ""
