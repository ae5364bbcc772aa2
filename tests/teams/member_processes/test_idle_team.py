"""A team with members in processes of their own is quiet when nobody works and nobody is about to, and not before."""

import asyncio
import random
import re

import pytest

from tests.parity.house import PROCESS, call, house
from tests.support.model_requests import newest_text

pytestmark = [pytest.mark.promise("D6", "B6", "C7b", "C7c"), pytest.mark.slow]

RUNS = 10


def newest(body):
    return newest_text(body)


class Crew:
    """Mail to ann makes her write to bob; whoever claims a task completes it. Every reply takes its own time."""

    def __init__(self):
        self.chance = random.Random(7)
        self.heard, self.done = [], []

    async def __call__(self, body):
        await asyncio.sleep(self.chance.random() * 0.1)  # how long the service takes
        words = newest(body)
        if found := re.search(r"finish (\d+)", words):
            self.heard.append(found[1])
        elif found := re.search(r"pass on (\d+)", words):
            return call("SendMessage", to="bob", message=f"finish {found[1]}", summary="on")
        elif "The task is yours now" in words and (found := re.search(r"#(\d+)", words)):
            self.done.append(found[1])
            return call("TaskUpdate", taskId=found[1], status="completed")
        return "Done."


async def test_it_is_never_quiet_while_mail_or_a_task_is_under_way(tmp_path, marked):
    crew = Crew()
    async with house(tmp_path, PROCESS, {"ann": [crew] * 200, "bob": [crew] * 200}) as here:
        await asyncio.gather(here.spawn("ann"), here.spawn("bob"))
        await here.quiet()
        for number in range(RUNS):
            await here.team.send("ann", f"pass on {number}")
            await here.quiet()
            assert crew.heard == [str(one) for one in range(number + 1)], "quiet came before a peer's mail was read"
            task = await here.team.tasks.add(f"job {number}", "do it")
            await here.quiet()
            [found] = [one for one in await here.team.tasks.all() if one.id == task.id]
            assert found.status == "completed", "quiet came before a free task was done"
            assert crew.done.count(task.id) == 1
        assert len(marked.members()) == 2
