"""Run a team of three that does two tasks, one after the other, and print its events.

python examples/release_team.py
TEAMWRIGHT_MODEL=scripted:examples/scripts/release_team.toml python examples/release_team.py   (no key, no network)
"""

import asyncio
import os

from teamwright import Budget, RequestOpened, TaskChanged, Team

MODEL = os.environ.get("TEAMWRIGHT_MODEL", "sonnet")


async def main() -> int:
    budget = Budget(usd=2.00, minutes=20)
    async with Team("release", model=MODEL, budget=budget, permission_mode="acceptEdits", replace=True) as team:
        facts = await team.tasks.add("List every flag that the docs do not mention", metadata={"for": ["scout"]})
        await team.tasks.add("Write the missing entries", after=[facts], metadata={"for": ["writer"]})
        await team.spawn("scout", "Claim what needs reading.", agent_type="Explore")
        await team.spawn("writer", "Claim what needs writing.")
        run = team.run("See both tasks through, then report in five lines.")
        async for event in run.events(after=0):  # 0: events before the run, too
            match event:
                case TaskChanged(task=task):
                    print(f"#{task.id} {task.status} {task.owner or '-'}")
                case RequestOpened():
                    await event.deny("nobody is here to ask")
                case _:
                    pass
        result = await run
    print(result.text)
    print(result.usage)
    return result.exit_code


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
