"""One of the processes of W3: `python -m bench.w3_process SPEC` prints what it did as JSON.

SPEC: `kind` "lay": make `tasks` tasks below `root`, in layers of ten, each waiting for two of the layer before.
`kind` "worker": claim and complete until nothing is left. `kind` "check": count what is wrong in the files.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.crew import ready
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList

LAYER = 10
PAUSE_S = 0.001
"""How long a worker waits when nothing is free. In a team nobody waits like this: who completes a task rings."""


def blockers(number: int) -> tuple[str, ...]:
    """The two tasks of the layer before that this one waits for."""
    if number <= LAYER:
        return ()
    first = number - LAYER
    base = (first - 1) // LAYER * LAYER
    return tuple(sorted((str(first), str(base + first % LAYER + 1)), key=int))


def lay(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """The files, as `create` writes them; both sides of each edge."""
    count = spec["tasks"]
    blocks: dict[str, list[str]] = {}
    for number in range(1, count + 1):
        for blocker in blockers(number):
            blocks.setdefault(blocker, []).append(str(number))
    directory = root / "tasks"
    directory.mkdir()
    (directory / ".lock").touch()
    for number in range(1, count + 1):
        id = str(number)
        text = "Read the module, say what it does and what could be wrong with it."
        task = Task(id, f"Module {number}", text, blocks=tuple(blocks.get(id, ())), blocked_by=blockers(number))
        (directory / f"{id}.json").write_bytes(task.encode())
    return {"made": count}


def _list(root: Path) -> TaskList:
    return TaskList(FileTaskStore(root / "tasks", lambda path: root / "guards" / path.name))


async def worker(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Claims with their times: (task, claimed, going to complete it)."""
    tasks, name = _list(root), f"w{spec['number']}"
    last = str(spec["tasks"])
    did: list[tuple[str, float, float]] = []
    ready()
    began, cpu = time.monotonic(), time.process_time()
    while True:
        task = await tasks.claim_next(name)
        if task is None:
            end = await tasks.get(last)
            if end is not None and end.status is TaskStatus.COMPLETED:
                break
            await asyncio.sleep(PAUSE_S)
            continue
        claimed = time.monotonic()
        did.append((task.id, claimed, time.monotonic()))
        await tasks.update(task.id, by=name, status="completed")
    return {"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu, "did": did}


async def check(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """How many tasks are not completed."""
    tasks = await _list(root).all()
    return {"open": spec["tasks"] - sum(task.status is TaskStatus.COMPLETED for task in tasks)}


def main() -> None:
    """Do what the argument says."""
    spec = json.loads(sys.argv[1])
    root = Path(spec["root"])
    if spec["kind"] == "lay":
        print(json.dumps(lay(spec, root)))
    else:
        print(json.dumps(asyncio.run((worker if spec["kind"] == "worker" else check)(spec, root))))


if __name__ == "__main__":
    main()
