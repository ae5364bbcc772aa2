"""The floor of W5 in a fresh process: `python -m bench.w5_floor SPEC`; nothing of ours but the lines' contents.

For each agent a file made with three encoded lines (what it is, what it is told, what it says), each written at once,
and a line at its beginning and its end in a file that is open.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.turns import ANSWER
from bench.w4_floor import Transcript
from bench.w5_process import PROMPT


def measure(spec: dict[str, Any], root: Path) -> dict[str, float]:
    """Milliseconds an agent."""
    count = spec["agents"]
    journal = Transcript(root / "agents.jsonl")
    cpu, wall = time.process_time(), time.perf_counter()
    for number in range(count):
        id = f"a{number:06x}"
        journal.append({"type": "begun", "id": id, "transcript": f"{root}/{id}.jsonl", "description": "look at it"})
        own = Transcript(root / f"{id}.jsonl")
        own.append({"type": "header", "v": 1, "prefix": "0" * 32, "member": id, "cwd": str(root)})
        own.append({"role": "user", "content": [{"type": "text", "text": PROMPT}]})
        own.append({"role": "assistant", "content": [{"type": "text", "text": ANSWER}]})
        os.close(own.fd)
        journal.append({"type": "ended", "id": id, "state": "completed", "text": ANSWER})
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu_ms": cpu * 1_000 / count, "wall_ms": wall * 1_000 / count}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(measure(spec, Path(root))))


if __name__ == "__main__":
    main()
