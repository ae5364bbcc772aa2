"""ClawTeam's side of W1 and W3: `python -m bench.peers.with_clawteam SPEC`, by the Python of its environment.

Speaks to its mailbox and task store as its own commands do. Wall time; SPEC as for ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.crew import ready

SENDS = 300
RECEIVES = 50
TEXT = "I looked at the parser and found the cause: the tail of the last line is read twice. Shall I mend it? %d"


def team(root: str) -> str:
    """A team below this directory; its name."""
    os.environ["CLAWTEAM_DATA_DIR"] = root
    os.environ["HOME"] = root
    from clawteam.team.manager import TeamManager

    with contextlib.suppress(ValueError, OSError):  # another writer made it, or is about to
        TeamManager.create_team("bench", "lead", "lead-1")
    return "bench"


def past(spec: dict[str, Any], root: str) -> dict[str, float]:
    """Microseconds of a send and of a receive, with that many messages behind."""
    from clawteam.team.mailbox import MailboxManager

    box = MailboxManager(team(root))
    for number in range(spec["consumed"] or spec["unread"]):
        box.send("ada", "bea", TEXT % number)
        if spec["consumed"] and number % 100 == 99:
            box.receive("bea", limit=100)
    if spec["consumed"]:
        box.receive("bea", limit=100)
    start = time.perf_counter()
    for number in range(SENDS):
        box.send("ada", "bea", TEXT % number)
    send = (time.perf_counter() - start) * 1e6 / SENDS
    while spec["consumed"] and box.receive("bea", limit=100):
        pass
    receive = 0.0
    for number in range(RECEIVES):
        box.send("ada", "bea", TEXT % number)
        start = time.perf_counter()
        if not box.receive("bea", limit=1):
            raise RuntimeError("what was sent was not received")
        receive += time.perf_counter() - start
    return {"send_us": send, "receive_us": receive * 1e6 / RECEIVES}


def writer(spec: dict[str, Any]) -> dict[str, float]:
    """When it began and ended, and its CPU time."""
    from clawteam.team.mailbox import MailboxManager

    box = MailboxManager(team(spec["root"]))
    box.send("warm", "nobody", "warm")
    ready()
    began, cpu = time.monotonic(), time.process_time()
    for number in range(spec["messages"]):
        box.send(f"w{spec['number']}", f"m{number % spec['inboxes']}", TEXT % number)
    return {"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu}


def lay(spec: dict[str, Any]) -> dict[str, int]:
    """Make the tasks of W3: layers of ten, each task behind two of the layer before."""
    from clawteam.team.tasks import TaskStore

    team(spec["root"])
    store = TaskStore("bench")
    before: list[str] = []
    layer: list[str] = []
    for number in range(spec["tasks"]):
        if number % 10 == 0:
            before, layer = layer, []
        waits = [before[number % 10], before[(number + 1) % 10]] if before else None
        layer.append(store.create(f"Task {number}", "Nothing to do.", blocked_by=waits).id)
    return {"made": spec["tasks"]}


def worker(spec: dict[str, Any]) -> dict[str, Any]:
    """Claim and complete until all are done; who claimed what."""
    from clawteam.team.models import TaskStatus
    from clawteam.team.tasks import TaskLockError, TaskStore

    team(spec["root"])
    store, name = TaskStore("bench"), f"w{spec['number']}"
    store.get("none")
    ready()
    began, cpu = time.monotonic(), time.process_time()
    claims: list[str] = []
    while True:
        tasks = store.list_tasks()
        if all(task.status is TaskStatus.completed for task in tasks):
            break
        free = next((task for task in tasks if task.status is TaskStatus.pending), None)
        if free is None:
            time.sleep(0.001)
            continue
        try:
            store.update(free.id, status=TaskStatus.in_progress, owner=name, caller=name)
        except TaskLockError:
            continue
        claims.append(free.id)
        store.update(free.id, status=TaskStatus.completed, caller=name)
    return {"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu, "claims": claims}


def main() -> None:
    """Do what the argument says."""
    spec = json.loads(sys.argv[1])
    kind = {"writer": writer, "lay": lay, "worker": worker}.get(spec["kind"])
    if kind is not None:
        print(json.dumps(kind(spec)))
        return
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(past(spec, str(Path(root)))))


if __name__ == "__main__":
    main()
