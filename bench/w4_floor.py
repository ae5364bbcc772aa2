"""The floors of W4 in a fresh process: `python -m bench.w4_floor SPEC`; nothing of ours but the calls' contents.

`append`: two encoded lines a turn, each written at once to a member's file. `http`: the same, and between them one
request over an open socket with all lines so far, its answer read to the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ANSWER_END = b"0\r\n\r\n"
RESULT = "src/module_1/file.py:120-180: 61 lines, the last one is a return statement of one value."


class Transcript:
    """One member's file and its lines."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.items: list[bytes] = []

    def append(self, message: dict[str, Any]) -> None:
        """Encode a message and have it in the file."""
        item = json.dumps(message, separators=(",", ":")).encode()
        os.write(self.fd, item + b"\n")
        self.items.append(item)


def asked(number: int) -> dict[str, Any]:
    """The N-th answer: one tool call."""
    given = {"path": f"src/module_{number % 100}/file.py", "first_line": 120, "last_line": 180}
    call = {"type": "tool_use", "id": f"toolu_b_{number:06d}", "name": "python__look_up", "input": given}
    return {"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]}


def told(number: int) -> dict[str, Any]:
    """Its result."""
    block = {"type": "tool_result", "tool_use_id": f"toolu_b_{number:06d}", "content": RESULT}
    return {"role": "user", "content": [block]}


async def over_http(url: str, file: Transcript, turns: int) -> None:
    """Turns with a request each."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    for number in range(turns):
        body = b'{"model":"bench","messages":[' + b",".join(file.items) + b"]}"
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await reader.readuntil(ANSWER_END)
        file.append(asked(number))
        file.append(told(number))
    writer.close()


async def measure(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Milliseconds a turn."""
    files = [Transcript(root / f"m{number}.jsonl") for number in range(spec["members"])]
    turns = spec["turns"]
    cpu, wall = time.process_time(), time.perf_counter()
    if spec["kind"] == "http":
        await asyncio.gather(*(over_http(spec["url"], file, turns) for file in files))
    else:
        for number in range(turns):
            for file in files:
                file.append(asked(number))
                file.append(told(number))
    per_turn = 1_000 / (len(files) * turns)
    return {"cpu_ms": (time.process_time() - cpu) * per_turn, "wall_ms": (time.perf_counter() - wall) * per_turn}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(asyncio.run(measure(spec, Path(root)))))


if __name__ == "__main__":
    main()
