"""The review of finished work, as the task list knows it."""

import pytest

from teamwright.protocol.errors import TaskRefused, UsageError
from teamwright.protocol.task import (
    MAX_RETURNS,
    IntegrationState,
    Reviewer,
    ReviewState,
    Task,
    TaskIntegration,
    TaskStatus,
)
from teamwright.tasks.completion_conditions import ReviewAnswer, task_notes, withdraw
from teamwright.tasks.task_list import TaskList

pytestmark = pytest.mark.finding("L8")

YES, NO = ReviewAnswer(True), ReviewAnswer(False, "Rename it.")


async def submit(tasks: TaskList, review: str = "member", **more) -> Task:
    await tasks.create("parse", "", by="team-lead", metadata={"review": review, **more})
    await tasks.create("print", "", by="team-lead", blocked_by=["1"])
    await tasks.update("1", by="ann", status="in_progress")
    return (await tasks.update("1", by="ann", status="completed")).task


async def chosen(tasks: TaskList, name: str) -> Task:
    task = await tasks.get("1")
    assert task is not None
    found = await tasks.choose_reviewer(task, name)
    assert found is not None
    return found


async def refused(code: str, call) -> None:
    with pytest.raises(TaskRefused) as caught:
        await call
    assert caught.value.code == code


async def test_a_submission_is_no_completion_before_the_approval(tasks):
    task = await submit(tasks)
    assert task.status is TaskStatus.IN_PROGRESS and task.in_review
    assert (await tasks.get_with_blockers("2"))[1] == ["1"]
    await chosen(tasks, "ben")
    assert task_notes(await tasks.get("1"), ()) == ("in review by ben",)
    done = await tasks.answer_review("1", YES, by="ben")
    assert done.status is TaskStatus.COMPLETED and (await tasks.get_with_blockers("2"))[1] == []
    await refused("not_in_review", tasks.answer_review("1", YES, by="ben"))


async def test_completing_it_once_more_changes_nothing(tasks):
    before = await submit(tasks)
    assert (await tasks.update("1", by="ann", status="completed")).task == before


async def test_a_member_is_never_the_reviewer_of_its_own_work(tasks):
    await submit(tasks)
    await refused("reserved", tasks.answer_review("1", YES, by="ann"))
    await chosen(tasks, "ben")
    await refused("reserved", tasks.answer_review("1", YES, by="cid"))
    await refused("reserved", tasks.answer_review("1", YES, by="ann"))


async def test_the_lead_does_not_review_its_own_work(tasks):
    await tasks.create("parse", "", by="team-lead", owner="team-lead", metadata={"review": "lead"})
    done = await tasks.update("1", by="team-lead", lead=True, status="completed")
    assert done.task.in_review
    await refused("reserved", tasks.answer_review("1", YES, by="team-lead", lead=True))


async def test_a_review_by_a_person_is_answered_by_a_person_alone(tasks):
    await submit(tasks, "human")
    await chosen(tasks, "user")
    for name, lead in (("team-lead", True), ("ben", False), ("ann", False)):
        await refused("reserved", tasks.answer_review("1", YES, by=name, lead=lead))
    assert (await tasks.answer_review("1", YES, by="user", lead=True)).status is TaskStatus.COMPLETED


async def test_returned_work_is_open_again_with_its_owner_and_needs_a_comment(tasks):
    await submit(tasks)
    await chosen(tasks, "ben")
    with pytest.raises(UsageError):
        await tasks.answer_review("1", ReviewAnswer(False, " "), by="ben")
    back = await tasks.answer_review("1", NO, by="ben")
    assert (back.status, back.owner) == (TaskStatus.IN_PROGRESS, "ann") and not back.in_review
    assert back.review_note is not None and back.review_note.comment == "Rename it."
    again = (await tasks.update("1", by="ann", status="completed")).task
    assert again.review_note is not None and (again.review_note.round, again.review_note.returns) == (2, 1)
    assert again.review_note.reviewer == "" and again.review_note.asked == ()


async def test_after_the_last_return_the_task_belongs_to_the_lead(tasks):
    task = await submit(tasks)
    for _ in range(MAX_RETURNS):
        await chosen(tasks, "ben")
        task = await tasks.answer_review("1", NO, by="ben")
        if task.owner == "ann":
            await tasks.update("1", by="ann", status="completed")
    assert (task.status, task.owner) == (TaskStatus.PENDING, "team-lead")
    given = (await tasks.update("1", by="team-lead", lead=True, owner="cid")).task
    assert given.review_note is not None and given.review_note.returns == 0


class Commits:
    """The port to worktrees: ann commits once."""

    TIP = TaskIntegration(IntegrationState.QUEUED, "teamwright/demo/ann", "b" * 40, "a" * 40)

    async def save(self, task: Task, by: str) -> TaskIntegration:
        return self.TIP

    def has(self, member: str) -> bool:
        return True

    async def move(self, task: Task, member: str) -> None:
        pass


async def test_only_an_approved_commit_is_queued_for_integration(tasks):
    listed = TaskList(tasks.store, work=Commits())
    task = await submit(listed)
    assert task.integration is None and task.review_note is not None and task.review_note.work == Commits.TIP
    await chosen(listed, "ben")
    back = await listed.answer_review("1", NO, by="ben")
    assert back.integration is not None and back.integration.state is IntegrationState.RETURNED
    await listed.update("1", by="ann", status="completed")
    await chosen(listed, "ben")
    done = await listed.answer_review("1", YES, by="ben")
    assert done.integration == Commits.TIP and done.awaits_integration


async def test_the_end_of_the_author_does_not_release_work_in_review(tasks):
    await submit(tasks)
    assert await tasks.release("ann") == []
    assert (await tasks.get("1")).in_review


async def test_a_taken_back_task_waits_for_no_review(tasks):
    await submit(tasks)
    back = (await tasks.update("1", by="ann", status="pending")).task
    assert not back.in_review and back.review_note is not None and back.review_note.state is ReviewState.WORKING
    await refused("not_in_review", tasks.answer_review("1", YES, by="ben"))


async def test_the_stricter_of_the_tasks_and_the_teams_review_applies_and_no_agent_lowers_it(tasks):
    listed = TaskList(tasks.store, review=Reviewer.LEAD)
    for number, (own, effective) in enumerate([(None, "lead"), ("member", "lead"), ("human", "human")], 1):
        task = await listed.create("a", "", by="team-lead", metadata={"review": own} if own else None)
        assert task.id == str(number) and task.review == effective
    for wish in ({"review": "member"}, {"metadata": {"review": None}}, {"metadata": {"review": "lead"}}):
        await refused("review_kept", listed.update("3", by="team-lead", lead=True, **wish))
    assert (await listed.update("1", by="team-lead", lead=True, review="human")).task.review == "human"
    assert (await listed.update("1", by="user", lead=True, review="member")).task.review == "member"


async def test_only_the_runtime_writes_the_note_of_a_review(tasks):
    await submit(tasks)
    forged = {"reviewed": {"state": "approved", "begun": 0}}
    await tasks.update("1", by="ann", metadata=forged)
    await tasks.create("forged", "", by="ann", metadata=forged)
    assert (await tasks.get("1")).in_review and (await tasks.get("3")).review_note is None


async def test_a_completion_by_a_person_counts_as_the_approval(tasks):
    await tasks.create("parse", "", by="team-lead", metadata={"review": "human"})
    done = (await tasks.update("1", by="user", status="completed")).task
    assert done.is_finished and done.review_note is not None and done.review_note.state is ReviewState.APPROVED
    assert await tasks.submit_unapproved(done) is None


async def test_an_approval_does_not_count_for_work_that_was_opened_again(tasks):
    await submit(tasks)
    await chosen(tasks, "ben")
    done = await tasks.answer_review("1", YES, by="ben")
    again = withdraw(done, done.copy_with(status=TaskStatus.IN_PROGRESS))
    assert again.review_note is not None and again.review_note.state is ReviewState.WORKING
    completed = again.copy_with(status=TaskStatus.COMPLETED)
    assert completed.awaits_approval and not completed.is_finished and done.is_finished
