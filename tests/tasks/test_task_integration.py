"""The task list and the work of members in worktrees: a completion adds a commit, a claim moves the worktree."""

import pytest

from teamwright.protocol.errors import TaskRefused
from teamwright.protocol.task import IntegrationState, Task, TaskIntegration
from teamwright.tasks.task_list import TaskList

QUEUED = TaskIntegration(IntegrationState.QUEUED, "teamwright/demo/ann", "b" * 40, "a" * 40)


class Worktrees:
    """A double of the port: ann has a worktree. `moves` are the tasks that a member began, with its name."""

    def __init__(self) -> None:
        self.refuses = False
        self.moves: list[tuple[str, str]] = []

    async def save(self, task: Task, by: str) -> TaskIntegration | None:
        if self.refuses:
            raise TaskRefused("work_not_committed", f"#{task.id} is not completed", do=["commit"])
        return QUEUED if (task.owner or by) == "ann" else None

    def has(self, member: str) -> bool:
        return member == "ann"

    async def move(self, task: Task, member: str) -> None:
        self.moves.append((task.id, member))


@pytest.fixture
def worktrees() -> Worktrees:
    return Worktrees()


@pytest.fixture
def listed(tasks, worktrees) -> TaskList:
    return TaskList(tasks.store, work=worktrees)


async def outcome(listed, state: IntegrationState, *, keeps_owner: bool = True):
    return await listed.settle(
        "1", TaskIntegration(state, QUEUED.branch, QUEUED.tip, QUEUED.base), keeps_owner=keeps_owner
    )


async def test_a_completion_notes_the_commit_and_dependents_wait(listed):
    await listed.create("parse", "", by="team-lead")
    await listed.create("print", "", by="team-lead", blocked_by=["1"])
    done = await listed.update("1", by="ann", status="completed")
    assert done.task.integration == QUEUED
    assert done.unblocked == ()
    assert done.changed == ("owner", "status")
    assert (await listed.get_with_blockers("2"))[1] == ["1"]
    merged = await outcome(listed, IntegrationState.MERGED)
    assert merged is not None and merged.status == "completed"
    assert (await listed.get_with_blockers("2"))[1] == []
    assert await outcome(listed, IntegrationState.MERGED) is None, "the second report changes nothing"


async def test_the_task_of_a_member_without_a_worktree_is_finished_at_once(listed):
    await listed.create("parse", "", by="team-lead")
    done = await listed.update("1", by="ben", status="completed")
    assert done.task.integration is None
    assert done.task.is_finished


async def test_a_refused_commit_leaves_the_task_as_it_was(listed, worktrees):
    await listed.create("parse", "", by="team-lead", owner="ann")
    worktrees.refuses = True
    with pytest.raises(TaskRefused):
        await listed.update("1", by="ann", status="completed")
    task = await listed.get("1")
    assert task is not None and task.status == "pending" and task.metadata is None


@pytest.mark.parametrize(("keeps_owner", "status", "owner"), [(True, "in_progress", "ann"), (False, "pending", None)])
async def test_a_returned_commit_opens_the_task_again(listed, keeps_owner, status, owner):
    await listed.create("parse", "", by="team-lead")
    await listed.update("1", by="ann", status="completed")
    back = await outcome(listed, IntegrationState.CONFLICT, keeps_owner=keeps_owner)
    assert back is not None and (back.status, back.owner) == (status, owner)
    assert back.integration is not None and back.integration.state == "conflict"


async def test_the_outcome_of_an_earlier_commit_does_not_concern_a_later_one(listed):
    await listed.create("parse", "", by="team-lead")
    await listed.update("1", by="ann", status="completed")
    earlier = TaskIntegration(IntegrationState.CONFLICT, QUEUED.branch, "c" * 40, QUEUED.base)
    assert await listed.settle("1", earlier, keeps_owner=True) is None
    assert await listed.settle("9", earlier, keeps_owner=True) is None


async def test_a_member_that_begins_a_task_gets_a_moved_worktree_once(listed, worktrees):
    for subject in "abc":
        await listed.create(subject, "", by="team-lead")
    await listed.claim_next("ann")
    await listed.update("2", by="ben", status="in_progress")
    await listed.update("2", by="ben", status="in_progress")
    await listed.update("3", by="team-lead", lead=True, owner="ann")
    assert worktrees.moves == [("1", "ann"), ("2", "ben")]


async def test_the_worktree_of_a_member_is_moved_when_the_lead_starts_its_task(listed, worktrees):
    await listed.create("parse", "", by="team-lead")
    await listed.update("1", by="team-lead", lead=True, owner="ann", status="in_progress")
    assert worktrees.moves == [("1", "ann")]


async def test_only_the_runtime_writes_the_note(listed):
    await listed.create("parse", "", by="team-lead", metadata={"integration": QUEUED.to_json()})
    await listed.update("1", by="ben", metadata={"integration": QUEUED.to_json()})
    task = await listed.get("1")
    assert task is not None and task.integration is None
