"""Finished tasks of a long list: what they cost those who look for work."""

import os

import pytest

from teamwright.tasks import task_index
from teamwright.tasks.task_list import TaskList


async def finish(tasks: TaskList, count: int) -> None:
    for number in range(count):
        task = await tasks.create(f"task {number}", "", by="ada")
        await tasks.update(task.id, by="ada", status="completed")


@pytest.mark.finding("T24")
@pytest.mark.parametrize("done", [40, 250])
@pytest.mark.slow_after(1)
async def test_a_look_for_work_reads_no_finished_task_and_looks_at_few_of_them(view, done, monkeypatch):
    await finish(view(), done)
    tasks = view()
    for path in tasks.store.directory.glob("*.json"):
        os.utime(path, (1_700_000_000, 1_700_000_000))  # long ago: what was read then is known for good
    assert await tasks.claim_next("ada") is None
    looked, opened = [], []
    look, read = task_index.file_signature, task_index.read_task
    monkeypatch.setattr(task_index, "file_signature", lambda path: looked.append(path) or look(path))
    monkeypatch.setattr(
        task_index, "read_task", lambda path, *more, **how: opened.append(path) or read(path, *more, **how)
    )
    for _ in range(10):
        assert await tasks.claim_next("ada") is None
    assert len(looked) <= 10 * 33
    assert len(opened) <= 10


async def test_a_finished_task_that_another_program_reopens_unnoticed_is_found_by_later_looks(view):
    await finish(view(), 100)
    tasks = view()
    assert await tasks.claim_next("ada") is None
    path = tasks.store.directory / "70.json"
    path.write_text(path.read_text().replace('"completed"', '"pending"').replace('"owner": "ada"', '"owner": null'))
    found = [task for _ in range(4) if (task := await tasks.claim_next("ada"))]
    assert [task.id for task in found] == ["70"]
