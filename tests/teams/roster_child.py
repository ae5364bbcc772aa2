"""A process that joins a team, and takes some of its members out again: `python roster_child.py ROOT NAME COUNT`."""

import asyncio
import sys
from pathlib import Path

from teamwright.protocol.members import RosterMember
from teamwright.storage.paths import Home
from teamwright.team_records.roster import Roster, RosterFile


async def main(root, name, count):
    roster = Roster(RosterFile(Home.at(Path(root)), "demo"))
    for n in range(int(count)):
        joined = await roster.join(RosterMember("", f"{name}-{n}"))
        if n % 2:
            await roster.remove(joined.name)


asyncio.run(main(*sys.argv[1:]))
