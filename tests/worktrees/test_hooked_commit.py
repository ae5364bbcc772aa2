"""A commit with hooks has the work that was staged: hooks that lose it refuse the completion and change nothing."""

import asyncio
import os
import shutil
import signal
from contextlib import suppress

import pytest
from msgspec import structs

from teamwright.protocol.errors import WorktreeRefused
from teamwright.protocol.task import Task
from teamwright.worktrees.member_branch import COMMIT_WITH_HOOKS, MemberWorktree
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.session_worktrees import SessionWorktrees
from teamwright.worktrees.worktree_creation import Owner, SetupCommand, create_worktree, restore_worktree
from teamwright.worktrees.worktree_record import read_record
from tests.support.repositories import commit, git, make_repository, write_files
from tests.support.waits import wait_until

TASK = Task("3", "Parse dates", "")
FILES = {"a.txt": "one\n", **{f"src/{number}.c": f"{number}\n" for number in range(15)}}


@pytest.fixture
def ann(tmp_path, root) -> MemberWorktree:
    checkout = make_repository(tmp_path / "big", FILES)
    for key, value in (("user.name", "Ann"), ("user.email", "ann@example.org")):
        git(checkout, "config", key, value)
    repository = RepositoryGit.open(checkout)
    command = SetupCommand(COMMIT_WITH_HOOKS, environment=lambda: dict(os.environ), purpose="commit")
    return MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "ann", "s")).record, command)


def add_hook(ann: MemberWorktree, name: str, line: str) -> None:
    path = ann.git.common / "hooks" / name
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def remove_hooks(ann: MemberWorktree) -> None:
    for path in (ann.git.common / "hooks").iterdir():
        path.unlink()


LOSING = {
    "empties the index": ("pre-commit", "git rm -rq --cached . && git add new.txt", "took 16 of 17 files out"),
    "removes a directory": ("pre-commit", "git rm -rqf src", "took 15 of 17 files out"),
    "unstages the work": ("pre-commit", "git reset -q", "left"),
    "unstages a part": ("pre-commit", "git reset -q -- new.txt", "left changes out of the commit: new.txt"),
    "deletes files": ("pre-commit", "rm -r src", "deleted 15 files of the worktree"),
    "deletes one file": ("pre-commit", "rm src/3.c", "deleted 1 files of the worktree: src/3.c"),
    "takes the commit back": ("post-commit", "git reset -q --hard HEAD~1", "left no new commit"),
    "adds a private file": ("pre-commit", "echo KEY=x > .env; git add .env", ".env (private)"),
    "removes and fails": ("pre-commit", "git rm -rqf src; exit 1", "the commit of the worktree failed"),
}


@pytest.mark.finding("3W1")
@pytest.mark.finding("3W10")
@pytest.mark.parametrize("what", LOSING)
@pytest.mark.slow_after(3)
async def test_a_hook_that_loses_work_refuses_the_completion_which_succeeds_when_it_is_repaired(ann, what):
    name, line, says = LOSING[what]
    add_hook(ann, name, line)
    write_files(ann.record.tree, {"a.txt": "changed\n", "new.txt": "new\n"})
    with pytest.raises(WorktreeRefused) as caught:
        await ann.save(TASK, "ann")
    assert says in caught.value.what
    assert git(ann.record.tree, "rev-parse", "HEAD") == ann.record.base
    assert git(ann.record.tree, "diff", "--cached", "--name-only").split() == ["a.txt", "new.txt"]
    remove_hooks(ann)
    git(ann.record.tree, "checkout", "--", ".")
    (ann.record.tree / ".env").unlink(missing_ok=True)
    work = await ann.save(TASK, "ann")
    assert git(ann.record.tree, "show", "--name-status", "--format=", work.tip).split() == [
        *("M", "a.txt"),
        *("A", "new.txt"),
    ]


@pytest.mark.finding("3W1")
async def test_the_files_that_a_failed_hook_removed_by_git_are_not_committed_as_deleted_by_the_next_completion(ann):
    add_hook(ann, "pre-commit", "git rm -rqf src; exit 1")
    write_files(ann.record.tree, {"new.txt": "new\n"})
    with pytest.raises(WorktreeRefused, match="failed"):
        await ann.save(TASK, "ann")
    remove_hooks(ann)
    with pytest.raises(WorktreeRefused, match="15 of 17 files are gone from the worktree"):
        await ann.save(TASK, "ann")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("pre-commit", "echo formatted > new.txt; git add new.txt"),
        ("pre-commit", "echo report > report.txt; git add report.txt"),
        ("pre-commit", "echo formatted > new.txt"),
        ("commit-msg", 'echo "Signed-off-by: Ann" >> "$1"'),
        ("post-commit", '[ -n "$AMENDS" ] || AMENDS=1 git commit -q --amend -m amended'),
    ],
)
@pytest.mark.slow_after(1)
async def test_a_hook_may_change_what_is_committed(ann, name, line):
    add_hook(ann, name, line)
    write_files(ann.record.tree, {"new.txt": "new\n"})
    work = await ann.save(TASK, "ann")
    assert "new.txt" in git(ann.record.tree, "show", "--name-only", "--format=", work.tip).split()
    assert git(ann.record.tree, "rev-parse", f"refs/heads/{ann.record.branch}") == work.tip


async def test_a_hook_that_removes_the_worktree_after_the_commit_loses_nothing(ann):
    add_hook(ann, "post-commit", 'd=$PWD; cd .. && rm -rf "$d"')
    write_files(ann.record.tree, {"new.txt": "new\n"})
    work = await ann.save(TASK, "ann")
    assert git(ann.git.tree, "show", f"{work.tip}:new.txt") == "new"


async def test_a_merge_that_hooks_refuse_is_still_a_merge_at_the_next_completion(ann):
    tree = ann.record.tree
    other = commit(ann.git.tree, "other", {"a.txt": "theirs\n"})
    commit(tree, "own", {"a.txt": "ours\n"})
    ann.git.call("merge", "-q", other, cwd=tree, identity=True)
    write_files(tree, {"a.txt": "both\n"})
    add_hook(ann, "post-commit", "git reset -q --soft HEAD~1")
    with pytest.raises(WorktreeRefused, match="left no new commit"):
        await ann.save(TASK, "ann")
    remove_hooks(ann)
    work = await ann.save(TASK, "ann")
    assert git(tree, "rev-parse", f"{work.tip}^2") == other


KILLED = {
    "after a commit without the files": ("git rm -rq --cached . && git add new.txt", "post-commit"),
    "after files were deleted": ("git rm -rqf src; kill -9 $(cat {pid}); exit 1", ""),
    "after the index was emptied": ("git rm -rq --cached .; kill -9 $(cat {pid}); exit 1", ""),
    "after a good commit": ("", "post-commit"),
}


def save_and_be_killed(ann: MemberWorktree, pid_file) -> None:
    """Complete the task in a process that a hook kills."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            pid_file.write_text(str(os.getpid()))
            asyncio.run(ann.save(TASK, "ann"))
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    wait_until(lambda: not (ann.record.tree / ".git-busy").exists())


@pytest.mark.finding("3W1")
@pytest.mark.parametrize("when", KILLED)
def test_a_kill_while_hooks_run_leaves_no_commit_that_loses_files(ann, tmp_path, when):
    pid = tmp_path / "pid"
    before, after = KILLED[when]
    busy = f"touch {ann.record.tree}/.git-busy; trap 'rm {ann.record.tree}/.git-busy' EXIT; "
    add_hook(ann, "pre-commit", busy + before.format(pid=pid) if not after else before)
    if after:
        add_hook(ann, after, f"{busy}kill -9 $(cat {pid})")
    write_files(ann.record.tree, {"a.txt": "changed\n", "new.txt": "new\n"})
    save_and_be_killed(ann, pid)
    remove_hooks(ann)
    work = asyncio.run(ann.save(TASK, "ann"))
    tree = ann.record.tree
    assert git(tree, "diff", "--name-status", ann.record.base, work.tip).split() == ["M", "a.txt", "A", "new.txt"]
    assert git(tree, "rev-list", "--count", f"{ann.record.base}..{work.tip}") == "1"
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "for-each-ref", "refs/teamwright/committing") == ""


@pytest.mark.finding("3W1")
@pytest.mark.parametrize("with_worktree", [False, True])
async def test_a_branch_that_is_deleted_after_hooks_lost_work_comes_back_without_that_commit(ann, with_worktree):
    add_hook(ann, "pre-commit", "git rm -rq --cached . && git add new.txt")
    write_files(ann.record.tree, {"new.txt": "new\n"})
    with pytest.raises(WorktreeRefused):
        await ann.save(TASK, "ann")
    remove_hooks(ann)
    git(ann.git.tree, "update-ref", "-d", f"refs/heads/{ann.record.branch}")
    if with_worktree:
        shutil.rmtree(ann.record.tree)
        ann = structs.replace(ann, record=restore_worktree(ann.git, ann.record))
        write_files(ann.record.tree, {"new.txt": "new\n"})
    else:
        with pytest.raises(WorktreeRefused, match="was deleted or renamed") as caught:
            await ann.save(TASK, "ann")
        git(ann.git.tree, *caught.value.do[0].split()[1:])
    work = await ann.save(TASK, "ann")
    assert git(ann.record.tree, "diff", "--name-status", ann.record.base, work.tip).split() == ["A", "new.txt"]


@pytest.mark.finding("3W1")
def test_a_worktree_and_branch_that_are_deleted_after_a_kill_come_back_with_the_staged_work(ann, tmp_path):
    asyncio.run(complete_file(ann, "first.txt"))
    pid = tmp_path / "pid"
    add_hook(ann, "pre-commit", "git rm -rq --cached . && git add new.txt")
    add_hook(ann, "post-commit", f"kill -9 $(cat {pid})")
    write_files(ann.record.tree, {"new.txt": "new\n"})
    save_and_be_killed(ann, pid)
    remove_hooks(ann)
    git(ann.git.tree, "update-ref", "-d", f"refs/heads/{ann.record.branch}")
    shutil.rmtree(ann.record.tree)
    ann = structs.replace(ann, record=restore_worktree(ann.git, ann.record))
    work = asyncio.run(ann.save(TASK, "ann"))
    changes = git(ann.record.tree, "diff", "--name-status", ann.record.base, work.tip).split()
    assert changes == ["A", "first.txt", "A", "new.txt"]


async def complete_file(ann: MemberWorktree, name: str) -> None:
    """Complete a task that writes a file."""
    write_files(ann.record.tree, {name: "x\n"})
    assert await ann.save(TASK, "ann")


@pytest.mark.finding("3W1")
def test_an_interrupted_commit_that_lost_files_is_taken_back_when_its_agent_begins_again(ann, root, tmp_path):
    pid = tmp_path / "pid"
    add_hook(ann, "pre-commit", "git rm -rq --cached . && git add new.txt")
    add_hook(ann, "post-commit", f"kill -9 $(cat {pid})")
    write_files(ann.record.tree, {"new.txt": "new\n"})
    save_and_be_killed(ann, pid)
    worktrees = SessionWorktrees(root, ann.git.tree, "s", lambda _event: None)
    opened = asyncio.run(worktrees.open(ann.record.tree))
    worktrees.release(opened.tree)
    assert git(opened.tree, "rev-parse", "HEAD") == ann.record.base
    assert git(opened.tree, "status", "--porcelain") == "A  new.txt"


@pytest.mark.finding("3W1")
async def test_a_task_whose_work_was_lost_with_its_worktree_is_not_completed_without_a_word(ann):
    write_files(ann.record.tree, {"new.txt": "new\n"})
    shutil.rmtree(ann.record.tree)
    ann = structs.replace(ann, record=restore_worktree(ann.git, ann.record))
    killed = structs.replace(ann, told_of_loss=set())  # before the member read the refusal
    for worktree in (ann, killed):
        with pytest.raises(WorktreeRefused, match="what you had not committed is lost"):
            await worktree.save(TASK, "ann")
    for _ in range(2):
        assert await killed.save(TASK, "ann") is None, "nothing is left to do"
    assert not read_record(ann.record.file).lost_files
    write_files(ann.record.tree, {"new.txt": "again\n"})
    assert await killed.save(TASK, "ann")


@pytest.mark.finding("3W1")
def test_a_loss_with_commits_of_the_member_on_top_is_refused_with_the_way_back(ann, tmp_path):
    pid = tmp_path / "pid"
    add_hook(ann, "pre-commit", "git rm -rq --cached . && git add new.txt")
    add_hook(ann, "post-commit", f"kill -9 $(cat {pid})")
    write_files(ann.record.tree, {"new.txt": "new\n"})
    save_and_be_killed(ann, pid)
    remove_hooks(ann)
    tree = ann.record.tree
    git(tree, "commit", "--quiet", "--allow-empty", "-m", "mine")
    with pytest.raises(WorktreeRefused, match="A kill interrupted that commit") as caught:
        asyncio.run(ann.save(TASK, "ann"))
    way = caught.value.do[0].removeprefix("git ").partition(" brings")[0]
    git(tree, *way.split())
    git(tree, "commit", "--quiet", "-m", "the files are back")
    work = asyncio.run(ann.save(TASK, "ann"))
    assert git(tree, "diff", "--name-status", ann.record.base, work.tip).split() == ["A", "new.txt"]
