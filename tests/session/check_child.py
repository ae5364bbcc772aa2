"""A program whose check never ends, for a test that kills it: `python check_child.py DIR`."""

import asyncio
import sys
from pathlib import Path

from teamwright import Team
from teamwright.testing import ScriptedModel


async def main(place):
    check = "[ -e ok ] || { echo $$ > pid; exec sleep 1000; }"
    async with Team("crew", model=ScriptedModel("ok"), cwd=place, permission_mode="bypassPermissions") as team:
        await team.tasks.add("a", check=check)
        await team.tasks.update("1", status="completed")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
