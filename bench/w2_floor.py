"""The floors of W2 in fresh processes: `python -m bench.w2_floor SPEC`.

`kind` "queue": a message appended to an array under a lock directory, and a waiting coroutine woken through a queue.
"datagram": a reader that waits for a datagram and reads the array; "sender": who writes to it at random moments.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.crew import ready
from bench.w1_floor import append, array, receive
from bench.w2_process import spread


async def by_queue(spec: dict[str, Any], root: Path) -> dict[str, float]:
    """From before the append to the coroutine, microseconds."""
    path = f"{root}/bea.json"
    Path(path).write_bytes(array(10))
    calls: asyncio.Queue[float] = asyncio.Queue()
    took: list[float] = []

    async def reader() -> None:
        while len(took) < spec["times"]:
            start = await calls.get()
            took.append(time.monotonic() - start)

    waiting = asyncio.create_task(reader())
    for number in range(spec["times"]):
        await asyncio.sleep(random.uniform(0, 0.002))
        start = time.monotonic()
        append(path, f"{path}.lock", number)
        calls.put_nowait(start)
    await waiting
    return spread(took, "us", 1e6)


def by_datagram(spec: dict[str, Any], root: Path) -> dict[str, float]:
    """From before the append in the other process to the parsed element here, milliseconds."""
    path = f"{root}/bea.json"
    Path(path).write_bytes(array(10))
    took: list[float] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        bell.bind(f"{root}/bell")
        ready()
        while len(took) < spec["times"]:
            start = float(bell.recv(64))
            receive(path)
            took.append(time.monotonic() - start)
    return spread(took, "ms", 1e3)


def sender(spec: dict[str, Any], root: Path) -> dict[str, float]:
    """Messages at random moments."""
    ready()
    path = f"{root}/bea.json"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as calling:
        for number in range(spec["times"]):
            time.sleep(random.uniform(*spec["pause"]))
            start = time.monotonic()
            append(path, f"{path}.lock", number)
            calling.sendto(str(start).encode(), f"{root}/bell")
    return {"sent": spec["times"], "load": os.getloadavg()[0]}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as own:
        root = Path(spec.get("root", own))
        if spec["kind"] == "queue":
            print(json.dumps(asyncio.run(by_queue(spec, root))))
        else:
            print(json.dumps((by_datagram if spec["kind"] == "datagram" else sender)(spec, root)))


if __name__ == "__main__":
    main()
