"""The creation of worktrees, on real git."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from teamwright.git.repository_risks import git_entries
from teamwright.protocol.errors import CannotStart, WorktreeRefused
from teamwright.session.wiring.worktree_factory import remote_record
from teamwright.worktrees.commit_bundle import BEGIN
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, create_worktree, restore_worktree, uncommitted_files
from teamwright.worktrees.worktree_record import (
    find_record,
    integration_branch,
    list_records,
    member_branch,
    read_record,
)
from teamwright.worktrees.worktree_removal import remove_worktree
from teamwright.worktrees.worktree_state import read_state
from tests.support.repositories import commit, git, make_repository, write_files

ANN = Owner("demo", "ann", "session-1")


def test_a_worktree_is_outside_the_repository_at_the_commit_of_the_checkout_on_a_new_branch(checkout, repository, root):
    head = git(checkout, "rev-parse", "HEAD")
    made = create_worktree(repository, root, ANN).record
    assert made.tree.is_relative_to(root)
    assert git(made.tree, "rev-parse", "HEAD") == head == made.base
    assert git(made.tree, "branch", "--show-current") == made.branch == "teamwright/demo/ann"
    assert made.base_name == "main"
    assert (made.tree / "a.txt").read_text() == "one\n"
    assert "locked teamwright: demo/ann" in git(checkout, "worktree", "list", "--porcelain")
    assert read_record(made.file) == made


def test_a_second_worktree_of_one_name_gets_another_branch_and_the_first_is_untouched(repository, root):
    first, second = (create_worktree(repository, root, ANN).record for _ in range(2))
    assert (first.branch, second.branch) == ("teamwright/demo/ann", "teamwright/demo/ann-2")
    assert first.tree != second.tree
    assert first.port != second.port


def test_a_member_named_integration_does_not_get_the_integration_branch(repository, root):
    made = create_worktree(repository, root, Owner("demo", "integration", "s")).record
    assert made.branch == "teamwright/demo/member-integration" != made.integration_branch


def test_uncommitted_files_are_not_in_a_worktree_and_are_listed(checkout, repository, root):
    write_files(checkout, {"a.txt": "changed\n", "new.txt": "new\n", "x.local": "ignored\n"})
    made = create_worktree(repository, root, ANN).record
    assert (made.tree / "a.txt").read_text() == "one\n"
    assert not (made.tree / "new.txt").exists()
    assert uncommitted_files(repository) == ["a.txt", "new.txt"]


def test_ignored_files_that_worktreeinclude_names_are_copied_and_no_others(tmp_path, checkout, repository, root):
    outside = tmp_path / "outside"
    write_files(tmp_path, {"outside": "secret"})
    write_files(
        checkout,
        {".worktreeinclude": "*.local\n!no.local\nplain.txt\n", "a.local": "1", "sub/b.local": "2", "no.local": "3"}
        | {"build/x.o": "4", "plain.txt": "not ignored"},
    )
    (checkout / "link.local").symlink_to(outside)
    made = create_worktree(repository, root, ANN)
    tree = made.record.tree
    assert sorted(str(p.relative_to(tree)) for p in tree.rglob("*.local")) == ["a.local", "sub/b.local"]
    assert not (tree / "plain.txt").exists()
    assert not (tree / "build").exists()
    assert made.notes == ("link.local is a link that leads out of the repository, and was not copied",)
    assert remove_worktree(repository, root, made.record).kept_branch == ""


def test_a_repository_without_a_commit_is_refused_and_nothing_remains(tmp_path, root):
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    with pytest.raises(WorktreeRefused, match="none yet"):
        create_worktree(RepositoryGit.open(tmp_path / "empty"), root, ANN)
    assert not list(root.glob("*/*"))
    with pytest.raises(CannotStart, match="in none"):
        RepositoryGit.open(tmp_path)


def test_a_failed_creation_leaves_no_branch_directory_or_record(checkout, repository, root):
    git(checkout, "branch", "teamwright")  # a branch in the place of a directory of branches
    with pytest.raises(WorktreeRefused, match="teamwright/demo/ann cannot be created"):
        create_worktree(repository, root, ANN)
    assert git(checkout, "branch", "--format=%(refname:short)") == "main\nteamwright"
    assert not [path for path in root.rglob("*") if path.is_file()]
    assert "worktrees" not in git(checkout, "worktree", "list")


def test_a_repository_whose_configuration_runs_a_program_is_refused_before_trust(checkout, root, tmp_path):
    marker = tmp_path / "ran"
    git(checkout, "config", "filter.x.smudge", f"touch {marker}; cat")
    commit(checkout, "attributes", {".gitattributes": "*.txt filter=x\n"})
    marker.unlink(missing_ok=True)
    with pytest.raises(CannotStart) as caught:
        create_worktree(RepositoryGit.open(checkout), root, ANN)
    assert caught.value.slug == "untrusted"
    assert not marker.exists()


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_filter_runs_the_script_that_was_trusted_and_not_that_of_the_commit(checkout, root, tmp_path, is_changed):
    marker, plain = tmp_path / "ran", "tr a-z A-Z\n"
    committed = f"touch {marker}; cat\n" if is_changed else plain
    commit(checkout, "filter", {".gitattributes": "*.y filter=x\n", "tools/smudge.sh": committed, "z.y": "text\n"})
    git(checkout, "config", "filter.x.smudge", "sh tools/smudge.sh")
    git(checkout, "config", "filter.x.clean", "tr A-Z a-z")
    (checkout / "tools" / "smudge.sh").write_text(plain)
    repository = RepositoryGit.open(checkout, frozenset(git_entries(checkout)))
    if is_changed:
        with pytest.raises(CannotStart) as caught:
            create_worktree(repository, root, ANN)
        assert caught.value.slug == "untrusted" and list_records(root) == ([], [])
    else:
        made = create_worktree(repository, root, ANN).record
        assert (made.tree / "z.y").read_text() == "TEXT\n" and read_state(repository, made).modified == ()
    assert not marker.exists()


@pytest.mark.promise("P5")
@pytest.mark.slow
def test_16_worktrees_at_once_have_no_failure(checkout, repository, root):
    def work(number: int) -> None:
        made = create_worktree(repository, root, Owner("demo", f"m{number}", "s")).record
        tip = commit(made.tree, f"work {number}", {f"file-{number}.txt": "x\n"})
        state = read_state(repository, made)
        assert (state.commits, state.head, state.modified) == (1, tip, ())
        with pytest.raises(WorktreeRefused, match="1 commit not merged"):
            remove_worktree(repository, root, made)
        other = create_worktree(repository, root, Owner("demo", f"m{number}", "s")).record
        assert remove_worktree(repository, root, other).kept_branch == ""

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    records, damaged = list_records(root)
    assert len(records) == 16
    assert not damaged
    assert len({record.port for record in records}) == 16
    assert git(checkout, "fsck", "--no-progress") == ""
    assert len(git(checkout, "branch", "--list", "teamwright/*").splitlines()) == 16


def test_a_deleted_worktree_is_created_again_on_its_branch_with_its_commits(checkout, repository, root):
    made = create_worktree(repository, root, ANN).record
    tip = commit(made.tree, "work", {"b.txt": "b\n"})
    subprocess.run(["rm", "-rf", str(made.tree)], check=True)
    assert read_state(repository, made).state == "missing"
    restore_worktree(repository, made)
    assert git(made.tree, "rev-parse", "HEAD") == tip
    assert (made.tree / "b.txt").exists()


def test_a_member_on_another_machine_has_the_branch_of_a_member_also_with_the_name_of_the_queue(checkout):
    git(checkout, "update-ref", BEGIN, "HEAD")
    for member in ("ann", "integration", "Ann B."):
        record = remote_record(checkout, "crew", "crew", member, "0f9c6a5e-0000-4000-8000-000000000000")
        assert record is not None and record.branch == member_branch("crew", member) != integration_branch("crew")


def test_a_worktree_is_found_by_member_branch_path_and_directory(repository, root, tmp_path):
    made = create_worktree(repository, root, ANN).record
    other = create_worktree(RepositoryGit.open(make_repository(tmp_path / "b")), root, ANN).record
    records, _ = list_records(root)
    assert find_record(records, made.path) == made
    assert find_record([made], "ann") == find_record([made], "demo/ann") == find_record([made], made.branch) == made
    with pytest.raises(Exception, match="2 worktrees have the name"):
        find_record([made, other], "ann")
    with pytest.raises(Exception, match="no worktree"):
        find_record(records, "nobody")
