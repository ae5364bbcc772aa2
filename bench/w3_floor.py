"""The floor of W3 in fresh processes: `python -m bench.w3_floor SPEC`: a file a task, and nobody looks for work.

Each of the workers has its share of the tasks and does with each, twice: an `flock`, a lock directory, the file read
and parsed, written beside and renamed, the directory removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from typing import Any

from bench.crew import ready


def rewrite(path: str, guard: int, **changes: str) -> None:
    """One change of a task under its locks."""
    fcntl.flock(guard, fcntl.LOCK_EX)
    os.mkdir(f"{path}.lock")
    fd = os.open(path, os.O_RDONLY)
    task = json.loads(os.read(fd, 65536))
    os.close(fd)
    fd = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, json.dumps(task | changes, indent=2).encode())
    os.close(fd)
    os.rename(f"{path}.tmp", path)
    os.rmdir(f"{path}.lock")
    fcntl.flock(guard, fcntl.LOCK_UN)


def worker(spec: dict[str, Any]) -> dict[str, Any]:
    """When it began and ended, and its CPU time."""
    root, number, workers = spec["root"], spec["number"], spec["workers"]
    guard = os.open(f"{root}/guard{number}", os.O_RDWR | os.O_CREAT, 0o600)
    ready()
    began, cpu = time.monotonic(), time.process_time()
    for id in range(number + 1, spec["tasks"] + 1, workers):
        path = f"{root}/tasks/{id}.json"
        rewrite(path, guard, owner=f"w{number}", status="in_progress")
        rewrite(path, guard, status="completed")
    return {"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu}


if __name__ == "__main__":
    print(json.dumps(worker(json.loads(sys.argv[1]))))
