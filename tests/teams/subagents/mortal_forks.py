"""A session for the tests to kill: a lead with two forks of one answer that never end. Argument: directory."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from teamwright.protocol.ids import LEAD
from tests.support.waits import WAIT_S
from tests.teams.subagents.crowd import crew, start
from tests.teams.subagents.test_forks import ON, Forking, job_of


class Stalling(Forking):
    """A fork answers with a command, and then never again. `over`: both are there, and the lead has its results."""

    def __init__(self, *lead, **others):
        super().__init__(*lead, **others)
        self.over = asyncio.Event()
        self.waiting = 0

    async def stream(self, request):
        stalls = bool(job_of(request)) and b"worked" in request.items[-1]
        self.waiting += stalls or (request.agent_name == LEAD and len(request.items) == 5)
        if self.waiting == 3:
            self.over.set()
        if stalls:
            await asyncio.Event().wait()
        async for part in super().stream(request):
            yield part


async def main(directory: Path) -> None:
    work = ("Bash", {"command": "echo worked"})
    model = Stalling("First.", [start("count"), start("list")], "I wait.", count=[["begun", work]], list=[work])
    async with crew(directory, model, settings=ON) as team:
        await team.run("Begin.")
        done = team.run("Go.")
        runs = team.session.agents.runs
        async with asyncio.timeout(WAIT_S):
            await model.over.wait()
        print(*runs, flush=True)
        await done


asyncio.run(main(Path(sys.argv[1])))
