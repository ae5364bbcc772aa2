"""A change of a task by a member's own process is that member's, however late the process says so."""

import asyncio

import pytest

from teamwright.protocol.events import TaskInfo
from teamwright.protocol.task import Task, TaskStatus
from teamwright.teams.outside import TOLD_TASKS, Outside
from teamwright.teams.scribe import doubt
from teamwright.teams.scribe.doubt import Doubt
from teamwright.teams.team import task_info

TASK = Task("1", "one", "", owner="dee", status=TaskStatus.IN_PROGRESS)
DONE = TASK.with_(status=TaskStatus.COMPLETED)
OTHERS = TASK.with_(id="2", owner="zoe@session-12345678", status=TaskStatus.COMPLETED)


@pytest.mark.finding("T24")
async def test_a_change_of_a_member_s_task_is_held_until_its_process_tells_of_it_and_others_are_told_soon(monkeypatch):
    monkeypatch.setattr(doubt, "WITHIN_S", 0.0)
    woken, outside = asyncio.Event(), Outside(processes={"dee"})
    held = Doubt(outside, woken.set)
    assert held.hold((TASK, DONE)) and held.hold((None, OTHERS))
    await asyncio.sleep(0)
    assert [after.id for _, after in held.certain()] == ["2"]
    outside.note_told(task_info(DONE))
    monkeypatch.setattr(doubt, "OF_OWNER_S", 0.0)
    assert list(held.certain()) == []
    held.hold((TASK, TASK.with_(subject="by another program")))
    assert [after.subject for _, after in held.certain()] == ["by another program"]
    held.clear()


@pytest.mark.finding("T25")
def test_what_processes_told_of_finished_tasks_does_not_stay_in_memory():
    outside = Outside()
    for number in range(2 * TOLD_TASKS):
        for status in ("pending", "completed"):
            outside.note_told(TaskInfo(id=str(number), subject="job", status=status))
    assert len(outside.told) == TOLD_TASKS
    assert [task.status for task in outside.told[str(2 * TOLD_TASKS - 1)]] == ["pending", "completed"]
