"""The floors of W6 in a fresh process: `python -m bench.w6_floor SPEC`; nothing of ours.

Append: the encoded message and one write to an open file. Resume: every line read and parsed. SPEC: `messages`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TIMES = 1_000
TEXT = ("The tail of the last line is read twice when the file grows while it is read. " * 13)[:1_000]
"""One kilobyte."""


def timed(work: Callable[[], object], times: int) -> float:
    """Microseconds of CPU of one."""
    before = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - before) * 1e6 / times


def measure(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Microseconds of CPU of one line, milliseconds of all of them read."""
    path = root / "bea.jsonl"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    line = {"type": "user", "at": "2026-11-20T12:34:56.789Z", "message": None}
    message = {"role": "user", "content": [{"type": "text", "text": TEXT}]}

    def append() -> None:
        line["message"] = message
        os.write(fd, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    for _ in range(spec["messages"]):
        append()
    each = timed(append, TIMES)
    start = time.perf_counter()
    before = time.process_time()
    with path.open("rb") as file:
        loaded = [json.loads(one) for one in file]
    resume = time.process_time() - before
    wall = time.perf_counter() - start
    if len(loaded) != spec["messages"] + TIMES:
        raise RuntimeError(f"{len(loaded)} messages were loaded")
    return {"append_us": each, "resume_ms": resume * 1_000, "resume_wall_ms": wall * 1_000}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(measure(spec, Path(root))))


if __name__ == "__main__":
    main()
