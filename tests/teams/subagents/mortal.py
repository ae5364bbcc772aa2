"""A session for the tests to kill: a lead with sub-agents that never end. Arguments: directory, background or not."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.teams.subagents.crowd import Children, crew, start, until


async def main(directory: Path, background: bool) -> None:
    model = Children([start("work, then stall", run_in_background=background)], "I wait.")
    async with crew(directory, model) as team:
        done = team.run("Go.")
        await model.thinking.wait()
        if background:
            await until(team, lambda: any(r.agent_name == "team-lead" and len(r.items) == 3 for r in model.requests))
        [run] = team.session.agents.runs.values()
        print(run.id, flush=True)
        await done


asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "background"))
