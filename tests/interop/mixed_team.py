"""A program of a user that leads a mixed team, for tests: `python whole.py SETTINGS first|second|third`.

Each is a life of the lead: in the first ann comes, in its own process; in the second two more in panes, and another
program in a third one.
"""

import asyncio
import json
import sys
from pathlib import Path

from teamwright import Team


async def main(settings: str, life: str) -> None:
    options = {"model": "sonnet", "settings_file": Path(settings), "plan_approval": "human"}
    first = life == "first"
    async with Team("crew", backend="in-process", **options) if first else Team.resume("crew", **options) as team:
        if first:
            await team.spawn("ann", "JOB ann")
        elif life == "second":
            await team.spawn("bob", "JOB bob")
            await team.spawn("cyd", "JOB cyd", mode="plan")
            await team.spawn("zed", "Begin.", command="other", mode="plan")
        result = await team.run("Go on.")
        print(json.dumps({"stop": result.stop, "text": result.text}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
