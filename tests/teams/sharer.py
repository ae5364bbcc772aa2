"""A session of its own on the list `common`: `python sharer.py DIRECTORY`; its one member is called ann too.

Says `ready`, and at the end of stdin what it was told of completed tasks, a line `[number, by]` each.
"""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from teamwright import TaskChanged, Team
from teamwright.testing import ScriptedModel
from tests.teams.test_shared_list import claims_and_completes
from tests.teams.watched import Told


async def main(directory):
    model = ScriptedModel(claims_and_completes)
    mode = "bypassPermissions"
    async with Team("others", model=model, cwd=directory, permission_mode=mode, task_list="common") as team:
        told = Told(team)
        await team.spawn("ann", "Take what comes.")
        print("ready", flush=True)
        await told.until(lambda: len(told.of(TaskChanged, change="completed")) >= 30)
        await asyncio.to_thread(sys.stdin.read)
        for event in told.of(TaskChanged, change="completed"):
            print(json.dumps([event.task.id, event.member]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
