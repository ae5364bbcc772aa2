"""A run whose members all failed is no success, by whichever way of the library it began."""

import asyncio

import pytest

import teamwright
from teamwright import Team
from teamwright.testing import Call, ScriptedModel

START = Call("Agent", {"description": "help", "name": "ada", "prompt": "Help."})


def failing(*lead) -> ScriptedModel:
    """A model whose member `ada` has no answer, which fails her turn."""
    return ScriptedModel({"team-lead": list(lead), "ada": []})


@pytest.mark.finding("3L9")
async def test_every_way_to_run_judges_failed_members_alike(tmp_path):
    async with Team("crew", model=failing(START, *["Done."] * 3), cwd=tmp_path) as team:
        results = [await team.run("Go.")]
    async with Team("other", model=failing("Done."), cwd=tmp_path) as team:
        await team.spawn("ada", "Help.")
        await team.wait_idle()  # she has failed before the run begins
        results.append(await team.run("Go."))
    results.append(await asyncio.to_thread(teamwright.run, "Go.", model=failing(START, *["Done."] * 3), cwd=tmp_path))
    for result in results:
        assert (result.ok, result.stop, result.exit_code) == (False, "cut_off", 5)
        assert "every member failed: ada" in str(result.error)


@pytest.mark.finding("3L9")
async def test_a_run_is_not_judged_by_what_failed_before_an_earlier_one_ended(tmp_path):
    async with Team("crew", model=failing("One.", "Two.", "Three."), cwd=tmp_path) as team:
        await team.spawn("ada", "Help.")
        await team.wait_idle()
        assert [(await team.run(prompt)).exit_code for prompt in ("Go.", "Go on.")] == [5, 0]
        await team.send("ada", "Again.")
        await team.wait_idle()  # and she fails again
        assert (await team.run("Go on.")).exit_code == 5
