"""A team whose files another process writes too, and what is told of it."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

from teamwright import Team
from tests.support.waits import WAIT_S

STRANGER = Path(__file__).with_name("stranger.py")


class Stranger:
    """The other process: `await stranger.task(directory, 1)` returns when it has done it."""

    def __init__(self, process) -> None:
        self._process = process

    def __getattr__(self, name: str):
        async def do(*arguments, **keys) -> None:
            job = [name, *(str(a) if isinstance(a, Path) else a for a in arguments), *([keys] if keys else [])]
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            async with asyncio.timeout(WAIT_S):
                assert await self._process.stdout.readline() == b"done\n"

        return do


@asynccontextmanager
async def a_stranger():
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, str(STRANGER), stdin=pipe, stdout=pipe)
    try:
        yield Stranger(process)
    finally:
        process.stdin.close()
        await process.wait()


class Told:
    """All logged events of a team, and a bounded wait for some of them."""

    def __init__(self, team: Team) -> None:
        self.events = []
        self._more = asyncio.Event()
        team.session.log.subscribe(self._take, live=False)

    def _take(self, _number, event) -> None:
        self.events.append(event)
        self._more.set()

    def of(self, kind, **fields) -> list:
        """The events of a kind whose fields are these."""
        return [e for e in self.events if type(e) is kind and all(getattr(e, k) == v for k, v in fields.items())]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._more.clear()
                await self._more.wait()

    async def one(self, kind, **fields):
        """The first such event, awaited."""
        await self.until(lambda: self.of(kind, **fields))
        return self.of(kind, **fields)[0]
