"""A session for the tests to kill: a sub-agent with caps (`turns`, `tokens`), or one with a sub-agent (`nested`).

Arguments: directory, which of these.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.teams.subagents.crowd import behind, until
from tests.teams.subagents.nest import CAPS, LOOK, USES, Nest, deep, runs_of


async def main(directory: Path, how: str) -> None:
    if how == "nested":
        model, stalls = Nest(lead=[behind("one"), "I wait."], one=[behind("two"), "I wait too."]), ("two", 1)
    else:
        model, stalls = Nest(lead=[behind("one", **CAPS[how]), "I wait."], one=[LOOK, LOOK]), ("one", 3)
        model.uses = USES
    model.stalls[stalls[0]] = stalls[1]
    async with deep(directory, model) as team:
        done = team.run("Go.")
        await model.stalled.wait()
        await until(team, lambda: len(model.of("lead")) == 2)
        await until(team, lambda: how != "nested" or len(model.of("one")) == 2)
        print(runs_of(team)["one"].id, list(team.session.agents.runs)[-1], flush=True)
        await done


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
