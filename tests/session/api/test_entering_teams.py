"""Teams that are entered in the loop of a program with other work: many hold it no longer than one."""

import asyncio
import gc
import weakref
from types import coroutine

import pytest

from teamwright import Team
from teamwright.api.paced_steps import PacedSteps
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.finding("3L12")


async def test_of_many_paced_coroutines_one_takes_a_step_in_a_pass_of_the_loop():
    steps: list[str] = []

    async def steady(name: str) -> str:
        for _ in range(3):
            steps.append(name)
            await asyncio.sleep(0)
        return name

    async def beat() -> None:
        while True:
            steps.append("|")
            await asyncio.sleep(0)

    beating = asyncio.create_task(beat())
    assert await asyncio.gather(*(PacedSteps(steady(name)) for name in "abc")) == ["a", "b", "c"]
    beating.cancel()
    passes = "".join(steps).split("|")
    assert max(map(len, passes)) == 1 and sorted("".join(passes)) == sorted("abc" * 3)


async def test_a_paced_coroutine_gets_values_errors_and_cancellations_like_any_other():
    async def raising() -> None:
        await asyncio.sleep(0)
        raise KeyError("in it")

    with pytest.raises(KeyError, match="in it"):
        await PacedSteps(raising())

    seen: list[str] = []
    waits = asyncio.Event()

    async def cleaning() -> str:
        try:
            waits.set()
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            seen.append("cleaned")
            raise
        finally:
            seen.append("ended")

    @coroutine
    def paced():
        return (yield from PacedSteps(cleaning()).__await__())

    for early in (True, False):
        seen.clear()
        task = asyncio.ensure_future(paced())
        if not early:
            await waits.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ([] if early else ["cleaned", "ended"])

    async def timed() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            return "out of time"

    assert await PacedSteps(timed()) == "out of time"
    assert await PacedSteps(asyncio.sleep(0, "a value")) == "a value"


async def test_teams_that_are_entered_at_once_all_run_and_one_that_is_cancelled_leaves_the_others(tmp_path, own_home):
    def a_team(name: str) -> Team:
        return Team(name, model=ScriptedModel("ok"), cwd=tmp_path)

    teams = [a_team(f"crew{number}") for number in range(4)]
    async with asyncio.timeout(WAIT_S):
        entering = [asyncio.create_task(team.__aenter__()) for team in teams]
        lost = asyncio.create_task(a_team("lost").__aenter__())
        for _ in range(20):
            await asyncio.sleep(0)
        lost.cancel()
        await asyncio.gather(*entering)
        with pytest.raises(asyncio.CancelledError):
            await lost
        assert [(await team.run("Go.")).text for team in teams] == ["ok"] * 4
        for team in teams:
            await team.__aexit__(None, None, None)
    assert {view.name for view in Team.list()} == {team.name for team in teams}


def test_an_event_loop_in_which_coroutines_took_turns_is_freed_when_it_is_closed():
    loop = asyncio.new_event_loop()
    freed = weakref.ref(loop)

    async def together() -> None:
        await asyncio.gather(*(PacedSteps(asyncio.sleep(0)) for _ in range(3)))

    loop.run_until_complete(together())
    loop.close()
    del loop
    gc.collect()
    assert freed() is None
