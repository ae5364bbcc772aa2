"""Programs that tests start as processes of their own: `python child.py NAME ROOT ARGS…`."""

import asyncio
import random
import sys
from pathlib import Path

from teamwright.protocol.errors import LockTimeout, TaskRefused
from teamwright.protocol.task import TaskStatus
from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList


def demo(root):
    home = Home.at(Path(root))
    return TaskList(FileTaskStore(home.tasks("demo"), home.guard))


async def create(root, name, times):
    """Create tasks one after another and say their numbers."""
    tasks = demo(root)
    for n in range(int(times)):
        print((await tasks.create(f"{name} {n}", "", by=name)).id, flush=True)


async def drain(root, name, last):
    """Claim and complete until the task with the last number is completed; say each number that was won."""
    tasks = demo(root)
    while True:
        task = await tasks.claim_next(name, frozenset())
        if task is not None:
            print(task.id, flush=True)
            await tasks.update(task.id, by=name, status="completed")
        elif (await tasks.get(last)).status is TaskStatus.COMPLETED:
            return
        else:
            await asyncio.sleep(0.002)


async def grab(root, name, id):
    """Wait for a line on stdin, then try to claim one task; say won or lost."""
    tasks = demo(root)
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        await tasks.update(id, by=name, status="in_progress")
        print("won", flush=True)
    except TaskRefused as refused:
        print(refused.code, refused.what, flush=True)


async def churn(root, seed):
    """Change the list in every way until killed; each number that was created is said first of all."""
    tasks, dice = demo(root), random.Random(int(seed))
    while True:
        ids = [t.id for t in await tasks.all()]
        try:
            if len(ids) < 8:
                print((await tasks.create("a task", "x" * dice.choice((1, 5_000)), by="ann")).id, flush=True)
                continue
            one, two = dice.sample(ids, 2)
            wish = dice.choice(
                (
                    {"status": "in_progress"},
                    {"status": "completed"},
                    {"status": "pending", "owner": ""},
                    {"status": "deleted"},
                    {"add_blocks": [two]},
                    {"add_blocked_by": [two], "subject": "b"},
                    {"metadata": {"k": dice.random()}},
                )
            )
            await tasks.update(one, by="team-lead", lead=True, **wish)
        except (TaskRefused, LockTimeout):
            continue


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
