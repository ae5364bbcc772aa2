"""The integration of members' branches, on real git."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from msgspec import structs

from teamwright.protocol.errors import WorktreeRefused
from teamwright.protocol.task import IntegrationState, TaskIntegration
from teamwright.worktrees.integration import Integration, MergeStrategy, fast_forward
from teamwright.worktrees.integration_store import FileIntegrationStore
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, SetupCommand, create_worktree
from teamwright.worktrees.worktree_removal import remove_worktree
from tests.support.repositories import commit, git, make_repository, write_files
from tests.support.waits import WAIT_S

NO_CHECK = SetupCommand()


def make_member(repository, root, name: str, files: dict[str, str]):
    record = create_worktree(repository, root, Owner("demo", name, "s")).record
    return record, commit(record.tree, f"work of {name}", files)


def make_queue(repository, root, check: SetupCommand = NO_CHECK) -> Integration:
    return Integration(repository, root, "demo", FileIntegrationStore(root.parent / "integration"), check)


@pytest.mark.slow
async def test_branches_are_merged_in_order_and_the_checkout_is_unchanged(checkout, repository, root):
    queue = make_queue(repository, root)
    write_files(checkout, {"dirty.txt": "mine"})
    before = git(checkout, "status", "--porcelain"), git(checkout, "rev-parse", "main")
    for name in ("ann", "bob"):
        assert await queue.add(*make_member(repository, root, name, {f"{name}.txt": "x\n"}))
    done = await queue.run()
    assert [(entry.member, entry.state) for entry in done] == [("ann", "merged"), ("bob", "merged")]
    assert git(checkout, "log", "--format=%s", "--first-parent", queue.branch, "-2") == "Merge bob\nMerge ann"
    assert git(checkout, "ls-tree", "--name-only", queue.branch).split() == [
        ".gitignore",
        "a.txt",
        "ann.txt",
        "bob.txt",
    ]
    assert (git(checkout, "status", "--porcelain"), git(checkout, "rev-parse", "main")) == before
    assert await queue.run() == []


@pytest.mark.slow
async def test_a_conflict_is_returned_with_its_paths_and_the_others_are_merged(repository, root, checkout):
    queue = make_queue(repository, root)
    for name in ("ann", "bob", "cid"):
        files = {"a.txt": f"{name}\n"} if name != "cid" else {"c.txt": "c\n"}
        await queue.add(*make_member(repository, root, name, files))
    states = {entry.member: (entry.state, entry.paths) for entry in await queue.run()}
    assert states == {"ann": ("merged", ()), "bob": ("conflict", ("a.txt",)), "cid": ("merged", ())}
    assert git(checkout, "show", f"{queue.branch}:a.txt") == "ann"


@pytest.mark.slow
async def test_the_reason_of_a_conflict_names_the_commits_of_both_sides_that_changed_its_paths(repository, root):
    queue = make_queue(repository, root)
    for name in ("ann", "bob"):
        record, _ = make_member(repository, root, name, {f"{name}.txt": "apart\n"})
        await queue.add(record, commit(record.tree, f"{name} changes a", {"a.txt": f"{name}\n"}))
    reason = (await queue.run())[-1].detail
    ours, theirs = reason.split("; ")[1:]
    assert ours.startswith(f"{queue.branch} has ")
    assert ours.endswith(" ann changes a")
    assert theirs.startswith("teamwright/demo/bob has ")
    assert theirs.endswith(" bob changes a")
    assert "work of" not in reason


@pytest.mark.slow
async def test_a_conflict_that_its_member_resolved_is_merged(repository, root, checkout):
    queue = make_queue(repository, root)
    ann, bob = (make_member(repository, root, name, {"a.txt": f"{name}\n"}) for name in ("ann", "bob"))
    await queue.add(*ann)
    await queue.add(*bob)
    await queue.run()
    with pytest.raises(AssertionError):
        git(bob[0].tree, "merge", "-q", queue.branch)
    assert await queue.add(bob[0], commit(bob[0].tree, "resolved", {"a.txt": "both\n"}))
    assert [entry.state for entry in await queue.run()] == ["merged"]
    assert git(checkout, "show", f"{queue.branch}:a.txt") == "both"


async def test_a_failed_check_returns_the_entry_with_its_output_and_the_branch_stays(repository, root, checkout):
    check = SetupCommand(
        "test ! -e bad.txt || { echo $((40+2)) faults; exit 3; }", environment=lambda: dict(os.environ)
    )
    queue = make_queue(repository, root, check)
    await queue.add(*make_member(repository, root, "ann", {"bad.txt": "x\n"}))
    await queue.add(*make_member(repository, root, "bob", {"good.txt": "x\n"}))
    bad, good = await queue.run()
    assert (bad.state, good.state) == ("failed", "merged")
    assert "exit code 3" in bad.detail
    assert "42 faults" in bad.detail
    assert "bad.txt" not in git(checkout, "ls-tree", "--name-only", queue.branch)


async def test_an_entry_whose_commit_is_missing_is_returned_and_the_others_are_merged(repository, root):
    queue = make_queue(repository, root)
    record, _ = make_member(repository, root, "ann", {"ann.txt": "x\n"})
    await queue.add(record, "1234567" * 5 + "12345")
    await queue.add(*make_member(repository, root, "bob", {"bob.txt": "x\n"}))
    lost, good = await queue.run()
    assert (lost.state, good.state) == ("failed", "merged")
    assert "the repository does not have the commit 123456712345 of teamwright/demo/ann" in lost.detail


@pytest.mark.slow
async def test_an_entry_on_which_setup_fails_is_returned_and_the_others_are_merged(repository, root):
    def command(text: str, purpose: str) -> SetupCommand:
        return SetupCommand(text, environment=lambda: dict(os.environ), purpose=purpose)

    queue = structs.replace(
        make_queue(repository, root, command("true", "check")), setup=command("test ! -e bad.txt", "setup")
    )
    await queue.add(*make_member(repository, root, "ann", {"bad.txt": "x\n"}))
    await queue.add(*make_member(repository, root, "bob", {"good.txt": "x\n"}))
    bad, good = await queue.run()
    assert (bad.state, good.state) == ("failed", "merged")
    assert "the setup of the worktree failed" in bad.detail


@pytest.mark.slow
async def test_a_conflict_in_many_files_names_the_first_hundred(repository, root):
    queue = make_queue(repository, root)
    for name in ("ann", "bob"):
        await queue.add(*make_member(repository, root, name, {f"{n:03}.txt": f"{name}\n" for n in range(150)}))
    _, conflict = await queue.run()
    assert (conflict.state, len(conflict.paths)) == ("conflict", 100)
    assert conflict.detail.endswith("; 50 more files conflict")


CHECK = SetupCommand("true", environment=lambda: dict(os.environ))


@pytest.mark.parametrize("left", ["files without a git directory", "a git directory of a pruned worktree"])
@pytest.mark.slow
async def test_what_a_kill_left_of_the_worktree_of_the_checks_does_not_stop_the_queue(repository, root, checkout, left):
    queue = make_queue(repository, root, CHECK)
    await queue.add(*make_member(repository, root, "ann", {"ann.txt": "x\n"}))
    await queue.run()
    tree = queue.worktree.tree
    if left == "files without a git directory":
        (tree / ".git").unlink()
    else:
        shutil.rmtree(git(tree, "rev-parse", "--absolute-git-dir"))
    await queue.add(*make_member(repository, root, "bob", {"bob.txt": "x\n"}))
    assert [entry.state for entry in await queue.run()] == ["merged"]
    (tree / ".git").unlink()
    queue.worktree.remove()
    assert not tree.exists()
    assert tree.name not in git(checkout, "worktree", "list")


@pytest.mark.slow
async def test_a_cancelled_integration_ends_after_the_git_that_it_started(repository, root):
    started, go = threading.Event(), threading.Event()
    queue = make_queue(repository, root, CHECK)
    await queue.add(*make_member(repository, root, "ann", {"ann.txt": "x\n"}))
    real = RepositoryGit.call
    finished: list[str] = []

    def call(self, *args, **more):
        if args[:2] == ("worktree", "add"):
            started.set()
            assert go.wait(WAIT_S)
        done = real(self, *args, **more)
        finished.append(args[0])
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RepositoryGit, "call", call)
        running = asyncio.create_task(queue.run())
        assert await asyncio.to_thread(started.wait, WAIT_S)
        running.cancel()
        await asyncio.wait({running}, timeout=0.05)
        assert not running.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert finished[-1] == "worktree"


def test_the_error_of_a_failed_git_names_its_command(repository):
    with pytest.raises(WorktreeRefused, match="git log failed"):
        repository.read("--literal-pathspecs", "log", "no-such-branch")


CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from teamwright.worktrees.integration_store import FileIntegrationStore
from teamwright.worktrees.integration import Integration
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import SetupCommand

left = int(sys.argv[3])
real = RepositoryGit.call
def call(self, *args, **more):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, *args, **more)
RepositoryGit.call = call
root = Path(sys.argv[2])
check = SetupCommand("true", environment=lambda: dict(os.environ))
store = FileIntegrationStore(root.parent / "integration")
asyncio.run(Integration(RepositoryGit.open(Path(sys.argv[1])), root, "demo", store, check).run())
"""


@pytest.mark.slow
@pytest.mark.promise("P5")
async def test_a_kill_before_any_git_call_integrates_each_entry_exactly_once(checkout, repository, root):
    queue = make_queue(repository, root)
    tips = []
    for name in ("ann", "bob", "cid"):
        record, tip = make_member(repository, root, name, {f"{name}.txt": "x\n"})
        tips.append(tip)
        await queue.add(record, tip)
    killed = 0
    for number in range(1, 90):
        args = [sys.executable, "-c", CHILD, str(checkout), str(root), str(number % 14 + 1)]
        done = await asyncio.to_thread(subprocess.run, args, capture_output=True, text=True, check=False)
        killed += done.returncode == -signal.SIGKILL
        if done.returncode == 0:
            break
    assert killed > 3
    assert [entry.state for entry in await queue.store.entries()] == ["merged"] * 3
    merges = git(
        checkout, "log", "--format=%(trailers:key=Teamwright-Entry,valueonly)", queue.branch, "--merges"
    ).split()
    assert len(merges) == len(set(merges)) == 3
    assert all(repository.contains(tip, queue.branch) for tip in tips)
    assert git(checkout, "fsck", "--no-progress", "--no-dangling") == ""


async def test_a_person_branch_is_only_moved_forward_and_only_in_a_clean_checkout(checkout, repository, root):
    queue = make_queue(repository, root)
    await queue.add(*make_member(repository, root, "ann", {"ann.txt": "x\n"}))
    await queue.run()
    write_files(checkout, {"a.txt": "mine\n"})
    with pytest.raises(WorktreeRefused, match="uncommitted changes"):
        fast_forward(repository, "main", queue.branch)
    git(checkout, "checkout", "-q", "a.txt")
    fast_forward(repository, "main", queue.branch)
    assert (checkout / "ann.txt").read_text() == "x\n"
    assert git(checkout, "status", "--porcelain") == ""
    commit(checkout, "own work", {"own.txt": "x\n"})
    with pytest.raises(WorktreeRefused, match="has commits that"):
        fast_forward(RepositoryGit.open(checkout), "main", queue.branch)


CONFLICTS = [
    (
        {"apps/new.txt": "new\n"},
        {"apps": "file\n"},
        ("apps",),
        "apps is a file on one side and a directory on the other",
    ),
    (
        {"apps/a.txt": "changed\n"},
        {"apps/a.txt": None, "apps/a.txt/new.txt": "new\n"},
        ("apps/a.txt",),
        "apps/a.txt is a file on one side and a directory on the other; apps/a.txt was changed on one side and deleted",
    ),
    (
        {"apps/a.txt": "changed\n"},
        {"apps/a.txt": None},
        ("apps/a.txt",),
        "apps/a.txt was changed on one side and deleted on the other",
    ),
    (
        {"apps/a.txt": "changed\n"},
        {"apps/a.txt": "-> b.txt"},
        ("apps/a.txt",),
        "apps/a.txt is a file on one side and a link on the other",
    ),
]


@pytest.mark.finding("3W14")
@pytest.mark.parametrize("strategy", [MergeStrategy.MERGE, MergeStrategy.REBASE])
@pytest.mark.parametrize(("ours", "theirs", "paths", "says"), CONFLICTS)
async def test_a_conflict_without_markers_is_named_by_its_kind(tmp_path, root, ours, theirs, paths, says, strategy):
    checkout = make_repository(tmp_path / "kinds", {f"apps/{name}.txt": f"{name}\n" * 30 for name in "abc"})
    repository = RepositoryGit.open(checkout)
    store = FileIntegrationStore(root.parent / "kinds")
    queue = Integration(repository, root, "demo", store, SetupCommand(), strategy=strategy)
    for number, (member, files) in enumerate((("ann", ours), ("bob", theirs))):
        record = create_worktree(repository, root, Owner("demo", member, "s")).record
        for name, content in files.items():
            path = record.tree / name
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            if content is not None and content.startswith("-> "):
                path.symlink_to(content[3:])
            elif content is not None:
                path.parent.mkdir(exist_ok=True)
                path.write_text(content)
        work = TaskIntegration(IntegrationState.QUEUED, record.branch, commit(record.tree, member), record.base)
        entry = await queue.work(await queue.add_task(str(number + 1), work, member))
    assert entry.state == "conflict"
    assert entry.paths == paths
    assert says in entry.detail
    assert "has ;" not in entry.detail
    assert not entry.detail.endswith("has ")


@pytest.mark.finding("3W14")
async def test_a_file_in_a_directory_that_the_other_side_moved_is_named_with_both_places(tmp_path, root):
    checkout = make_repository(tmp_path / "kinds", {f"apps/{name}.txt": f"{name}\n" * 30 for name in "abc"})
    repository = RepositoryGit.open(checkout)
    queue = Integration(repository, root, "demo", FileIntegrationStore(root.parent / "kinds"), SetupCommand())
    for number, member in enumerate(("ann", "bob")):
        record = create_worktree(repository, root, Owner("demo", member, "s")).record
        if member == "ann":
            (record.tree / "apps").rename(record.tree / "services")
        else:
            (record.tree / "apps/new.txt").write_text("new\n")
        work = TaskIntegration(IntegrationState.QUEUED, record.branch, commit(record.tree, member), record.base)
        entry = await queue.work(await queue.add_task(str(number + 1), work, member))
    assert entry.paths == ("apps/new.txt",)
    assert "apps/new.txt is new in a directory that the other side moved; it may belong at services/new.txt" in (
        entry.detail
    )


@pytest.mark.finding("3W17")
async def test_a_check_that_fails_on_the_base_already_is_said_and_runs_there_once(repository, root, tmp_path):
    log = tmp_path / "log"
    check = SetupCommand(f"git rev-parse HEAD >> {log}; exit 1", environment=lambda: dict(os.environ), purpose="check")
    queue = make_queue(repository, root, check)
    for name in ("ann", "bob"):
        record, tip = make_member(repository, root, name, {f"{name}.txt": "x\n"})
        await queue.add(record, tip)
    done = await queue.run()
    assert [entry.state for entry in done] == ["failed", "failed"]
    base = git(repository.tree, "rev-parse", "HEAD")
    assert all(entry.detail.startswith(f"The check fails without this commit too, on {base[:12]}") for entry in done)
    assert log.read_text().split().count(base) == 1


@pytest.mark.finding("3W17")
async def test_a_check_that_only_the_commit_breaks_is_the_members(repository, root):
    check = SetupCommand("test ! -e ann.txt", environment=lambda: dict(os.environ), purpose="check")
    queue = make_queue(repository, root, check)
    record, tip = make_member(repository, root, "ann", {"ann.txt": "x\n"})
    await queue.add(record, tip)
    [entry] = await queue.run()
    assert entry.state == "failed"
    assert "without this commit too" not in entry.detail


@pytest.mark.finding("3W1")
@pytest.mark.parametrize("strategy", list(MergeStrategy))
@pytest.mark.slow_after(1)
async def test_an_integration_branch_that_was_deleted_continues_with_all_that_is_merged(
    repository, root, checkout, strategy
):
    queue = structs.replace(make_queue(repository, root), strategy=strategy)
    for name in ("ann", "bob", "cid"):
        await queue.add(*make_member(repository, root, name, {f"{name}.txt": "x\n"}))
        assert [entry.state for entry in await queue.run()] == ["merged"]
        if name != "cid":
            git(checkout, "branch", "-D", queue.branch)
    merged = {"ann.txt", "bob.txt", "cid.txt"}
    assert merged <= set(git(checkout, "ls-tree", "--name-only", queue.branch).split())


@pytest.mark.finding("3W1")
@pytest.mark.parametrize("strategy", list(MergeStrategy))
@pytest.mark.slow_after(1)
async def test_an_integration_branch_that_was_deleted_with_its_objects_comes_back_with_all_that_is_merged(
    repository, root, checkout, strategy
):
    queue = structs.replace(make_queue(repository, root), strategy=strategy)
    for name in ("ann", "bob"):
        await queue.add(*make_member(repository, root, name, {f"{name}.txt": "x\n"}))
        await queue.run()
    tip = git(checkout, "rev-parse", queue.branch)
    git(checkout, "branch", "-D", queue.branch)
    git(checkout, "reflog", "expire", "--expire=now", "--all")
    git(checkout, "gc", "--quiet", "--prune=now")
    assert await queue.run() == []
    assert git(checkout, "rev-parse", queue.branch) == tip


async def test_an_integration_branch_that_a_person_merged_and_deleted_stays_deleted(repository, root, checkout):
    queue = make_queue(repository, root)
    ann, tip = make_member(repository, root, "ann", {"ann.txt": "x\n"})
    await queue.add(ann, tip)
    await queue.run()
    git(checkout, "merge", "--quiet", queue.branch)
    git(checkout, "branch", "-D", queue.branch)
    assert await queue.run() == []
    assert git(checkout, "branch", "--list", queue.branch) == ""
    remove_worktree(repository, root, ann)
    assert git(checkout, "for-each-ref", "refs/teamwright") == ""


@pytest.mark.finding("3W1")
async def test_a_commit_without_a_common_history_is_returned_and_does_not_stop_the_queue(repository, root, checkout):
    queue = make_queue(repository, root)
    ann, _ = make_member(repository, root, "ann", {"ann.txt": "x\n"})
    git(ann.tree, "checkout", "-q", "--orphan", "anew")
    git(ann.tree, "commit", "-q", "-m", "all files, without a past")
    git(ann.tree, "branch", "-M", "anew", ann.branch)
    await queue.add(ann, git(ann.tree, "rev-parse", "HEAD"))
    await queue.add(*make_member(repository, root, "bob", {"bob.txt": "x\n"}))
    first, second = await queue.run()
    assert (first.state, second.state) == ("failed", "merged")
    assert "has no commit in common with" in first.detail
    assert "ann.txt" not in git(checkout, "ls-tree", "--name-only", queue.branch)
