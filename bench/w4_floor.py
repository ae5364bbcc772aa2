"""The baselines of W4: `python -m bench.w4_floor SPEC`. They use nothing of the package.

`append` encodes two lines a call and writes each at once to a member's file. `turn` also writes the prompt and the
answer. `http` sends, before each call, one request over an open socket with all lines so far, and reads its answer.
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
PROMPT = "Look up the lines that matter and say what is in them."
ANSWER = "That is all there is to say about these lines."


class Transcript:
    """One member's file and its lines."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.items: list[bytes] = []

    def append(self, message: dict[str, Any]) -> None:
        """Encode a message and write it to the file."""
        item = json.dumps(message, separators=(",", ":")).encode()
        os.write(self.fd, item + b"\n")
        self.items.append(item)

    def append_call(self, number: int) -> None:
        """Append the N-th tool call and its result."""
        given = {"path": f"src/module_{number % 100}/file.py", "first_line": 120, "last_line": 180}
        call = {"type": "tool_use", "id": f"toolu_b_{number:06d}", "name": "python__look_up", "input": given}
        self.append({"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]})
        block = {"type": "tool_result", "tool_use_id": f"toolu_b_{number:06d}", "content": RESULT}
        self.append({"role": "user", "content": [block]})

    def append_turn(self, number: int, calls: int) -> None:
        """Append a prompt, its calls and the answer."""
        self.append({"role": "user", "content": [{"type": "text", "text": PROMPT}]})
        for call in range(calls):
            self.append_call(number * calls + call)
        self.append({"role": "assistant", "content": [{"type": "text", "text": ANSWER}]})


async def send_requests(url: str, file: Transcript, calls: int) -> None:
    """Send one request a call."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    for number in range(calls):
        body = b'{"model":"bench","messages":[' + b",".join(file.items) + b"]}"
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await reader.readuntil(ANSWER_END)
        file.append_call(number)
    writer.close()


async def measure(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return milliseconds a call, or a turn when a prompt has at most one call."""
    files = [Transcript(root / f"m{number}.jsonl") for number in range(spec["members"])]
    calls, prompts = spec["calls"], spec["prompts"]
    cpu, wall = time.process_time(), time.perf_counter()
    if spec["kind"] == "http":
        await asyncio.gather(*(send_requests(spec["url"], file, calls) for file in files))
    elif spec["kind"] == "turn":
        for number in range(prompts):
            for file in files:
                file.append_turn(number, calls)
    else:
        for number in range(calls * prompts):
            for file in files:
                file.append_call(number)
    units = len(files) * prompts * max(1, calls)
    return {
        "cpu_ms": (time.process_time() - cpu) * 1_000 / units,
        "wall_ms": (time.perf_counter() - wall) * 1_000 / units,
    }


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(asyncio.run(measure(spec, Path(root)))))


if __name__ == "__main__":
    main()
