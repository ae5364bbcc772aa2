"""One process of W5: `python -m bench.w5_process SPEC` prints its figures as JSON.

SPEC: `kind` ("row": one after another; "together": all at once) and `agents`, how many. Each is a call of the lead's
Agent tool as a session runs it: a transcript and a file of its own, permissions, a line in the journal at its beginning
and at its end, events to the log; one answer of an instant model.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.turns import ANSWER, InstantModel
from bench.w4_process import resident_kb
from teamwright.agent.tool import AnyTool, ToolContext
from teamwright.protocol.messages import message_text
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.session.session import Session

PROMPT = "Look up which lines of the parser read the tail of the last line, and say what is in them."
LIMITS = {"limits": {"agents": 10_000, "spawns": 100_000, "spawns_per_minute": 100_000}}
WARM = 10
"""Sub-agents before anything is measured: what is built once a session is not theirs."""


def options(root: Path) -> Options:
    """A session below this directory, with room for many sub-agents."""
    (root / "work").mkdir()
    settings = root / "settings.json"
    settings.write_text(json.dumps(LIMITS))
    return Options(cwd=root / "work", home=str(root / "state"), model=InstantModel(0), settings_file=settings, env={})


async def answered(session: Session, tool: AnyTool, number: int) -> None:
    """One sub-agent from the call to its answer. Raises RuntimeError when it went otherwise than measured."""
    call = tool.input_type(description="look at the tail", prompt=PROMPT)
    workplace = session.lead.agent.toolbox.workplace
    result = await tool.run(call, ToolContext("team-lead", workplace, f"c{number}", f"toolu_b_{number:06d}"))
    if result.is_error or isinstance(result.content, str) or ANSWER not in message_text(result.content):
        raise RuntimeError(f"{number}: {result}")


async def measure(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Milliseconds of CPU and wall time a sub-agent, and the kB that each leaves in memory when it has ended."""
    count = spec["agents"]
    async with open_session(options(root)) as session:
        tool = next(tool.load() for tool in session.lead.agent.toolbox.tools if tool.name == "Agent")
        for number in range(WARM):
            await answered(session, tool, -number)
        gc.collect()
        before = resident_kb()
        cpu, wall = time.process_time(), time.perf_counter()
        if spec["kind"] == "together":
            await asyncio.gather(*(answered(session, tool, number) for number in range(count)))
        else:
            for number in range(count):
                await answered(session, tool, number)
        session.log.flush()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        gc.collect()
        left = resident_kb() - before
        files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    return {"cpu_ms": cpu * 1_000 / count, "wall_ms": wall * 1_000 / count, "kb": left / count, "files": files}


def main() -> None:
    """Measure what the argument says."""
    spec = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        print(json.dumps(asyncio.run(measure(spec, Path(root)))))


if __name__ == "__main__":
    main()
