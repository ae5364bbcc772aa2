"""A worktree is what git and the disk say it is: one that was lost, replaced or moved is refused before each commit."""

import json
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.git.repository_risks import git_entries
from teamwright.protocol.errors import CannotStart, WorktreeRefused
from teamwright.protocol.task import Task
from teamwright.storage.directory_identity import directory_identity
from teamwright.worktrees import session_worktrees
from teamwright.worktrees.commit_bundle import bundle_result, check_out, make_bundle
from teamwright.worktrees.integration import Integration, fast_forward
from teamwright.worktrees.integration_store import FileIntegrationStore
from teamwright.worktrees.member_branch import MemberWorktree
from teamwright.worktrees.moved_repository import Repair, repair_worktrees
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.session_worktrees import SessionWorktrees, open_recorded
from teamwright.worktrees.worktree_creation import Owner, SetupCommand, create_worktree
from teamwright.worktrees.worktree_identity import require_worktree
from teamwright.worktrees.worktree_list import find_holders
from teamwright.worktrees.worktree_record import list_records, read_record
from teamwright.worktrees.worktree_removal import remove_worktree
from teamwright.worktrees.worktree_state import read_state
from tests.support.repositories import commit, git, make_repository, write_files

TASK = Task("3", "Parse dates", "")
PLAIN = SetupCommand()


@pytest.fixture
def ann(repository, root) -> MemberWorktree:
    return MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "ann", "s")).record, PLAIN)


def lose(tree: Path) -> None:
    shutil.rmtree(tree)


def move_away(tree: Path) -> None:
    tree.rename(tree.with_name("moved"))


def replace_by_its_git_file(tree: Path) -> None:
    """Leave what a restored protected file leaves: a new directory with the old `.git`."""
    text = (tree / ".git").read_text()
    shutil.rmtree(tree)
    tree.mkdir()
    (tree / ".git").write_text(text)


def replace_by_a_copy(tree: Path) -> None:
    shutil.copytree(tree, tree.with_name("copy"))
    shutil.rmtree(tree)
    tree.with_name("copy").rename(tree)


def replace_by_a_link(tree: Path) -> None:
    tree.rename(tree.with_name("moved"))
    tree.symlink_to(tree.with_name("moved"))


def remove_git_file(tree: Path) -> None:
    (tree / ".git").unlink()


def lead_git_elsewhere(tree: Path) -> None:
    (tree / ".git").write_text(f"gitdir: {tree.parents[3] / 'shop' / '.git'}\n")


CHANGES = [
    lose,
    move_away,
    replace_by_its_git_file,
    replace_by_a_copy,
    replace_by_a_link,
    remove_git_file,
    lead_git_elsewhere,
]


@pytest.mark.finding("3W1")
@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_is_committed_for_a_worktree_that_is_not_the_one_that_was_made(ann, checkout, change):
    (ann.record.tree / "new.txt").write_text("work\n")
    before = git(checkout, "for-each-ref")
    change(ann.record.tree)
    with pytest.raises(WorktreeRefused, match="is not the one that was made") as caught:
        await ann.save(TASK, "ann")
    assert caught.value.slug == "worktree-changed"
    with pytest.raises(WorktreeRefused, match="is not the one that was made"):
        ann.move(TASK)
    assert git(checkout, "for-each-ref") == before
    assert git(checkout, "status", "--porcelain") == ""
    assert read_state(ann.git, ann.record).state != "clean"


@pytest.mark.finding("3W1")
def test_another_device_number_alone_is_no_other_directory(ann):
    """A device may have another number after a start of the machine."""
    record = replace(ann.record, device=ann.record.device + 1)
    require_worktree(ann.git, record)
    with pytest.raises(WorktreeRefused, match="another directory is in its place"):
        require_worktree(ann.git, replace(record, git_file=0))
    with pytest.raises(WorktreeRefused, match="another directory is in its place"):
        require_worktree(ann.git, replace(ann.record, inode=ann.record.inode + 1))


@pytest.mark.finding("3W1")
async def test_a_branch_that_is_checked_out_elsewhere_gets_no_commit_of_the_runtime(ann, checkout):
    other = checkout.with_name("other")
    git(checkout, "worktree", "add", "-q", "--force", str(other), ann.record.branch)
    (ann.record.tree / "new.txt").write_text("work\n")
    with pytest.raises(WorktreeRefused, match=rf"its branch .* is also checked out in {other}"):
        await ann.save(TASK, "ann")


@pytest.mark.finding("3W1")
async def test_a_record_of_version_1_has_no_identity_and_gets_it_when_its_agent_begins_again(
    ann, checkout, root, tmp_path
):
    record = ann.record
    old = json.loads(record.file.read_text())
    del old["device"], old["inode"]
    record.file.write_text(json.dumps({**old, "version": 1}))
    assert (read_record(record.file).inode, read_record(record.file).version) == (0, 2)
    require_worktree(ann.git, read_record(record.file))
    notices: list[object] = []
    worktrees = SessionWorktrees(root, checkout, "s", notices.append)
    opened = await worktrees.open(record.tree)
    assert (opened.device, opened.inode) == directory_identity(record.tree)
    assert read_record(record.file) == opened
    assert notices == []
    worktrees.release(record.tree)


@pytest.mark.finding("3W12")
@pytest.mark.parametrize(("change", "says"), [(lose, "was gone"), (replace_by_a_copy, "another directory than before")])
async def test_a_person_is_told_of_a_worktree_that_was_lost_or_replaced_before_its_agent_begins_again(
    ann, checkout, root, change, says
):
    change(ann.record.tree)
    notices: list[object] = []
    worktrees = SessionWorktrees(root, checkout, "s", notices.append)
    opened = await worktrees.open(ann.record.tree)
    require_worktree(ann.git, opened)
    assert says in str(notices[0])
    worktrees.release(ann.record.tree)


@pytest.mark.finding("3W1")
async def test_an_agent_does_not_begin_in_a_directory_that_git_takes_for_something_else(ann, checkout, root):
    lead_git_elsewhere(ann.record.tree)
    worktrees = SessionWorktrees(root, checkout, "s", lambda _event: None)
    with pytest.raises(WorktreeRefused, match="is not the one that was made"):
        await worktrees.open(ann.record.tree)
    assert worktrees.leases == {}


@pytest.mark.finding("3W1")
@pytest.mark.parametrize("kept", [0, 3, 20])
def test_a_branch_of_a_person_does_not_move_to_a_commit_without_most_of_its_files(tmp_path, kept):
    files = {f"src/{number}.c": "x\n" for number in range(40)}
    checkout = make_repository(tmp_path / "shop", files)
    git(checkout, "switch", "-q", "-c", "work")
    git(checkout, "rm", "-q", *[name for number, name in enumerate(files) if number >= kept])
    git(checkout, "commit", "-q", "-m", "delete")
    git(checkout, "switch", "-q", "main")
    tip = git(checkout, "rev-parse", "main")
    repository = RepositoryGit.open(checkout)
    if kept == 20:
        assert fast_forward(repository, "main", "work") == git(checkout, "rev-parse", "work")
        return
    with pytest.raises(WorktreeRefused, match=rf"{40 - kept} of 40 files of main would be deleted"):
        fast_forward(repository, "main", "work")
    assert git(checkout, "rev-parse", "main") == tip
    assert git(checkout, "status", "--porcelain") == ""


def submodule_of(tmp_path: Path) -> Path:
    """Return the checkout of a submodule."""
    make_repository(tmp_path / "inner")
    outer = make_repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "inner"), "lib")
    return outer / "lib"


def with_named_tree(tmp_path: Path) -> Path:
    """Return a checkout whose configuration names it."""
    checkout = make_repository(tmp_path / "shop")
    git(checkout, "config", "core.worktree", str(checkout))
    return checkout


@pytest.mark.finding("3W4")
@pytest.mark.parametrize("make", [submodule_of, with_named_tree])
async def test_where_a_member_starts_it_can_complete(tmp_path, root, make):
    checkout = make(tmp_path)
    assert git_entries(checkout) == ()
    repository = RepositoryGit.open(checkout)
    record = create_worktree(repository, root, Owner("demo", "ann", "s")).record
    (record.tree / "new.txt").write_text("work\n")
    work = await MemberWorktree(repository, record, PLAIN).save(TASK, "ann")
    assert work is not None
    assert git(checkout, "diff-tree", "-r", "--name-only", "--no-commit-id", work.tip) == "new.txt"
    remove_worktree(repository, root, record, archive=tmp_path / "archive")


@pytest.mark.finding("3W3")
@pytest.mark.parametrize("make", [submodule_of, with_named_tree])
def test_no_worktree_is_made_where_git_would_take_another_directory_for_its_top_level(tmp_path, root, make):
    checkout = make(tmp_path)
    git(checkout, "config", "extensions.worktreeConfig", "true")
    before = git(checkout, "for-each-ref"), git(checkout, "worktree", "list")
    with pytest.raises(WorktreeRefused, match=r"has core\.worktree, and extensions\.worktreeConfig is on"):
        create_worktree(RepositoryGit.open(checkout), root, Owner("demo", "ann", "s"))
    assert (git(checkout, "for-each-ref"), git(checkout, "worktree", "list")) == before
    assert list_records(root) == ([], [])


@pytest.mark.finding("3W3")
def test_a_worktree_that_git_resolves_to_another_place_is_undone(repository, checkout, root, monkeypatch):
    original = RepositoryGit.call

    def call(self, *args, **more):
        done = original(self, *args, **more)
        if args[:2] == ("worktree", "add"):
            lead_git_elsewhere(Path(args[-2]))
        return done

    monkeypatch.setattr(RepositoryGit, "call", call)
    with pytest.raises(WorktreeRefused, match="is not the one that was made"):
        create_worktree(repository, root, Owner("demo", "ann", "s"))
    assert list_records(root) == ([], [])
    assert git(checkout, "branch", "--format=%(refname:short)") == "main"
    assert [path.name for path in root.rglob("*") if path.is_file() and path.parent.name != "ports"] == []


@pytest.mark.finding("3W13")
@pytest.mark.parametrize(
    "settings",
    [
        {"filter.lfs.process": "git-lfs filter-process"},
        {"core.hooksPath": "hooks"},
        {"extensions.partialClone": "origin", "remote.origin.promisor": "true"},
    ],
)
async def test_a_refused_start_leaves_no_record_no_ports_and_no_lease(checkout, root, settings):
    for name, value in settings.items():
        git(checkout, "config", name, value)
    worktrees = SessionWorktrees(root, checkout, "s", lambda _event: None)
    with pytest.raises(CannotStart, match="is not trusted"):
        await worktrees.create("demo", "ann")
    assert [path for path in root.rglob("*") if path.is_file()] == []


@pytest.mark.finding("3W13")
@pytest.mark.parametrize("step", ["note_setup", "uncommitted_files"])
async def test_a_start_that_fails_late_is_undone(checkout, root, monkeypatch, step):
    def fail(*_args):
        raise WorktreeRefused("worktree-refused", "no space")

    monkeypatch.setattr(session_worktrees, step, fail)
    setup = SetupCommand("echo x > made.txt", environment=lambda: dict(os.environ))
    worktrees = SessionWorktrees(root, checkout, "s", lambda _event: None, setup=setup)
    with pytest.raises(WorktreeRefused, match="no space"):
        await worktrees.create("demo", "ann")
    assert [path for path in root.rglob("*") if path.is_file()] == []
    assert git(checkout, "branch", "--format=%(refname:short)") == "main"
    assert git(checkout, "worktree", "list").count("\n") == 0


@pytest.mark.finding("3W6")
async def test_the_integration_branch_does_not_move_while_someone_has_it_checked_out(ann, repository, checkout, root):
    queue = Integration(repository, root, "demo", FileIntegrationStore(root.parent / "queue"), PLAIN)
    (ann.record.tree / "one.txt").write_text("1\n")
    work = await ann.save(TASK, "ann")
    await queue.work(await queue.add_task("3", work, "ann"))
    (ann.record.tree / "two.txt").write_text("2\n")
    work = await ann.save(TASK, "ann")
    git(checkout, "switch", "-q", queue.branch)
    tip = git(checkout, "rev-parse", "HEAD")
    entry = await queue.add_task("4", work, "ann")
    with pytest.raises(WorktreeRefused, match=f"is checked out in {checkout}") as caught:
        await queue.work(entry)
    assert caught.value.slug == "branch-in-use"
    assert git(checkout, "rev-parse", "HEAD") == tip
    assert git(checkout, "status", "--porcelain") == ""
    git(checkout, "switch", "-q", "main")
    assert (await queue.work(entry)).state == "merged"


@pytest.mark.finding("3W6")
def test_a_branch_that_is_being_rebased_counts_as_checked_out(repository, checkout):
    git(checkout, "switch", "-q", "-c", "side")
    commit(checkout, "side", {"a.txt": "side\n"})
    git(checkout, "branch", "upstream", "main")
    other = checkout.with_name("other")
    git(checkout, "worktree", "add", "-q", str(other), "upstream")
    commit(other, "upstream", {"a.txt": "upstream\n"})
    with pytest.raises(AssertionError):
        git(checkout, "rebase", "-q", "upstream")
    assert find_holders(repository, "side") == [checkout]
    assert find_holders(repository, "upstream") == [other]
    assert find_holders(repository, "main") == []


@pytest.mark.finding("3W6")
def test_a_branch_of_a_person_does_not_move_under_another_worktree(repository, checkout):
    other = checkout.with_name("other")
    git(checkout, "worktree", "add", "-q", "-b", "release", str(other))
    commit(checkout, "more", {"b.txt": "b\n"})
    with pytest.raises(WorktreeRefused, match=f"release is checked out in {other}"):
        fast_forward(repository, "release", "main")
    assert git(other, "status", "--porcelain") == ""


@pytest.mark.finding("3W6")
async def test_the_branch_of_a_removed_worktree_stays_while_a_person_has_it_checked_out(ann, checkout, root):
    lose(ann.record.tree)
    git(checkout, "worktree", "unlock", str(ann.record.tree))
    git(checkout, "worktree", "prune")
    git(checkout, "switch", "-q", ann.record.branch)
    with pytest.raises(WorktreeRefused, match="was moved to"):
        remove_worktree(ann.git, root, ann.record)
    assert git(checkout, "status", "--porcelain") == ""


@pytest.fixture
def remote(checkout, tmp_path) -> Path:
    """The directory of a member on another machine."""
    base, bundle = make_bundle(checkout, "", has_remote=False)
    directory = tmp_path / "machine" / "ann"
    directory.parent.mkdir()
    check_out(directory, None, base, bundle, "teamwright/demo/ann")
    return directory


@pytest.mark.finding("3W1")
@pytest.mark.parametrize("change", ["moved", "emptied", "private"])
def test_a_machine_sends_no_commit_that_it_composed_of_a_lost_or_private_directory(remote, change):
    made, base = directory_identity(remote), git(remote, "rev-parse", "HEAD")
    if change == "moved":
        shutil.copytree(remote, remote.with_name("copy"))
        lose(remote)
        remote.with_name("copy").rename(remote)
        (remote / "a.txt").unlink()
    elif change == "emptied":
        for name in ("a.txt", ".gitignore"):
            (remote / name).unlink()
    else:
        write_files(remote, {".env": "KEY=x\n"})
    bundle, why = bundle_result(remote, made, "demo", "ann", base)
    assert bundle is None
    assert ("is not the one in which ann began" if change == "moved" else "uncommitted files of ann stay") in why
    write_files(remote, {"a.txt": "a\n"})


@pytest.mark.finding("3W8")
async def test_worktrees_of_a_renamed_repository_are_repaired_with_their_files_and_branches(ann, checkout, root):
    (ann.record.tree / "wip.txt").write_text("wip\n")
    moved = checkout.with_name("moved")
    checkout.rename(moved)
    with pytest.raises(CannotStart, match="the repository of the worktree of ann is gone") as caught:
        open_recorded(ann.record, frozenset())
    assert "teamwright worktrees repair" in caught.value.do[0]
    repository = RepositoryGit.open(moved)
    [done] = repair_worktrees(repository, root)
    record = done.record
    assert done == Repair(read_record(record.file))
    work = await MemberWorktree(repository, record, PLAIN).save(TASK, "ann")
    assert git(moved, "show", f"{work.tip}:wip.txt") == "wip"
    assert repair_worktrees(repository, root) == []


@pytest.mark.finding("3W8")
def test_worktrees_of_another_repository_are_not_repaired(ann, checkout, root, tmp_path):
    other = make_repository(tmp_path / "other")
    checkout.rename(checkout.with_name("moved"))
    assert repair_worktrees(RepositoryGit.open(other), root) == []


@pytest.mark.finding("3W8")
@pytest.mark.parametrize(("change", "says"), [(lose, "made again when its member continues"), (remove_git_file, "")])
async def test_a_worktree_that_is_lost_or_damaged_does_not_stop_the_repair_of_the_others(
    ann, checkout, root, change, says
):
    bob = create_worktree(ann.git, root, Owner("demo", "bob", "s")).record
    change(ann.record.tree)
    moved = checkout.with_name("moved")
    checkout.rename(moved)
    first, second = repair_worktrees(RepositoryGit.open(moved), root)
    assert says in first.problem and bool(says) == bool(first.problem)
    assert (second.record.member, second.problem) == (bob.member, "")
    assert {one.repository for one in list_records(root)[0]} == {str(moved)}
    worktrees = SessionWorktrees(root, moved, "s", lambda _event: None)
    require_worktree(RepositoryGit.open(moved), await worktrees.open(ann.record.tree))
    worktrees.release(ann.record.tree)


@pytest.mark.finding("3W8")
def test_another_repository_in_the_old_place_does_not_stop_the_repair(ann, checkout, root):
    moved = checkout.with_name("moved")
    checkout.rename(moved)
    make_repository(checkout)
    [done] = repair_worktrees(RepositoryGit.open(moved), root)
    assert (done.record.repository, done.problem) == (str(moved), "")
    assert repair_worktrees(RepositoryGit.open(checkout), root) == []


@pytest.mark.finding("3W1")
@pytest.mark.parametrize("way", ["deleted", "renamed"])
async def test_a_branch_that_is_gone_is_named_with_the_command_that_brings_it_back(ann, checkout, way):
    done = commit(ann.record.tree, "work", {"new.txt": "new\n"})
    write_files(ann.record.tree, {"more.txt": "more\n"})
    if way == "deleted":
        git(checkout, "update-ref", "-d", f"refs/heads/{ann.record.branch}")
    else:
        git(checkout, "branch", "-m", ann.record.branch, "theirs")
    with pytest.raises(WorktreeRefused, match="was deleted or renamed") as caught:
        await ann.save(TASK, "ann")
    [command] = caught.value.do
    git(checkout.parent, *command.split()[1:])
    work = await ann.save(TASK, "ann")
    assert git(checkout, "rev-list", f"{ann.record.base}..{work.tip}").split()[1:] == [done]


@pytest.mark.finding("3W1")
async def test_finished_commits_stay_when_worktree_and_branch_are_deleted_by_another_program(ann, checkout, root):
    write_files(ann.record.tree, {"new.txt": "new\n"})
    work = await ann.save(TASK, "ann")
    shutil.rmtree(ann.record.tree)
    git(checkout, "worktree", "remove", "--force", "--force", str(ann.record.tree))
    git(checkout, "branch", "-D", ann.record.branch)
    git(checkout, "reflog", "expire", "--expire=now", "--all")
    git(checkout, "gc", "--quiet", "--prune=now")
    queue = Integration(ann.git, root, "demo", FileIntegrationStore(root.parent / "queue"), PLAIN)
    worktrees = SessionWorktrees(root, checkout, "s", lambda _event: None)
    opened = await worktrees.open(ann.record.tree)
    assert (opened.tree / "new.txt").exists(), "the branch begins again at the finished commit"
    entry = await queue.work(await queue.add_task(TASK.id, work, "ann"))
    assert entry.state == "merged"
    worktrees.release(opened.tree)
    remove_worktree(ann.git, root, opened)
    assert git(checkout, "for-each-ref", "refs/teamwright/finished") == ""


async def test_a_new_worktree_of_a_name_does_not_inherit_the_finished_commits_of_an_earlier_one(ann, checkout, root):
    write_files(ann.record.tree, {"new.txt": "new\n"})
    await ann.save(TASK, "ann")
    remove_worktree(ann.git, root, ann.record, archive=root.parent / "archive")
    git(checkout, "branch", "-D", ann.record.branch)
    again = create_worktree(ann.git, root, Owner("demo", "ann", "s")).record
    assert again.branch == ann.record.branch
    assert git(checkout, "for-each-ref", "refs/teamwright") == ""


@pytest.mark.finding("3W1")
async def test_a_removed_git_file_is_named_with_the_command_that_makes_it_again(ann, checkout, root):
    write_files(ann.record.tree, {"new.txt": "new\n"})
    remove_git_file(ann.record.tree)
    with pytest.raises(WorktreeRefused, match=r"its \.git is gone") as caught:
        await ann.save(TASK, "ann")
    [advice] = caught.value.do
    git(checkout.parent, *advice.partition(",")[0].split()[1:])
    worktrees = SessionWorktrees(root, checkout, "s", lambda _event: None)
    opened = await worktrees.open(ann.record.tree)
    work = await replace(ann, record=opened).save(TASK, "ann")
    assert git(checkout, "show", f"{work.tip}:new.txt") == "new"
    worktrees.release(opened.tree)
