"""One process of W6: `python -m bench.w6_process SPEC` prints its figures as JSON.

SPEC: `messages` that the transcript has, and `kept`: the messages after its compaction, 0 without one.
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
from teamwright.protocol.messages import encode, text_block
from teamwright.protocol.usage import Usage


def _prefix() -> Prefix:
    return Prefix.build({"model": "bench", "system": "You are a member of a team."})


def _pair(file: Conversation) -> None:
    """Append a message and an answer of one kilobyte each."""
    file.append_user_message(UserMessage((text_block(TEXT),), ("mail:0f8fad5b-d9cb-469f-a165-70867728950e",)))
    file.append_reply(Reply([text_block(TEXT)], "end_turn", Usage(120, 40, 2_000, 100, 1, 0.001), "bench"))


def measure(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Append and resume; `resume_ms` is the CPU time until the next request can be sent."""
    path, kept = root / "bea.jsonl", spec.get("kept", 0)
    conversation = Conversation.start(path, _prefix(), {"member": "bea"})
    for _ in range((spec["messages"] - kept) // 2):
        _pair(conversation)
    if kept:
        summary = encode({"role": "user", "content": [text_block(TEXT)]})
        conversation.fold((summary,), len(conversation.items), {})
        for _ in range(kept // 2):
            _pair(conversation)
    append = timed(lambda: _pair(conversation), TIMES // 2) / 2 if not kept else None
    expected = len(conversation.items)
    conversation.close()
    start = time.perf_counter()
    before = time.process_time()
    loaded = Conversation.load(path, _prefix())
    resume = time.process_time() - before
    wall = time.perf_counter() - start
    if len(loaded.items) != expected:
        raise RuntimeError(f"{len(loaded.items)} messages were loaded, not {expected}")
    return {"append_us": append, "resume_ms": resume * 1_000, "resume_wall_ms": wall * 1_000}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(measure(spec, Path(root))))


if __name__ == "__main__":
    main()
