"""A team inside another program: surfaces that come late, runs after a cancelled one, errors on their way, slips."""

import asyncio
import copy
import multiprocessing
import pickle
import traceback
from collections.abc import AsyncGenerator
from concurrent.futures import ProcessPoolExecutor

import pytest

import teamwright
from teamwright import (
    CannotStart,
    Failure,
    InboxFull,
    ModelCard,
    Notice,
    Part,
    Request,
    RunEnded,
    TaskRefused,
    Team,
    TeamwrightError,
    TextPart,
    UsageError,
)
from teamwright.protocol.errors import SLUGS
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

TOUCH = ("Bash", {"command": "touch made"})
SLEEP = ("Bash", {"command": "sleep 30"})


def a_team(tmp_path, model, **more) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    return Team("crew", model=model, cwd=tmp_path / "work", **more)


# ── surfaces that come late ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1")
async def test_a_surface_that_comes_back_after_the_team_was_left_reads_what_it_missed(tmp_path):
    team = a_team(tmp_path, ScriptedModel("Done."))
    with pytest.raises(UsageError, match="is not running"):
        team.events()
    async with team:
        seen = team.events(after=0)
        first, _ = await anext(seen)
        run = team.run("Go.")
        await run
    numbers = [number async for number, _ in team.events(after=first)]
    assert numbers == list(range(first + 1, numbers[-1] + 1))
    kinds = [type(event) async for _, event in team.events(after=first)]
    assert RunEnded in kinds
    assert [event async for event in team.events()] == []
    assert type([event async for event in run.events()][-1]) is RunEnded


# ── runs one after the other ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1")
async def test_a_run_that_follows_a_cancelled_one_waits_for_its_end(tmp_path):
    model = ScriptedModel([SLEEP, "Done."])
    async with a_team(tmp_path, model, allowed_tools=["Bash(sleep:*)"]) as team:
        first = team.run("Sleep.")
        async for _, event in team.events(after=0):
            if isinstance(event, teamwright.ToolStarted):
                break
        first.cancel("enough")
        assert (first.cancelled, first.done) == (True, False)
        second = team.run("Go on.")
        with pytest.raises(TeamwrightError, match="a run of this team is still active"):
            team.run("And a third.")
        assert ((await second).stop, (await first).stop) == ("done", "cancelled")
        assert [type(event) async for event in second.events()][-1] is RunEnded


@pytest.mark.promise("J1")
async def test_a_caller_that_is_cancelled_again_and_again_leaves_a_team_that_takes_the_next_run(tmp_path):
    """As the scopes of other libraries do: every wait of what they cancelled is cancelled, until they are left."""
    model = ScriptedModel([SLEEP, "Done."])
    async with a_team(tmp_path, model, allowed_tools=["Bash(sleep:*)"]) as team:
        feed = team.events(answers=False)

        async def caller() -> None:
            await team.run("Sleep.")

        waiting = asyncio.create_task(caller())
        async for _, event in feed:
            if isinstance(event, teamwright.ToolStarted):
                break
        while not waiting.done():
            waiting.cancel()
            await asyncio.sleep(0)
        assert (await team.run("Go on.")).ok


def test_what_a_notebook_shows_of_a_run_and_of_tasks_says_what_they_are(tmp_path):
    async def shown() -> list[str]:
        async with a_team(tmp_path, ScriptedModel("Done.")) as team:
            run = team.run("Go.")
            before = repr(run)
            await run
            return [before, repr(run), repr(team.tasks), repr(team)]

    assert asyncio.run(shown()) == [
        "<Run of 'crew', running>",
        "<Run of 'crew', over>",
        "<Tasks of 'crew'>",
        "<Team 'crew', running>",
    ]


# ── errors that travel ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1")
def test_an_error_comes_back_from_a_pool_of_processes_as_it_was(tmp_path):
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(CannotStart) as caught:
            pool.submit(teamwright.run, "Go.", model="scripted:/nowhere", home=str(tmp_path)).result(WAIT_S)
        assert caught.value.slug == "bad-script" and caught.value.exit_code == 3


@pytest.mark.promise("J1")
@pytest.mark.parametrize("kind", [CannotStart, UsageError, InboxFull, TeamwrightError])
def test_an_error_survives_copies(kind):
    error = kind(next(iter(SLUGS)), "what", looked_at=[("a", "b")], do=["c"], note="d")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (type(again), str(again), again.render()) == (kind, "what", error.render())
    task = pickle.loads(pickle.dumps(TaskRefused("blocked", "no")))
    assert (task.code, task.slug) == ("blocked", "task-refused")


@pytest.mark.promise("J1")
def test_a_traceback_shows_the_way_out(tmp_path):
    async def inside() -> None:
        teamwright.run("Go.", model=ScriptedModel("Done."), cwd=tmp_path)

    with pytest.raises(UsageError) as caught:
        asyncio.run(inside())
    shown = "".join(traceback.format_exception(caught.value))
    assert 'do          async with Team("…") as team' in shown and "[usage]  nothing was started" in shown


# ── what a program brings, and gets wrong ────────────────────────────────────────────────────────────────────


@pytest.mark.promise("J1", "P4")
async def test_an_answerer_that_raises_is_told_to_the_program_too(tmp_path):
    def answerer(_request: object) -> None:
        raise KeyError("decision")

    async with a_team(tmp_path, ScriptedModel([TOUCH, "Done."]), on_request=answerer) as team:
        run = team.run("Go.")
        notices = [event.text async for event in run.events(answers=False) if isinstance(event, Notice)]
        [denial] = (await run).denials
    assert notices == ["Bash was denied: the program's approver raised KeyError: 'decision'"]
    assert denial["reason"] == "the program's approver raised KeyError: 'decision'"


CARD = ModelCard(name="own/echo", wire="echo", provider="own", context_tokens=32_000)


class Own:
    card = CARD

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        yield TextPart("hello")

    async def aclose(self) -> None: ...


class NoCard(Own):
    card = "own/echo"  # type: ignore[assignment]


class NotAGenerator(Own):
    async def stream(self, request: Request) -> list[Part]:  # type: ignore[override]
        return [Failure("overloaded", "busy")]


@pytest.mark.promise("J1")
@pytest.mark.parametrize(
    ("model", "said"), [(NoCard(), "whose `card` is a ModelCard"), (NotAGenerator(), "an async generator")]
)
def test_an_object_that_cannot_be_a_model_is_refused_before_anything_starts(model, said):
    with pytest.raises(UsageError) as caught:
        Team("crew", model=model)
    assert said in caught.value.what and type(model).__name__ in caught.value.what


@pytest.mark.promise("J1")
async def test_a_model_whose_stream_just_ends_fails_the_run_and_is_named(tmp_path):
    async with a_team(tmp_path, Own()) as team:
        result = await team.run("Go.")
    assert result.stop == "failed" and result.error is not None
    assert result.error.what == "the stream of own/echo ended without a Reply or a Failure"
