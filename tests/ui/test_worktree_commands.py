"""`teamwright worktrees` and `teamwright integrate` on real git."""

import json

import pytest
from click.testing import CliRunner

from teamwright.storage.paths import find_home
from teamwright.ui.cli.root import root
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, create_worktree
from tests.support.repositories import commit, git, make_repository


@pytest.fixture
def shop(tmp_path, monkeypatch):
    place = make_repository(tmp_path / "shop")
    monkeypatch.chdir(place)
    return place


def give(*args: str):
    return CliRunner().invoke(root, list(args), standalone_mode=False)


def test_members_branches_are_integrated_and_their_worktrees_removed_from_the_command_line(shop):
    made = {}
    for name in ("ann", "bob"):
        made[name] = create_worktree(RepositoryGit.open(shop), find_home().worktrees, Owner("demo", name, "s")).record
        commit(made[name].tree, f"work of {name}", {f"{name}.txt": "x\n"})
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
