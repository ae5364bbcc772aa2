"""The runtime commits no private, generated or large file and no loss of most files; the member's own git may."""

import shutil

import pytest
from msgspec.structs import replace

from teamwright.protocol.errors import WorktreeRefused
from teamwright.protocol.task import Task
from teamwright.worktrees.commit_limits import CommitLimits, is_private
from teamwright.worktrees.member_branch import MemberWorktree
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, SetupCommand, create_worktree
from tests.support.repositories import commit, git, make_repository, write_files

TASK = Task("3", "Parse dates", "")


@pytest.fixture
def ann(tmp_path, root) -> MemberWorktree:
    """A member in a repository of twenty files without a `.gitignore`."""
    checkout = make_repository(tmp_path / "big", {f"src/{number}.c": f"{number}\n" for number in range(20)})
    repository = RepositoryGit.open(checkout)
    record = create_worktree(repository, root, Owner("demo", "ann", "s")).record
    return MemberWorktree(repository, record, SetupCommand())


async def refused(ann: MemberWorktree) -> str:
    head = git(ann.record.tree, "rev-parse", "HEAD")
    with pytest.raises(WorktreeRefused) as caught:
        await ann.save(TASK, "ann")
    assert git(ann.record.tree, "rev-parse", "HEAD") == head
    return caught.value.what


PRIVATE = [
    *(".env", "app/.env.production", "id_ed25519", "keys/id_rsa", ".netrc", ".ssh/config", "home/.aws/credentials"),
    *("store.jks", "cert.p12", "terraform.tfstate", ".pgpass"),
]
GENERATED = ["node_modules/x/i.js", "web/node_modules/x/i.js", "src/__pycache__/a.pyc", ".venv/bin/python"]


@pytest.mark.finding("3W10")
@pytest.mark.parametrize("path", [*PRIVATE, *GENERATED])
@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.slow_after(3)
async def test_a_private_or_generated_file_refuses_the_completion_and_is_named(ann, path, staged):
    write_files(ann.record.tree, {path: "x\n", "work.txt": "x\n"})
    if staged:
        git(ann.record.tree, "add", "--all")
    what = await refused(ann)
    shown = f"{path} (private)" if path in PRIVATE else "/ (generated)"
    assert shown in what
    assert "work.txt" not in what
    write_files(ann.record.tree, {".gitignore": f"{path}\n"})
    git(ann.record.tree, "reset", "-q")
    work = await ann.save(TASK, "ann")
    assert git(ann.record.tree, "show", "--name-only", "--format=", work.tip).split() == [".gitignore", "work.txt"]


@pytest.mark.finding("3W10")
async def test_what_the_member_commits_by_name_is_integrated(ann):
    write_files(ann.record.tree, {".env": "x\n"})
    git(ann.record.tree, "add", ".env")
    git(ann.record.tree, "commit", "-q", "-m", "the example")
    assert (await ann.save(TASK, "ann")).tip == git(ann.record.tree, "rev-parse", "HEAD")
    write_files(ann.record.tree, {".env": "y\n"})
    assert await ann.save(TASK, "ann") is not None, "it is in a commit already"


@pytest.mark.finding("3W10")
@pytest.mark.parametrize(
    ("name", "content", "private"),
    [
        (".env.example", "KEY=\n", False),
        ("id_ed25519.pub", "ssh-ed25519 x\n", False),
        ("cert.pem", "-----BEGIN CERTIFICATE-----\n", False),
        ("key.pem", "-----BEGIN RSA PRIVATE KEY-----\n", True),
        ("KEY.PEM", "-----BEGIN PRIVATE KEY-----\n", True),
        (".npmrc", "save-exact=true\n", False),
        (".npmrc", "//registry.npmjs.org/:_authToken=x\n", True),
        ("account.json", '{"type": "service_account", "private_key": "x"}', True),
        ("package.json", '{"name": "x"}', False),
        ("environment.ts", "export {}\n", False),
    ],
)
def test_a_name_that_is_private_only_sometimes_is_judged_by_the_content(tmp_path, name, content, private):
    (tmp_path / name).write_text(content)
    assert is_private(tmp_path, name) is private


@pytest.mark.finding("3W10")
async def test_large_files_and_a_large_commit_are_refused_with_their_sizes(ann):
    ann = replace(ann, limits=CommitLimits(1_000, 2_500))
    write_files(ann.record.tree, {"dump.bin": "x" * 1_500})
    assert "dump.bin (0.0 MB; the limit is 0.001 MB)" in await refused(ann)
    (ann.record.tree / "dump.bin").unlink()
    write_files(ann.record.tree, {f"part{number}": "x" * 900 for number in range(3)})
    assert "together" in await refused(ann)
    (ann.record.tree / "part0").unlink()
    assert await ann.save(TASK, "ann") is not None


@pytest.mark.finding("3W10")
async def test_a_file_that_was_large_already_may_change_and_zero_means_no_limit(ann):
    commit(ann.record.tree, "large", {"dump.bin": "x" * 1_500})
    ann = replace(ann, limits=CommitLimits(1_000, 0))
    write_files(ann.record.tree, {"dump.bin": "y" * 1_600})
    assert await ann.save(TASK, "ann") is not None
    write_files(ann.record.tree, {"new.bin": "y" * 1_600})
    assert "new.bin" in await refused(ann)
    assert await replace(ann, limits=CommitLimits(0, 0)).save(TASK, "ann") is not None


@pytest.mark.finding("3W1")
@pytest.mark.parametrize("also", [{}, {"report.txt": "done\n"}])
@pytest.mark.parametrize("left", [0, 5])
async def test_the_loss_of_most_files_is_not_committed_unless_git_removed_them(ann, left, also):
    tree = ann.record.tree
    for number in range(left, 20):
        (tree / f"src/{number}.c").unlink()
    write_files(tree, also)
    what = await refused(ann)
    assert f"{20 - left} of 20 files are gone from the worktree" in what
    git(tree, "rm", "-q", *[f"src/{number}.c" for number in range(left, 20)])
    work = await ann.save(TASK, "ann")
    assert git(tree, "ls-tree", "-r", "--name-only", work.tip).count(".c") == left


@pytest.mark.finding("3W1")
async def test_a_few_deletions_and_a_move_of_all_files_are_committed(ann):
    tree = ann.record.tree
    for number in range(10):
        (tree / f"src/{number}.c").unlink()
    assert await ann.save(TASK, "ann") is not None
    shutil.move(tree / "src", tree / "lib")
    work = await ann.save(TASK, "ann")
    assert git(tree, "ls-tree", "--name-only", work.tip) == "lib"
