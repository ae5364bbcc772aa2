"""One process of W6: `python -m bench.w6_process SPEC` prints its figures as JSON.

SPEC: `messages` that the transcript has when it is measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.w6_floor import TEXT, TIMES, timed
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.models.model import Prefix, Reply
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage


def _prefix() -> Prefix:
    return Prefix.build({"model": "bench", "system": "You are a member of a team."})


def _pair(file: Conversation) -> None:
    """A message in and an answer, one kilobyte each."""
    file.append_user_message(UserMessage((text_block(TEXT),), ("mail:0f8fad5b-d9cb-469f-a165-70867728950e",)))
    file.append_reply(Reply([text_block(TEXT)], "end_turn", Usage(120, 40, 2_000, 100, 1, 0.001), "bench"))


def measure(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Append and resume."""
    path = root / "bea.jsonl"
    made = Conversation.start(path, _prefix(), {"member": "bea"})
    for _ in range(spec["messages"] // 2):
        _pair(made)
    append = timed(lambda: _pair(made), TIMES // 2) / 2
    made.close()
    start = time.perf_counter()
    before = time.process_time()
    loaded = Conversation.load(path, _prefix())
    resume = time.process_time() - before
    wall = time.perf_counter() - start
    if len(loaded.items) != spec["messages"] + TIMES:
        raise RuntimeError(f"{len(loaded.items)} messages were loaded")
    return {"append_us": append, "resume_ms": resume * 1_000, "resume_wall_ms": wall * 1_000}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(measure(spec, Path(root))))


if __name__ == "__main__":
    main()
