"""autogen-core's side of W2: `python -m bench.peers.with_autogen SPEC`, by the Python of its environment.

One runtime, one agent that waits: from sending to the first line of its handler. In memory only: nothing is kept.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass

from autogen_core import AgentId, MessageContext, RoutedAgent, SingleThreadedAgentRuntime, message_handler

TIMES = 300


@dataclass
class Letter:
    """What is sent."""

    text: str
    sent: float


class Reader(RoutedAgent):
    """Notes when it was woken."""

    took: list[float] = []  # noqa: RUF012

    @message_handler
    async def read(self, message: Letter, ctx: MessageContext) -> None:
        """The handler."""
        self.took.append(time.perf_counter() - message.sent)


async def measure() -> dict[str, float]:
    """Microseconds: the middle of many."""
    runtime = SingleThreadedAgentRuntime()
    await Reader.register(runtime, "reader", lambda: Reader("reader"))
    runtime.start()
    reader = AgentId("reader", "default")
    for _ in range(TIMES):
        await asyncio.sleep(random.uniform(0, 0.002))
        await runtime.send_message(Letter("Have a look.", time.perf_counter()), reader)
    await runtime.stop_when_idle()
    took = sorted(Reader.took)
    return {"p50_us": took[len(took) // 2] * 1e6, "p99_us": took[len(took) * 99 // 100] * 1e6}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure())))
