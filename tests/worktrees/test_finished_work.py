"""The finished work of a member: its files are committed, its worktree moves, a returned commit is merged."""

import os

import pytest

from teamwright.git.repository_risks import git_entries
from teamwright.protocol.errors import CannotStart, WorktreeRefused
from teamwright.protocol.task import INTEGRATION, IntegrationState, Task, TaskIntegration
from teamwright.worktrees.integration import BranchMerge, Integration, MergeStrategy, fast_forward
from teamwright.worktrees.integration_store import FileIntegrationStore, IntegrationEntry
from teamwright.worktrees.member_branch import COMMIT_WITH_HOOKS, MemberWorktree, merge_commit
from teamwright.worktrees.repository_git import RepositoryGit
from teamwright.worktrees.worktree_creation import Owner, SetupCommand, create_worktree, failure_text, note_setup
from teamwright.worktrees.worktree_removal import remove_worktree
from tests.support.repositories import commit, git, make_repository, write_files

PLAIN = SetupCommand()
TASK = Task("3", "Parse dates", "")


@pytest.fixture
def ann(repository, root) -> MemberWorktree:
    return MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "ann", "s")).record, PLAIN)


def queue_of(repository, root, strategy=MergeStrategy.MERGE) -> Integration:
    store = FileIntegrationStore(root.parent / "integration")
    return Integration(repository, root, "demo", store, PLAIN, strategy=strategy)


def returned(work: TaskIntegration, state: IntegrationState) -> Task:
    back = TaskIntegration(state, work.branch, work.tip, work.base)
    return TASK.copy_with(metadata={INTEGRATION: back.to_json()})


async def integrate(queue: Integration, worktree: MemberWorktree, task: Task = TASK):
    work = await worktree.save(task, worktree.record.member)
    assert work is not None
    return await queue.work(await queue.add_task(task.id, work, worktree.record.member))


async def test_uncommitted_files_are_committed_with_the_task_and_the_member_in_the_message(ann):
    write_files(ann.record.tree, {"a.txt": "changed\n", "new/b.txt": "new\n", "x.local": "ignored\n"})
    work = await ann.save(TASK, "ann")
    assert work is not None
    assert work.tip == git(ann.record.tree, "rev-parse", ann.record.branch)
    assert git(ann.record.tree, "log", "--format=%s", "-1") == "#3 Parse dates (ann)"
    assert git(ann.record.tree, "show", "--name-only", "--format=").split() == ["a.txt", "new/b.txt"]
    assert git(ann.record.tree, "status", "--porcelain") == ""


async def test_a_worktree_without_new_commits_adds_none(ann):
    assert await ann.save(TASK, "ann") is None


async def test_files_of_setup_are_not_committed(ann, repository):
    write_files(ann.record.tree, {"made.txt": "by setup\n"})
    record = note_setup(repository, ann.record)
    assert await MemberWorktree(repository, record, PLAIN).save(TASK, "ann") is None
    assert git(record.tree, "status", "--porcelain") == "?? made.txt"


async def test_a_setting_refuses_uncommitted_files(ann, repository):
    write_files(ann.record.tree, {"a.txt": "changed\n"})
    with pytest.raises(WorktreeRefused, match=r"a\.txt of the worktree are not committed"):
        await MemberWorktree(repository, ann.record, PLAIN, commits=False).save(TASK, "ann")
    assert git(ann.record.tree, "status", "--porcelain") == " M a.txt"


@pytest.mark.parametrize("runs", [True, False])
async def test_hooks_run_only_where_the_setting_says_so(ann, repository, checkout, runs):
    hook = checkout / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho no commit today; exit 1\n")
    hook.chmod(0o755)
    write_files(ann.record.tree, {"a.txt": "changed\n"})
    command = SetupCommand(COMMIT_WITH_HOOKS, environment=lambda: dict(os.environ), purpose="commit")
    if runs:
        with pytest.raises(WorktreeRefused) as caught:
            await MemberWorktree(repository, ann.record, command).save(TASK, "ann")
        assert "no commit today" in failure_text(caught.value)
    else:
        assert await ann.save(TASK, "ann") is not None


async def test_work_on_another_branch_is_refused(ann):
    git(ann.record.tree, "checkout", "-q", "--detach")
    with pytest.raises(WorktreeRefused, match="no branch is checked out"):
        await ann.save(TASK, "ann")


async def test_another_branch_that_a_member_checked_out_is_never_moved(ann, repository, root, checkout):
    queue = queue_of(repository, root)
    bob = MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "bob", "s")).record, PLAIN)
    write_files(bob.record.tree, {"b.txt": "bob\n"})
    await integrate(queue, bob, Task("1", "b", ""))
    git(checkout, "branch", "develop")
    before = git(checkout, "rev-parse", "develop")
    git(ann.record.tree, "checkout", "-q", "develop")
    with pytest.raises(WorktreeRefused, match="develop is checked out"):
        ann.move(Task("2", "next", "", blocked_by=("1",)))
    assert git(checkout, "rev-parse", "develop") == before


@pytest.mark.parametrize("place", ["dep", "vendor/dep", "with space/ö"])
@pytest.mark.slow_after(1)
async def test_a_repository_inside_the_worktree_is_refused_by_its_name(ann, place):
    make_repository(ann.record.tree / place)
    write_files(ann.record.tree, {"b.txt": "new\n"})
    with pytest.raises(WorktreeRefused, match=f"{place}/ of the worktree has a git repository"):
        await ann.save(TASK, "ann")
    assert git(ann.record.tree, "diff", "--cached", "--name-only") == ""
    write_files(ann.record.tree, {".gitignore": f"{place}/\n"})
    assert await ann.save(TASK, "ann") is not None
    assert git(ann.record.tree, "show", "--name-only", "--format=").split() == [".gitignore", "b.txt"]


@pytest.mark.slow
async def test_a_conflict_without_markers_is_resolved_only_when_the_member_says_so(ann, repository, root, checkout):
    commit(checkout, "more", {"gone.txt": "one\n", "image.bin": "\0one"})
    ann, bob = (
        MemberWorktree(repository, create_worktree(repository, root, Owner("demo", name, "s")).record, PLAIN)
        for name in ("ann", "bob")
    )
    queue = queue_of(repository, root)
    write_files(ann.record.tree, {"image.bin": "\0ann"})
    (ann.record.tree / "gone.txt").unlink()
    await integrate(queue, ann, Task("1", "a", ""))
    write_files(bob.record.tree, {"image.bin": "\0bob", "gone.txt": "bob\n"})
    work = await bob.save(TASK, "bob")
    assert work is not None
    back = returned(work, IntegrationState.CONFLICT)
    with pytest.raises(WorktreeRefused, match=r"merged into your worktree now"):
        await bob.save(back, "bob")
    with pytest.raises(WorktreeRefused, match=r"conflict in gone\.txt, image\.bin is not resolved"):
        await bob.save(back, "bob")
    git(bob.record.tree, "add", "image.bin")
    (bob.record.tree / "gone.txt").unlink()
    assert (await integrate(queue, bob, back)).state == "merged"
    assert git(checkout, "show", f"{queue.branch}:image.bin") == "\0bob"
    assert "gone.txt" not in git(checkout, "ls-tree", "--name-only", queue.branch)


@pytest.mark.parametrize("strategy", list(MergeStrategy))
@pytest.mark.slow_after(1)
async def test_each_strategy_adds_the_work_once_and_a_member_continues_and_its_worktree_can_go(
    ann, repository, root, checkout, strategy
):
    queue = queue_of(repository, root, strategy)
    bob = MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "bob", "s")).record, PLAIN)
    for number, (who, name) in enumerate([(bob, "bob"), (ann, "ann"), (ann, "more")], 1):
        commit(who.record.tree, f"first of {name}", {f"{name}.txt": "one\n"})
        write_files(who.record.tree, {f"{name}.txt": "two\n"})
        task = Task(str(number), f"work {name}", "")
        assert (await integrate(queue, who, task)).state == "merged"
        assert await who.save(task, who.record.member) is None, "all its commits are integrated"
    assert git(checkout, "show", f"{queue.branch}:more.txt") == "two"
    first_parent = git(checkout, "rev-list", "--count", "--first-parent", f"main..{queue.branch}")
    assert first_parent == ("6" if strategy is MergeStrategy.REBASE else "3")
    assert git(checkout, "rev-list", "--count", "--merges", queue.branch) == (
        "3" if strategy is MergeStrategy.MERGE else "0"
    )
    assert ann.move(Task("9", "next", "", blocked_by=("1",))) == ""
    assert git(ann.record.tree, "rev-parse", "HEAD") == git(checkout, "rev-parse", queue.branch)
    for worktree in (ann, bob):
        remove_worktree(repository, root, worktree.record)
    assert git(checkout, "fsck", "--no-progress", "--no-dangling") == ""


@pytest.mark.slow
async def test_a_git_before_2_38_merges_in_the_integration_worktree(ann, repository, root, checkout, monkeypatch):
    monkeypatch.setattr("teamwright.worktrees.integration._git_version", lambda _git: (2, 37))
    queue = queue_of(repository, root)
    bob = MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "bob", "s")).record, PLAIN)
    write_files(ann.record.tree, {"a.txt": "ann\n"})
    write_files(bob.record.tree, {"a.txt": "bob\n"})
    assert (await integrate(queue, ann, Task("1", "a", ""))).state == "merged"
    refused = await integrate(queue, bob, Task("2", "b", ""))
    assert (refused.state, refused.paths) == ("conflict", ("a.txt",))
    assert queue.worktree.exists
    assert git(checkout, "show", f"{queue.branch}:a.txt") == "ann"


@pytest.mark.parametrize("strategy", list(MergeStrategy))
@pytest.mark.slow
async def test_each_strategy_integrates_a_conflict_once_no_marker_is_left_with_all_that_the_member_changed(
    ann, repository, root, checkout, strategy
):
    queue = queue_of(repository, root, strategy)
    bob = MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "bob", "s")).record, PLAIN)
    write_files(ann.record.tree, {"a.txt": "ann\n"})
    write_files(bob.record.tree, {"a.txt": "bob\n"})
    await integrate(queue, ann, Task("1", "a", ""))
    work = await bob.save(TASK, "bob")
    assert work is not None
    back = returned(work, IntegrationState.CONFLICT)
    with pytest.raises(WorktreeRefused, match=r"conflict markers: a\.txt"):
        await bob.save(back, "bob")
    with pytest.raises(WorktreeRefused, match=r"conflict markers are left in a\.txt"):
        await bob.save(back, "bob")
    write_files(bob.record.tree, {"a.txt": "both\n", "new.txt": "new\n"})
    write_files(ann.record.tree, {"c.txt": "ann\n"})
    await integrate(queue, ann, Task("2", "c", ""))
    assert (await integrate(queue, bob, back)).state == "merged"
    shown = [git(checkout, "show", f"{queue.branch}:{name}") for name in ("a.txt", "new.txt", "c.txt")]
    assert shown == ["both", "new", "ann"]
    write_files(bob.record.tree, {"a.txt": "again\n"})
    assert (await integrate(queue, bob, Task("4", "d", ""))).state == "merged"
    assert git(checkout, "show", f"{queue.branch}:a.txt") == "again"


@pytest.mark.parametrize("version", [(2, 37), (2, 38)])
@pytest.mark.parametrize("strategy", list(MergeStrategy))
@pytest.mark.slow_after(1)
async def test_each_strategy_integrates_a_second_change_of_the_same_line_before_the_member_knows_of_the_first(
    ann, repository, root, checkout, strategy, version, monkeypatch
):
    monkeypatch.setattr("teamwright.worktrees.integration._git_version", lambda _git: version)
    queue = queue_of(repository, root, strategy)
    bob = MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "bob", "s")).record, PLAIN)
    write_files(bob.record.tree, {"b.txt": "bob\n"})
    await integrate(queue, bob, Task("1", "b", ""))
    entries: list[IntegrationEntry] = []
    for number in ("2", "3"):
        write_files(ann.record.tree, {"a.txt": f"of {number}\n"})
        work = await ann.save(Task(number, "a", ""), "ann")
        assert work is not None
        entries.append(await queue.add_task(number, work, "ann"))
    assert [(await queue.work(entry)).state for entry in entries] == ["merged", "merged"]
    assert git(checkout, "show", f"{queue.branch}:a.txt") == "of 3"
    assert git(checkout, "show", f"{queue.branch}:b.txt") == "bob"


@pytest.mark.slow
async def test_setup_runs_in_the_worktree_of_the_checks_until_it_succeeded_once(ann, repository, root, tmp_path):
    setup = SetupCommand(f"echo x >> {tmp_path}/runs; test -e {tmp_path}/ready", environment=lambda: dict(os.environ))
    check = SetupCommand("true", environment=lambda: dict(os.environ), purpose="check")
    store = FileIntegrationStore(root.parent / "integration")
    # A rebase checks out in this worktree before the check does.
    queue = Integration(repository, root, "demo", store, check, setup, MergeStrategy.REBASE)
    states: list[str] = []
    for number in ("1", "2", "3", "4"):
        write_files(ann.record.tree, {f"{number}.txt": "x\n"})
        states.append((await integrate(queue, ann, Task(number, "a", ""))).state)
        if number == "2":
            (tmp_path / "ready").touch()
    assert states == ["failed", "failed", "merged", "merged"]
    # Three commits until it succeeded, and once the branch without the first commit, to learn who is to blame.
    assert (tmp_path / "runs").read_text() == "x\n" * 4


async def test_the_next_owner_of_a_returned_task_gets_the_commits_of_the_former_one(ann, repository, root):
    queue = queue_of(repository, root)
    bob = MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "bob", "s")).record, PLAIN)
    write_files(ann.record.tree, {"a.txt": "ann\n"})
    work = await ann.save(TASK, "ann")
    assert work is not None
    note = bob.move(returned(work, IntegrationState.FAILED))
    assert ann.record.branch in note
    assert (bob.record.tree / "a.txt").read_text() == "ann\n"
    assert (await integrate(queue, bob)).state == "merged"


async def test_a_taken_over_task_is_integrated_with_the_former_work_when_the_worktree_could_not_move(
    ann, repository, root, checkout
):
    queue = queue_of(repository, root)
    bob = MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "bob", "s")).record, PLAIN)
    write_files(ann.record.tree, {"ann.txt": "ann\n", "a.txt": "ann\n"})
    work = await ann.save(TASK, "ann")
    assert work is not None
    task = returned(work, IntegrationState.FAILED)
    write_files(bob.record.tree, {"a.txt": "bob\n"})
    with pytest.raises(WorktreeRefused, match="uncommitted changes"):
        bob.move(task)
    with pytest.raises(WorktreeRefused, match=r"begun on .*/ann, .*conflict markers: a\.txt"):
        await bob.save(task, "bob")
    write_files(bob.record.tree, {"a.txt": "both\n"})
    assert (await integrate(queue, bob, task)).state == "merged"
    assert git(checkout, "show", f"{queue.branch}:ann.txt") == "ann"
    assert git(checkout, "show", f"{queue.branch}:a.txt") == "both"


@pytest.mark.slow
async def test_the_former_work_is_merged_also_when_the_own_commits_conflict_with_the_team(ann, repository, root):
    queue = queue_of(repository, root)
    bob, cid = (
        MemberWorktree(repository, create_worktree(repository, root, Owner("demo", name, "s")).record, PLAIN)
        for name in ("bob", "cid")
    )
    write_files(cid.record.tree, {"a.txt": "cid\n"})
    await integrate(queue, cid, Task("1", "c", ""))
    write_files(ann.record.tree, {"ann.txt": "ann\n"})
    work = await ann.save(TASK, "ann")
    assert work is not None
    commit(bob.record.tree, "own", {"a.txt": "bob\n"})
    note = bob.move(returned(work, IntegrationState.FAILED).copy_with(blocked_by=("1",)))
    assert "was not moved" in note
    assert (bob.record.tree / "ann.txt").read_text() == "ann\n"


@pytest.mark.parametrize("strategy", list(MergeStrategy))
@pytest.mark.slow_after(1)
async def test_the_next_owner_of_a_returned_task_keeps_the_integrated_work(ann, repository, root, strategy):
    queue = queue_of(repository, root, strategy)
    bob = MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "bob", "s")).record, PLAIN)
    write_files(ann.record.tree, {"ann.txt": "ann\n"})
    work = await ann.save(TASK, "ann")
    assert work is not None
    write_files(bob.record.tree, {"bob.txt": "bob\n"})
    await integrate(queue, bob, Task("1", "b", ""))
    bob.move(returned(work, IntegrationState.FAILED))
    assert (bob.record.tree / "ann.txt").read_text() == "ann\n"
    assert (bob.record.tree / "bob.txt").read_text() == "bob\n"


async def test_an_unchanged_commit_whose_check_failed_is_refused_and_the_branch_is_merged(ann, repository, root):
    queue = queue_of(repository, root)
    bob = MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "bob", "s")).record, PLAIN)
    write_files(bob.record.tree, {"b.txt": "bob\n"})
    await integrate(queue, bob, Task("1", "b", ""))
    write_files(ann.record.tree, {"a.txt": "ann\n"})
    work = await ann.save(TASK, "ann")
    assert work is not None
    with pytest.raises(WorktreeRefused, match="nothing was changed since"):
        await ann.save(returned(work, IntegrationState.FAILED), "ann")
    assert (ann.record.tree / "b.txt").read_text() == "bob\n"


async def test_a_worktree_with_uncommitted_files_is_not_moved(ann, repository, root):
    queue = queue_of(repository, root)
    bob = MemberWorktree(repository, create_worktree(repository, root, Owner("demo", "bob", "s")).record, PLAIN)
    write_files(bob.record.tree, {"b.txt": "bob\n"})
    await integrate(queue, bob, Task("1", "b", ""))
    write_files(ann.record.tree, {"a.txt": "mine\n"})
    with pytest.raises(WorktreeRefused, match="uncommitted changes"):
        ann.move(Task("2", "next", "", blocked_by=("1",)))
    assert (ann.record.tree / "a.txt").read_text() == "mine\n"


async def test_a_git_that_fails_leaves_the_entry_in_the_queue(ann, repository, root):
    queue = queue_of(repository, root)
    write_files(ann.record.tree, {"a.txt": "ann\n"})
    work = await ann.save(TASK, "ann")
    assert work is not None
    check = SetupCommand("true", environment=lambda: dict(os.environ))
    broken = Integration(repository, root, "demo", queue.store, check)
    broken.worktree.tree.parent.mkdir(parents=True, exist_ok=True)
    broken.worktree.tree.write_text("a file where the worktree of the checks belongs")
    entry = await broken.add_task("3", work, "ann")
    with pytest.raises(WorktreeRefused):
        await broken.work(entry)
    assert [one.state for one in await queue.store.entries()] == ["queued"]
    broken.worktree.tree.unlink()
    assert [one.state for one in await broken.run()] == ["merged"]


@pytest.mark.finding("3W15")
async def test_hooks_in_a_directory_that_worktrees_do_not_have_are_reported(ann, repository, checkout):
    plain = MemberWorktree(repository, ann.record, PLAIN)
    command = SetupCommand(COMMIT_WITH_HOOKS, environment=lambda: dict(os.environ), purpose="commit")
    assert MemberWorktree(repository, ann.record, command).missing_hooks() == ""
    git(checkout, "config", "core.hooksPath", ".husky/_")
    trusted = RepositoryGit.open(checkout, frozenset(git_entries(checkout)))
    with_hooks = MemberWorktree(trusted, ann.record, command)
    assert "core.hooksPath is .husky/_, which the worktree of ann does not have" in with_hooks.missing_hooks()
    assert plain.missing_hooks() == ""
    (ann.record.tree / ".husky" / "_").mkdir(parents=True)
    assert with_hooks.missing_hooks() == ""


PLAIN_FILTER, NEW_FILTER = "tr a-z A-Z\n", "touch {marker}; tr a-z A-Z\n"


@pytest.fixture
def filtered(checkout) -> RepositoryGit:
    """A repository whose trusted filter is a script of the project: it writes `z.y` in capitals."""
    write_files(checkout, {".gitattributes": "*.y filter=x\n", "tools/smudge.sh": PLAIN_FILTER, "z.y": "zero\n"})
    commit(checkout, "filter")
    git(checkout, "config", "filter.x.smudge", "sh tools/smudge.sh")
    git(checkout, "config", "filter.x.clean", "tr A-Z a-z")
    return RepositoryGit.open(checkout, frozenset(git_entries(checkout)))


def add_team_work(checkout, script: str) -> str:
    """Put a commit with this filter, a new `z.y` and the filtered file `new/a.y` onto the team's branch."""
    git(checkout, "checkout", "-q", "-b", "work")
    files = {"tools/smudge.sh": script, "z.y": "one\n", "new/a.y": "new\n"}
    write_files(checkout, files)
    tip = commit(checkout, "team work")
    git(checkout, "update-ref", "refs/heads/teamwright/demo/integration", tip)
    git(checkout, "-c", "filter.x.smudge=", "-c", "filter.x.required=false", "checkout", "-q", "main")
    (checkout / "z.y").write_text("ZERO\n")
    return tip


@pytest.mark.parametrize("is_changed", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "command",
    [
        "merge",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("conflict", "reset", "fast-forward", "check", "rebase")
        ),
    ],
)
async def test_no_command_that_brings_other_files_runs_the_new_script_of_a_filter(
    checkout, root, tmp_path, filtered, command, is_changed
):
    marker = tmp_path / "ran"
    record = create_worktree(filtered, root, Owner("demo", "ann", "s")).record
    own = {"merge": {"own.txt": "own\n"}, "conflict": {"own.txt": "own\n", "z.y": "TWO\n"}, "rebase": {"b.y": "B\n"}}
    if command in own:
        write_files(record.tree, own[command])
        commit(record.tree, "own")
    tip = add_team_work(checkout, NEW_FILTER.format(marker=marker) if is_changed else PLAIN_FILTER)
    before = git(record.tree, "rev-parse", "HEAD"), git(checkout, "rev-parse", "main")
    marker.unlink(missing_ok=True)
    place = record.tree

    def run() -> None:
        nonlocal place
        if command == "fast-forward":
            place = checkout
            fast_forward(filtered, "main", tip)
        elif command in {"check", "rebase"}:
            queue = queue_of(filtered, root, MergeStrategy.REBASE)
            place = queue.worktree.tree
            entry = IntegrationEntry("1", "work", tip, before[1], "bob", "demo", "", 1)
            old = before[0] if command == "rebase" else before[1]
            merged = BranchMerge(filtered, queue.worktree, MergeStrategy.REBASE).make(entry, old)
            assert isinstance(merged, str)
            queue.worktree.check_out(merged)
        else:
            merge_commit(filtered, record, tip, "work")

    if is_changed:
        with pytest.raises(CannotStart) as caught:
            run()
        assert caught.value.slug == "untrusted"
        assert (git(record.tree, "rev-parse", "HEAD"), git(checkout, "rev-parse", "main")) == before
        assert (record.tree / "z.y").read_text() == own.get(command, {}).get("z.y", "ZERO\n")
        assert git(record.tree, "status", "--porcelain") == "" and not (record.tree / "new").exists()
    else:
        run()
        assert (place / "new" / "a.y").read_text() == "NEW\n"
        if command != "conflict":
            assert (place / "z.y").read_text() == "ONE\n" and git(place, "status", "--porcelain") == ""
    assert not marker.exists()


@pytest.mark.parametrize("place", ["worktree", "checkout"])
def test_a_filter_that_fails_after_a_merge_leaves_every_file_where_it_is(checkout, root, tmp_path, filtered, place):
    git(checkout, "config", "filter.x.smudge", f"test ! -e {tmp_path}/offline && sh tools/smudge.sh")
    git(checkout, "config", "filter.x.required", "true")
    repository = RepositoryGit.open(checkout, frozenset(git_entries(checkout)))
    record = create_worktree(repository, root, Owner("demo", "ann", "s")).record
    tip = add_team_work(checkout, PLAIN_FILTER)
    (tmp_path / "offline").touch()
    with pytest.raises(WorktreeRefused, match="filter"):
        if place == "worktree":
            merge_commit(repository, record, tip, "work")
        else:
            fast_forward(repository, "main", tip)
    tree = record.tree if place == "worktree" else checkout
    assert {name: (tree / name).read_text() for name in ("z.y", "new/a.y")} == {"z.y": "one\n", "new/a.y": "new\n"}
    assert git(tree, "status", "--porcelain") == ""
