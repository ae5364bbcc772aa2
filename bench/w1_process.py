"""One process of W1: `python -m bench.w1_process SPEC` prints its figures as JSON.

SPEC: `kind` "past": one sender and one reader of an inbox that has `consumed` messages behind it and `unread` in it;
they are two objects that share nothing but the file, as in two processes. `kind` "writer": one of several that write
`messages` each to `inboxes` inboxes below `root`, as `senders` members at the same time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.crew import ready
from bench.letters import consume, letter, paths
from teamwright.mail.inbox import Inbox, inbox_for, read_entries

SENDS = 1_000
RECEIVES = 200
BATCH = 20
"""Messages that are sent one after another before they are read: so many pages are crossed as in life."""


async def past(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Microseconds of a send, of receiving what is new, and of flagging it."""
    sender, reader = Inbox(*paths(root)), Inbox(*paths(root))
    await consume(sender, spec["consumed"])
    for first in range(0, spec["unread"], 50):
        await asyncio.gather(*(sender.put(letter(at)) for at in range(first, min(first + 50, spec["unread"]))))
    figures = {**await _sends(sender, reader), **await _receives(sender, reader)}
    unread = sum(not entry.read for entry in read_entries(sender.path))
    return {**figures, "lost": abs(spec["unread"] - unread)}


async def _sends(sender: Inbox, reader: Inbox) -> dict[str, float]:
    """Each send begins in a tick of the loop of its own, as those of a member do."""
    cpu = wall = 0.0
    for _ in range(SENDS // BATCH):
        ids: list[str] = []
        for number in range(BATCH):
            await asyncio.sleep(0)
            entry = letter(number)
            before, start = time.process_time(), time.perf_counter()
            ids.append(await sender.put(entry))
            wall += time.perf_counter() - start
            cpu += time.process_time() - before
        await reader.mark_delivered(ids)
    return {"send_us": cpu * 1e6 / SENDS, "send_wall_us": wall * 1e6 / SENDS}


async def _receives(sender: Inbox, reader: Inbox) -> dict[str, float]:
    look = flag = look_wall = 0.0
    for number in range(RECEIVES):
        id = await sender.put(letter(number))
        before, start = time.process_time(), time.perf_counter()
        found = await reader.unread()
        look_wall += time.perf_counter() - start
        look += time.process_time() - before
        if found[-1].msg_id != id:
            raise RuntimeError("what was sent is not what was received")
        middle = time.process_time()
        await reader.mark_delivered([id])
        flag += time.process_time() - middle
    scale = 1e6 / RECEIVES
    return {"receive_us": look * scale, "receive_wall_us": look_wall * scale, "flag_us": flag * scale}


async def writer(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """When it began and ended (seconds of the machine's clock), and its CPU time."""
    boxes = [inbox_for(*paths(root, f"m{number}")) for number in range(spec["inboxes"])]
    share = spec["messages"] // spec["senders"]

    async def member(number: int) -> None:
        for at in range(share):
            await boxes[(number + at) % len(boxes)].put(letter(at, f"w{spec['number']}-{number}"))

    ready()
    began, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(member(number) for number in range(spec["senders"])))
    return {"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    if spec["kind"] == "writer":
        print(json.dumps(asyncio.run(writer(spec, Path(spec["root"])))))
        return
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(asyncio.run(past(spec, Path(root)))))


if __name__ == "__main__":
    main()
