"""A change of a task by a member's own process is that member's, however late the process says so."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from teamwright.external import task_watcher
from teamwright.external.task_watcher import UncertainChanges
from teamwright.protocol.events import TaskInfo
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.task_rules import task_info
from teamwright.tasks.task_store import ExternalTaskChange
from teamwright.teams.external_members import MAX_REPORTED_TASKS, ExternalParticipants

TASK = Task("1", "one", "", owner="dee", status=TaskStatus.IN_PROGRESS)
DONE = TASK.copy_with(status=TaskStatus.COMPLETED)
OTHERS = TASK.copy_with(id="2", owner="zoe@session-12345678", status=TaskStatus.COMPLETED)


@pytest.mark.finding("T24")
async def test_a_change_of_a_member_s_task_is_held_until_its_process_tells_of_it_and_others_are_told_soon(monkeypatch):
    monkeypatch.setattr(task_watcher, "REPORT_WAIT_S", 0.0)
    woken, outside = asyncio.Event(), ExternalParticipants(process_names={"dee"})
    team: Any = SimpleNamespace(external=outside, directory="crew")
    held = UncertainChanges(team, woken.set)
    assert held.hold(ExternalTaskChange(TASK, DONE)) and held.hold(ExternalTaskChange(None, OTHERS))
    await asyncio.sleep(0)
    assert [change.after.id for change in held.confirmed_changes()] == ["2"]
    outside.note_reported_task(task_info(DONE))
    monkeypatch.setattr(task_watcher, "OWNER_REPORT_WAIT_S", 0.0)
    assert list(held.confirmed_changes()) == []
    held.hold(ExternalTaskChange(TASK, TASK.copy_with(subject="by another program")))
    assert [change.after.subject for change in held.confirmed_changes()] == ["by another program"]
    held.clear()


@pytest.mark.finding("T25")
def test_what_processes_told_of_finished_tasks_does_not_stay_in_memory():
    outside = ExternalParticipants()
    for number in range(2 * MAX_REPORTED_TASKS):
        for status in ("pending", "completed"):
            outside.note_reported_task(TaskInfo(id=str(number), subject="job", status=status))
    assert len(outside.reported_tasks) == MAX_REPORTED_TASKS
    assert [task.status for task in outside.reported_tasks[str(2 * MAX_REPORTED_TASKS - 1)]] == ["pending", "completed"]
