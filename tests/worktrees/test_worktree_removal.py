"""The removal of worktrees never loses work, on real git."""

import os
import subprocess
import time

import pytest
from msgspec.structs import replace

from teamwright.protocol.errors import WorktreeRefused
from teamwright.storage.file_lease import Lease
from teamwright.worktrees.worktree_creation import Owner, create_worktree, note_setup
from teamwright.worktrees.worktree_record import WorktreeRecord
from teamwright.worktrees.worktree_removal import remove_unneeded, remove_worktree
from teamwright.worktrees.worktree_state import read_state
from tests.support.repositories import commit, git, write_files

pytestmark = pytest.mark.promise("P5")


@pytest.fixture
def ann(repository, root) -> WorktreeRecord:
    return create_worktree(repository, root, Owner("demo", "ann", "session-1")).record


def test_an_unchanged_worktree_is_removed_with_its_branch(checkout, repository, root, ann):
    remove_worktree(repository, root, ann)
    assert not ann.tree.exists()
    assert not ann.file.exists()
    assert git(checkout, "branch", "--format=%(refname:short)") == "main"
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


def change_file(tree):
    (tree / "a.txt").write_text("changed\n")


def stage_file(tree):
    change_file(tree)
    git(tree, "add", "a.txt")


def add_untracked(tree):
    (tree / "new.txt").write_text("new\n")


def add_ignored(tree):
    (tree / "note.local").write_text("kept by git's own removal? no\n")


def add_ignored_directory(tree):
    write_files(tree, {"build/out/x.o": "x"})


def add_commit(tree):
    commit(tree, "work", {"b.txt": "b\n"})


def add_commit_without_branch(tree):
    git(tree, "checkout", "-q", "--detach")
    commit(tree, "work", {"b.txt": "b\n"})


def delete_file(tree):
    (tree / "a.txt").unlink()


def begin_rebase(tree):
    first = git(tree, "rev-parse", "HEAD")
    commit(tree, "ours", {"a.txt": "ours\n"})
    git(tree, "checkout", "-q", "-b", "side", first)
    commit(tree, "theirs", {"a.txt": "theirs\n"})
    subprocess.run(["git", "rebase", "-q", "teamwright/demo/ann"], cwd=tree, capture_output=True, check=False)


CHANGES = [
    (change_file, "1 modified file"),
    (stage_file, "1 modified file"),
    (delete_file, "1 modified file"),
    (add_untracked, "1 untracked file"),
    (add_ignored, "1 ignored file"),
    (add_ignored_directory, "1 ignored file"),
    (add_commit, "1 commit not merged"),
    (add_commit_without_branch, "1 commit not merged"),
    (begin_rebase, "a rebase is in progress"),
]


@pytest.mark.parametrize(("change", "reason"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
@pytest.mark.slow_after(2)
def test_a_worktree_in_which_something_could_be_lost_stays_with_the_reason(repository, root, ann, change, reason):
    change(ann.tree)
    before = sorted((str(path), path.stat().st_size) for path in ann.tree.rglob("*"))
    with pytest.raises(WorktreeRefused, match=reason):
        remove_worktree(repository, root, ann)
    assert sorted((str(path), path.stat().st_size) for path in ann.tree.rglob("*")) == before
    assert ann.file.exists()


def test_force_copies_every_uncommitted_file_to_the_archive_and_keeps_the_branch(
    checkout, repository, root, ann, tmp_path
):
    for change in (add_commit, change_file, add_untracked, add_ignored, add_ignored_directory):
        change(ann.tree)
    tip = git(ann.tree, "rev-parse", "HEAD")
    done = remove_worktree(repository, root, ann, archive=tmp_path / "archive")
    assert not ann.tree.exists()
    files = done.archived / "files"
    assert sorted(str(p.relative_to(files)) for p in files.rglob("*") if p.is_file()) == [
        *("a.txt", "build/out/x.o", "new.txt", "note.local")
    ]
    assert (files / "a.txt").read_text() == "changed\n"
    assert done.kept_branch == ann.branch
    assert git(checkout, "rev-parse", ann.branch) == tip


def test_a_branch_is_deleted_after_its_commits_are_in_the_integration_branch(checkout, repository, root, ann):
    tip = commit(ann.tree, "work", {"b.txt": "b\n"})
    git(checkout, "branch", ann.integration_branch, tip)
    assert read_state(repository, ann).is_merged
    assert remove_worktree(repository, root, ann).kept_branch == ""
    assert ann.branch not in git(checkout, "branch", "--format=%(refname:short)").splitlines()
    assert git(checkout, "rev-parse", ann.integration_branch) == tip


def test_files_that_setup_made_do_not_keep_a_worktree_until_they_change(repository, root, ann):
    write_files(ann.tree, {"build/cache/x.o": "x", "setup.local": "1"})
    ann = note_setup(repository, ann)
    assert read_state(repository, ann).keeps == ()
    write_files(ann.tree, {"build/cache/new.o": "work"})
    assert read_state(repository, ann).ignored == ("build/",)
    with pytest.raises(WorktreeRefused, match="1 ignored file"):
        remove_worktree(repository, root, ann)


def test_caches_of_python_do_not_keep_a_worktree(checkout, repository, root, ann):
    git(checkout, "config", "core.excludesFile", "")
    commit(ann.tree, "ignore", {".gitignore": "__pycache__/\n"})
    git(checkout, "branch", ann.integration_branch, "teamwright/demo/ann")
    write_files(ann.tree, {"pkg/__pycache__/a.pyc": "x", "__pycache__/b.pyc": "x"})
    git(ann.tree, "config", "--unset", "core.excludesFile")
    assert read_state(repository, ann).keeps == ()


def test_a_worktree_with_a_foreign_lock_or_a_process_in_it_stays_also_with_force(
    checkout, repository, root, ann, tmp_path
):
    git(checkout, "worktree", "unlock", ann.path)
    git(checkout, "worktree", "lock", "--reason", "on a stick", ann.path)
    with pytest.raises(WorktreeRefused, match="it is locked: on a stick"):
        remove_worktree(repository, root, ann, archive=tmp_path / "archive")
    git(checkout, "worktree", "unlock", ann.path)
    code = (
        "import sys, pathlib; from teamwright.storage.file_lease import Lease\n"
        "lease = Lease.take(pathlib.Path(sys.argv[1]), 'other'); print('taken', flush=True); sys.stdin.read()"
    )
    import sys

    other = subprocess.Popen(
        [sys.executable, "-c", code, str(ann.lease)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "taken\n"
    with pytest.raises(WorktreeRefused, match=f"process {other.pid} works in it"):
        remove_worktree(repository, root, ann, archive=tmp_path / "archive")
    other.communicate("")
    remove_worktree(repository, root, ann)


def test_a_moved_worktree_is_reported_and_not_removed(checkout, repository, root, ann, tmp_path):
    git(checkout, "worktree", "unlock", ann.path)
    git(checkout, "worktree", "move", ann.path, str(tmp_path / "elsewhere"))
    assert read_state(repository, ann).moved_to == str(tmp_path / "elsewhere")
    with pytest.raises(WorktreeRefused, match="it was moved to"):
        remove_worktree(repository, root, ann)
    assert (tmp_path / "elsewhere" / "a.txt").exists()


def test_a_worktree_deleted_by_hand_is_forgotten_when_its_branch_has_no_work(checkout, repository, root, ann):
    subprocess.run(["rm", "-rf", str(ann.tree)], check=True)
    remove_worktree(repository, root, ann)
    assert not ann.file.exists()
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


def test_a_sweep_removes_what_has_no_work_and_reports_the_rest(repository, root, ann):
    bob = create_worktree(repository, root, Owner("demo", "bob", "session-1")).record
    add_ignored(bob.tree)
    old = time.time() - 90 * 86_400
    os.utime(bob.tree / "note.local", (old, old))
    done = remove_unneeded(repository, root, [ann, bob])
    assert [record.member for record in done.removed] == ["ann"]
    assert [(record.member, why) for record, why in done.remaining] == [("bob", "1 ignored file (note.local)")]


def test_a_removal_waits_for_no_own_lease_but_takes_it(repository, root, ann):
    lease = Lease.take(ann.lease, "the member")
    with pytest.raises(WorktreeRefused):
        remove_worktree(repository, root, ann)
    lease.release()
    remove_worktree(repository, root, replace(ann))
