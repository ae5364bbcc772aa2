"""Worktrees of repositories in unusual states, on real git: each ends well or with a sentence, and nothing is lost."""

import os
import shutil
from pathlib import Path

import pytest

from teamwright.git.git_calls import GitCallOptions, run_git
from teamwright.git.repository_risks import git_entries
from teamwright.protocol.errors import TeamwrightError, WorktreeRefused
from teamwright.protocol.task import Task
from teamwright.worktrees.integration import Integration, fast_forward
from teamwright.worktrees.integration_store import FileIntegrationStore, IntegrationEntry
from teamwright.worktrees.member_branch import COMMIT_WITH_HOOKS, MemberWorktree
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, SetupCommand, create_worktree
from teamwright.worktrees.worktree_record import WorktreeRecord, list_records
from teamwright.worktrees.worktree_removal import remove_worktree
from teamwright.worktrees.worktree_state import read_state
from tests.support.programs import needs
from tests.support.repositories import commit, git, make_repository, write_files

pytestmark = pytest.mark.promise("P5")
TASK = Task("3", "Parse dates", "")
PLAIN = SetupCommand()


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "person").mkdir()


def configure(tmp_path: Path, text: str) -> None:
    """Write the person's own configuration of git."""
    (tmp_path / "person" / ".gitconfig").write_text(text)


def ann_of(checkout: Path, root: Path, *, trusted: bool = False) -> tuple[RepositoryGit, WorktreeRecord]:
    entries = frozenset(git_entries(checkout)) if trusted else frozenset()
    repository = RepositoryGit.open(checkout, entries)
    return repository, create_worktree(repository, root, Owner("demo", "ann", "s")).record


async def integrate(repository: RepositoryGit, record: WorktreeRecord, root: Path) -> IntegrationEntry:
    work = await MemberWorktree(repository, record, PLAIN).save(TASK, "ann")
    assert work is not None
    queue = Integration(repository, root, "demo", FileIntegrationStore(root.parent / "queue"), PLAIN)
    return await queue.work(await queue.add_task(TASK.id, work, "ann"))


NAMES = [
    "a\rb",
    "a\r\nb",
    "new\nline",
    'quote"',
    "sq'",
    "umlä测",
    "tab\t",
    " lead",
    "trail ",
    "-dash",
    "*",
    "[x]",
    ":colon",
]


@pytest.mark.slow
async def test_files_with_any_name_are_integrated_and_archived(checkout, repository, root, tmp_path):
    for way in ("integrate", "archive"):
        _, record = ann_of(checkout, root)
        write_files(record.tree, {f"{name}/{name}": name for name in NAMES})
        if way == "integrate":
            entry = await integrate(repository, record, root)
            listed = git(checkout, "ls-tree", "-r", "-z", "--name-only", entry.commit).split("\0")
            assert set(listed) >= {f"{name}/{name}".replace("\r\n", "\n").replace("\r", "\n") for name in NAMES}
            assert git(record.tree, "status", "--porcelain") == ""
            remove_worktree(repository, root, record)
            continue
        archived = remove_worktree(repository, root, record, archive=tmp_path / "archive").archived
        assert archived is not None
        assert sorted(path.name for path in (archived / "files").rglob("*") if path.is_file()) == sorted(NAMES)


@pytest.mark.parametrize("way", ["staged", "intended", "staged and changed"])
@pytest.mark.slow_after(1)
async def test_a_renamed_file_is_committed_as_one(checkout, repository, root, way):
    commit(checkout, "more", {"old.txt": "line\n" * 20})
    _, record = ann_of(checkout, root)
    if way == "intended":
        (record.tree / "old.txt").rename(record.tree / "new.txt")
        git(record.tree, "add", "-N", "new.txt")
    else:
        git(record.tree, "mv", "old.txt", "new.txt")
    if way == "staged and changed":
        write_files(record.tree, {"new.txt": "line\n" * 20 + "more\n"})
    entry = await integrate(repository, record, root)
    names = git(checkout, "ls-tree", "--name-only", entry.commit).split()
    assert "new.txt" in names
    assert "old.txt" not in names
    assert git(record.tree, "status", "--porcelain") == ""


@pytest.mark.parametrize("bit", ["--assume-unchanged", "--skip-worktree"])
@pytest.mark.slow_after(1)
def test_a_change_that_git_was_told_to_ignore_keeps_the_worktree(checkout, repository, root, tmp_path, bit):
    _, record = ann_of(checkout, root)
    git(record.tree, "update-index", bit, "a.txt")
    assert read_state(repository, record).keeps == ()
    write_files(record.tree, {"a.txt": "mine\n"})
    with pytest.raises(WorktreeRefused, match=r"1 modified file \(a.txt\)"):
        remove_worktree(repository, root, record)
    archived = remove_worktree(repository, root, record, archive=tmp_path / "archive").archived
    assert archived is not None
    assert (archived / "files/a.txt").read_text() == "mine\n"


def with_submodule(tmp_path: Path) -> Path:
    library, shop = make_repository(tmp_path / "library"), make_repository(tmp_path / "store")
    git(shop, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    commit(shop, "with a library")
    return shop


@pytest.mark.slow
async def test_commits_and_files_of_a_submodule_keep_the_worktree(root, tmp_path):
    repository, record = ann_of(with_submodule(tmp_path), root, trusted=True)
    git(record.tree, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
    assert read_state(repository, record).keeps == ()
    write_files(record.tree / "lib", {"new.local": "ignored\n"})
    with pytest.raises(WorktreeRefused, match="the submodule lib has changed files"):
        remove_worktree(repository, root, record)
    (record.tree / "lib" / "new.local").unlink()
    tip = commit(record.tree / "lib", "in the library", {"b.txt": "b\n"})
    assert (await integrate(repository, record, root)).state == "merged"
    with pytest.raises(WorktreeRefused, match="the submodule lib has 1 commits that no remote has"):
        remove_worktree(repository, root, record)
    archived = remove_worktree(repository, root, record, archive=tmp_path / "archive").archived
    assert archived is not None
    assert (archived / "files/lib/b.txt").exists()
    assert git(archived / "modules/lib", "--git-dir=.", "--work-tree=..", "cat-file", "-t", tip) == "commit"


def test_a_worktree_with_an_unchanged_submodule_is_removed(root, tmp_path):
    repository, record = ann_of(with_submodule(tmp_path), root, trusted=True)
    git(record.tree, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
    remove_worktree(repository, root, record)
    assert not record.tree.exists()


async def test_files_outside_a_sparse_checkout_are_integrated(checkout, root):
    commit(checkout, "more", {"in/x": "x\n", "out/y": "y\n"})
    git(checkout, "sparse-checkout", "set", "in")
    repository, record = ann_of(checkout, root)
    assert not (record.tree / "out").exists()
    write_files(record.tree, {"in/x": "changed\n", "out/new": "new\n"})
    entry = await integrate(repository, record, root)
    assert git(checkout, "show", f"{entry.commit}:out/new") == "new"
    assert git(checkout, "show", f"{entry.commit}:out/y") == "y"
    remove_worktree(repository, root, record)


FILTER = '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge -- %f\n\trequired = true\n'


def test_a_filter_whose_program_is_missing_starts_nothing_and_is_named(checkout, root, tmp_path):
    commit(checkout, "large", {".gitattributes": "*.bin filter=media -text\n", "x.bin": "version 1\n"})
    configure(tmp_path, FILTER.replace("lfs", "media"))
    with pytest.raises(WorktreeRefused, match="smudge filter media failed"):
        ann_of(checkout, root)
    assert list_records(root)[0] == []
    assert git(checkout, "branch", "--format=%(refname:short)") == "main"
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


@needs("git-lfs")
@pytest.mark.slow
async def test_large_files_are_in_a_worktree_and_integrated_as_pointers(checkout, root, tmp_path):
    configure(tmp_path, FILTER)
    write_files(checkout, {".gitattributes": "*.bin filter=lfs -text\n", "x.bin": "large\n" * 1_000})
    for args in (["add", "-A"], ["-c", "user.name=Ann", "-c", "user.email=a@example.org", "commit", "-qm", "large"]):
        assert run_git(checkout, *args, terms=GitCallOptions()).ok
    repository, record = ann_of(checkout, root)
    assert (record.tree / "x.bin").read_text() == "large\n" * 1_000
    write_files(record.tree, {"y.bin": "new\n" * 1_000})
    entry = await integrate(repository, record, root)
    assert git(checkout, "show", f"{entry.commit}:y.bin").startswith("version https://git-lfs.github.com/spec/v1")
    remove_worktree(repository, root, record)


@pytest.mark.slow
async def test_a_shallow_clone_has_worktrees_and_an_integration(checkout, root, tmp_path):
    for number in range(3):
        commit(checkout, f"commit {number}", {f"{number}.txt": "x\n"})
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{checkout}", "shallow")
    repository, record = ann_of(tmp_path / "shallow", root)
    write_files(record.tree, {"a.txt": "changed\n"})
    assert (await integrate(repository, record, root)).state == "merged"
    remove_worktree(repository, root, record)


@pytest.mark.parametrize("name", ["store.git", "store/.git"])
@pytest.mark.slow_after(1)
async def test_a_worktree_of_a_bare_repository_has_members(checkout, root, tmp_path, name):
    git(tmp_path, "clone", "-q", "--bare", str(checkout), name)
    git(tmp_path / name, "worktree", "add", "-q", str(tmp_path / "main"), "main")
    _, record = ann_of(tmp_path / "main", root)
    repository = RepositoryGit.open(Path(record.repository))
    write_files(record.tree, {"a.txt": "changed\n"})
    assert (await integrate(repository, record, root)).state == "merged"
    assert git(tmp_path / "main", "status", "--porcelain") == ""
    remove_worktree(repository, root, record)


@pytest.mark.slow
async def test_a_repository_inside_another_leaves_the_outer_one_alone(checkout, root):
    inner = make_repository(checkout / "inner")
    before = git(checkout, "status", "--porcelain"), git(checkout, "worktree", "list"), git(checkout, "branch")
    repository, record = ann_of(inner, root)
    write_files(record.tree, {"a.txt": "changed\n"})
    assert (await integrate(repository, record, root)).state == "merged"
    remove_worktree(repository, root, record)
    assert (
        git(checkout, "status", "--porcelain"),
        git(checkout, "worktree", "list"),
        git(checkout, "branch"),
    ) == before


@pytest.mark.parametrize("taken", ["teamwright", "teamwright/demo", "teamwright/demo/ann/old"])
def test_a_branch_whose_name_makes_the_own_impossible_is_named(checkout, root, taken):
    git(checkout, "branch", taken)
    with pytest.raises(WorktreeRefused, match=f"beside the branch {taken}") as refused:
        ann_of(checkout, root)
    assert refused.value.do == (f"git branch -m {taken} NAME",)
    assert list_records(root)[0] == []


def test_the_removal_of_a_deleted_worktree_forgets_no_worktree_of_the_person(checkout, repository, root, tmp_path):
    disk = tmp_path / "disk"
    git(checkout, "worktree", "add", "-q", "--detach", str(disk))
    disk.rename(tmp_path / "not mounted")
    _, record = ann_of(checkout, root)
    shutil.rmtree(record.tree)
    remove_worktree(repository, root, record)
    (tmp_path / "not mounted").rename(disk)
    assert git(disk, "status", "--porcelain") == ""
    assert len(git(checkout, "worktree", "list").splitlines()) == 2


@pytest.mark.slow
async def test_settings_of_the_person_for_messages_merges_and_signing_change_nothing(checkout, root, tmp_path):
    configure(
        tmp_path,
        "[commit]\n\tcleanup = strip\n\tgpgsign = true\n\ttemplate = /nonexistent\n[gpg]\n\tprogram = false\n"
        "[merge]\n\tff = only\n\tverifySignatures = true\n[status]\n\tshowUntrackedFiles = no\n"
        "[core]\n\thooksPath = /nonexistent\n",
    )
    repository, record = ann_of(checkout, root)
    write_files(record.tree, {"new.txt": "new\n"})
    assert (await integrate(repository, record, root)).state == "merged"
    assert git(record.tree, "log", "-1", "--format=%s") == "#3 Parse dates (ann)"
    other = create_worktree(repository, root, Owner("demo", "bob", "s")).record
    commit(other.tree, "bob", {"bob.txt": "x\n"})
    bob = MemberWorktree(repository, other, PLAIN)
    assert bob.move(TASK.copy_with(blocked_by=("1",))) == ""
    assert (other.tree / "new.txt").exists()
    assert (other.tree / "bob.txt").exists()


@pytest.mark.parametrize(("hook", "program"), [("pre-commit", "exit 1"), ("commit-msg", "exit 1"), (None, "false")])
@pytest.mark.slow_after(1)
async def test_a_failing_hook_or_signer_refuses_the_completion_and_keeps_the_files(
    checkout, root, tmp_path, hook, program
):
    repository, record = ann_of(checkout, root)
    if hook is None:
        configure(tmp_path, f"[commit]\n\tgpgsign = true\n[gpg]\n\tprogram = {program}\n")
    else:
        path = checkout / ".git/hooks" / hook
        path.write_text(f"#!/bin/sh\necho not today\n{program}\n")
        path.chmod(0o755)
    write_files(record.tree, {"a.txt": "changed\n"})
    command = SetupCommand(COMMIT_WITH_HOOKS, environment=lambda: dict(os.environ), purpose="commit")
    with pytest.raises(WorktreeRefused, match="the commit of the worktree failed"):
        await MemberWorktree(repository, record, command).save(TASK, "ann")
    assert (record.tree / "a.txt").read_text() == "changed\n"
    assert git(record.tree, "rev-parse", "HEAD") == record.base


@pytest.mark.parametrize("value", ["true", "input", "false"])
@pytest.mark.slow_after(1)
async def test_line_ends_that_git_converts_are_no_change(checkout, root, value):
    git(checkout, "config", "core.autocrlf", value)
    repository, record = ann_of(checkout, root)
    assert read_state(repository, record).state == "clean"
    (record.tree / "b.txt").write_bytes(b"one\r\ntwo\r\n")
    assert (await integrate(repository, record, root)).state == "merged"
    assert read_state(repository, record).state == "clean"
    remove_worktree(repository, root, record)


@pytest.mark.slow
async def test_modes_links_and_a_large_binary_are_integrated(checkout, repository, root):
    _, record = ann_of(checkout, root)
    (record.tree / "a.txt").chmod(0o755)
    (record.tree / "link").symlink_to("a.txt")
    (record.tree / "to nowhere").symlink_to("/nonexistent")
    (record.tree / "large.bin").write_bytes(os.urandom(1_000_000) * 4)
    entry = await integrate(repository, record, root)
    modes = {line.split("\t")[1]: line.split()[0] for line in git(checkout, "ls-tree", entry.commit).splitlines()}
    assert (modes["a.txt"], modes["link"], modes["to nowhere"]) == ("100755", "120000", "120000")
    assert git(checkout, "cat-file", "-s", f"{entry.commit}:large.bin") == "4000000"
    remove_worktree(repository, root, record)


@pytest.mark.slow
async def test_operations_in_progress_are_refused_by_a_sentence_or_completed(checkout, repository, root):
    _, record = ann_of(checkout, root)
    tree, worktree = record.tree, MemberWorktree(repository, record, PLAIN)
    commit(tree, "ours", {"a.txt": "ours\n"})
    git(tree, "checkout", "-q", "-b", "side", record.base)
    theirs = commit(tree, "theirs", {"a.txt": "theirs\n"})
    git(tree, "checkout", "-q", "--detach")
    with pytest.raises(WorktreeRefused, match="no branch is checked out"):
        await worktree.save(TASK, "ann")
    git(tree, "checkout", "-q", record.branch)
    with pytest.raises(AssertionError, match="git cherry-pick"):
        git(tree, "cherry-pick", theirs)
    with pytest.raises(WorktreeRefused, match=r"conflict markers are left in a.txt"):
        await worktree.save(TASK, "ann")
    write_files(tree, {"a.txt": "both\n"})
    assert await worktree.save(TASK, "ann") is not None
    assert git(tree, "show", f"{record.branch}:a.txt") == "both"


async def test_a_dirty_index_of_the_person_is_neither_taken_nor_changed(checkout, repository, root):
    write_files(checkout, {"a.txt": "dirty\n", "staged.txt": "x\n"})
    git(checkout, "add", "-A")
    before = git(checkout, "status", "--porcelain")
    _, record = ann_of(checkout, root)
    assert not (record.tree / "staged.txt").exists()
    write_files(record.tree, {"a.txt": "ann\n"})
    await integrate(repository, record, root)
    with pytest.raises(TeamwrightError, match="uncommitted changes"):
        fast_forward(repository, "main", record.integration_branch)
    assert git(checkout, "status", "--porcelain") == before


OLD_GIT = """#!/bin/sh
# A git of version 2.30: options that came later are unknown.
for word in "$@"; do
    case "$word" in
        --write-tree | --sparse) known=no ;;
        version) asked=yes ;;
        list | lock) form=$word ;;
        --reason) test "$form" != lock && known=no ;;
        -z) test "$form" = list && known=no ;;
    esac
done
test -n "$asked" && echo "git version 2.30.2" && exit 0
test -n "$known" && echo "error: unknown option" >&2 && exit 129
exec {git} "$@"
"""


@pytest.mark.slow
async def test_a_git_of_version_2_30_makes_integrates_and_removes_worktrees(checkout, root, tmp_path, monkeypatch):
    programs = tmp_path / "programs"
    write_files(programs, {"git": OLD_GIT.replace("{git}", str(shutil.which("git")))})
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    repository, record = ann_of(checkout, root)
    assert "teamwright" in git(checkout, "worktree", "list", "--porcelain")
    write_files(record.tree, {"a.txt": "ann\n"})
    assert (await integrate(repository, record, root)).state == "merged"
    remove_worktree(repository, root, record)
    repository, record = ann_of(checkout, root)
    git(checkout, "worktree", "unlock", record.path)
    git(checkout, "worktree", "lock", record.path)
    with pytest.raises(WorktreeRefused, match="it is locked"):
        remove_worktree(repository, root, record)


@pytest.mark.finding("3W19")
async def test_a_filter_whose_program_is_missing_is_named_to_the_member(checkout, root):
    commit(checkout, "attributes", {".gitattributes": "*.bin filter=lfs\n"})
    git(checkout, "config", "filter.lfs.process", "git-lfs-is-missing filter-process")
    git(checkout, "config", "filter.lfs.required", "true")
    repository, record = ann_of(checkout, root, trusted=True)
    (record.tree / "x.bin").write_text("large\n")
    with pytest.raises(WorktreeRefused, match=r"git-lfs-is-missing.*not found"):
        await MemberWorktree(repository, record, PLAIN).save(TASK, "ann")
