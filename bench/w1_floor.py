"""The floors of W1 in a fresh process: `python -m bench.w1_floor SPEC`; nothing of ours but the messages' contents.

Send: a lock directory, the encoded element written over the end of the array, the directory removed. Receive: the
file read whole, the newest line parsed. SPEC: `kind` "past" and `elements` that the array holds all the time; or
`kind` "writer" as for ours, each waiting for an `flock` before it takes the lock directory.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.crew import ready

SENDS = 1_000
RECEIVES = 200
BATCH = 20
TEXT = "I looked at the parser and found the cause: the tail of the last line is read twice. Shall I mend it? %d"


def element(number: int) -> bytes:
    """One entry of the array, encoded."""
    entry = {
        "from": "ada",
        "text": TEXT % number,
        "summary": "found the cause in the parser",
        "timestamp": "2026-11-20T12:34:56.789Z",
        "color": "blue",
        "msg_id": "0f8fad5b-d9cb-469f-a165-70867728950e",
        "read": False,
    }
    return json.dumps(entry, separators=(",", ":")).encode()


def array(elements: int) -> bytes:
    """A whole file."""
    return b"[\n" + b",\n".join([element(number) for number in range(elements)]) + b"\n]"


def append(path: str, lock: str, number: int) -> None:
    """Put one element behind the last, under the lock directory."""
    content = b",\n" + element(number) + b"\n]"
    os.mkdir(lock)
    fd = os.open(path, os.O_RDWR)
    size = os.fstat(fd).st_size
    if os.pread(fd, 3, size - 3) != b"}\n]":
        raise RuntimeError("not an array")
    os.pwrite(fd, content, size - 2)
    os.close(fd)
    os.rmdir(lock)


def receive(path: str) -> dict[str, Any]:
    """The newest element."""
    fd = os.open(path, os.O_RDONLY)
    content = os.read(fd, os.fstat(fd).st_size)
    os.close(fd)
    return json.loads(content[content.rfind(b"\n", 0, -2) + 1 : -2])


def past(spec: dict[str, Any], root: Path) -> dict[str, float]:
    """Microseconds of a send and of a receive."""
    path, lock = f"{root}/bea.json", f"{root}/bea.json.lock"
    content = array(spec["elements"])
    cpu = wall = look = 0.0
    for _ in range(SENDS // BATCH):
        Path(path).write_bytes(content)
        for number in range(BATCH):
            before, start = time.process_time(), time.perf_counter()
            append(path, lock, number)
            wall += time.perf_counter() - start
            cpu += time.process_time() - before
    for number in range(RECEIVES):
        append(path, lock, number)
        before = time.process_time()
        receive(path)
        look += time.process_time() - before
    return {"send_us": cpu * 1e6 / SENDS, "send_wall_us": wall * 1e6 / SENDS, "receive_us": look * 1e6 / RECEIVES}


def writer(spec: dict[str, Any]) -> dict[str, float]:
    """When it began and ended, and its CPU time. The arrays are there already."""
    names = [f"{spec['root']}/m{number}" for number in range(spec["inboxes"])]
    guards = [os.open(f"{name}.guard", os.O_RDWR | os.O_CREAT, 0o600) for name in names]
    ready()
    began, cpu = time.monotonic(), time.process_time()
    for number in range(spec["messages"]):
        at = number % len(names)
        fcntl.flock(guards[at], fcntl.LOCK_EX)
        append(f"{names[at]}.json", f"{names[at]}.json.lock", number)
        fcntl.flock(guards[at], fcntl.LOCK_UN)
    return {"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    if spec["kind"] == "writer":
        print(json.dumps(writer(spec)))
        return
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(past(spec, Path(root))))


if __name__ == "__main__":
    main()
