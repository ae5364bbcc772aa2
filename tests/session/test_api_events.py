"""Watching from Python: events live and replayed, slow and abandoned readers, numbers to come back with."""

import asyncio
import gc
from collections.abc import AsyncGenerator

import pytest

import teamwright
from teamwright import (
    Budget,
    MemberChanged,
    MessageSent,
    Part,
    Request,
    RequestOpened,
    RunEnded,
    TaskChanged,
    Team,
    TextDelta,
    ToolCalled,
)
from teamwright.protocol import events as kinds
from teamwright.storage.event_log import MAX_WAITING
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S


def a_team(tmp_path, model, **more) -> Team:
    return Team("crew", model=model, cwd=tmp_path, **more)


def doing_one_task(request: Request):
    """The lead waits; ada completes what she claims."""
    text = request.items[-1].decode()
    if request.agent_name == "ada" and "task-list" in text:
        return ("TaskUpdate", {"taskId": "1", "status": "completed"})
    return "ok"


@pytest.mark.promise("J1")
async def test_events_are_matched_as_the_manual_shows(tmp_path):
    seen: list[tuple[str, str, str | None]] = []
    kinds_seen: set[str] = set()
    last: list[object] = []

    async def watch(run) -> None:
        async for event in run.events():
            kinds_seen.add(type(event).__name__)
            last[:] = [event]
            match event:
                case TaskChanged(task=task):
                    seen.append((task.id, task.status, task.owner))
                case RequestOpened():
                    await event.deny("no user is present to ask")
                case _:
                    pass

    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel(doing_one_task)) as team:
        await team.tasks.add("one")
        run = team.run("See it through.")
        watching = asyncio.create_task(watch(run))
        await team.spawn("ada", "Claim what is there.")
        await watching
        result = await run
    assert seen == [("1", "in_progress", "ada"), ("1", "completed", "ada")]
    assert result.ok and isinstance(last[0], RunEnded)
    assert {"TextDelta", "ToolCalled", "MessageSent", "MemberChanged", "RunEnded"} <= kinds_seen


@pytest.mark.promise("J1")
@pytest.mark.parametrize("kind", kinds.TeamEvent.__args__, ids=lambda kind: kind.__name__)
def test_an_event_cannot_be_changed_by_whoever_is_shown_it(kind):
    event = kind(**dict.fromkeys(kind.__struct_fields__))
    with pytest.raises(AttributeError):
        event.member = "somebody else"


def test_every_kind_of_event_is_a_public_name():
    union = kinds.TeamEvent
    assert {kind.__name__ for kind in union.__args__} <= set(teamwright.__all__)


@pytest.mark.promise("J1")
async def test_events_are_replayed_as_often_as_asked_also_when_the_run_and_the_team_are_over(tmp_path):
    async with asyncio.timeout(WAIT_S):
        async with a_team(
            tmp_path, ScriptedModel([("TaskCreate", {"subject": "x", "description": "x"}), "ok"])
        ) as team:
            run = team.run("Go.")
            live = [event async for event in run.events()]
            again = [event async for event in run.events()]
            assert [type(e) for e in again] == [type(e) for e in live if not isinstance(e, kinds.LIVE)]
            both = await asyncio.gather(*(_kinds(run.events()) for _ in range(2)))
            assert both[0] == both[1] == [type(e) for e in again]
            assert await _kinds(run.events(after=10**9)) == []
        assert await _kinds(run.events()) == both[0]
        assert await _kinds(run.events(after=10**9)) == []


async def _read_for_a_while(events, into: list) -> None:
    """Read events until none comes for a short time after one. Raises TimeoutError."""
    async with asyncio.timeout(WAIT_S) as limit:
        async for event in events:
            into.append(event)
            limit.reschedule(asyncio.get_running_loop().time() + 0.05)


async def _kinds(events) -> list[type]:
    return [type(event) async for event in events]


@pytest.mark.promise("J1")
async def test_a_second_run_replays_from_any_number_and_ends_with_its_own_end(tmp_path):
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel(["one", "two"])) as team:
        first = team.run("One.")
        await first
        second = team.run("Two.")
        texts = [event.text async for event in second.events() if isinstance(event, RunEnded)]
        assert texts == ["two"]
        everything = [event.text async for event in second.events(after=0) if isinstance(event, RunEnded)]
        assert everything == ["one", "two"]
        assert [e.text async for e in first.events(after=0) if isinstance(e, RunEnded)] == ["one"]


@pytest.mark.promise("J1")
async def test_a_surface_comes_back_with_the_last_number_it_saw_and_misses_nothing(tmp_path):
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel(["one", "two"])) as team:
        feed = team.events(after=0)
        await team.run("One.")
        seen: list[int] = []
        async for number, event in feed:
            if not isinstance(event, kinds.LIVE):
                seen.append(number)
            if isinstance(event, RunEnded):
                break
        del feed
        await team.run("Two.")
        async for number, event in team.events(after=seen[-1]):
            if not isinstance(event, kinds.LIVE):
                seen.append(number)
            if isinstance(event, RunEnded):
                break
    assert seen == list(range(1, len(seen) + 1))


@pytest.mark.promise("J1")
async def test_a_feed_ends_when_the_block_is_left(tmp_path):
    async with asyncio.timeout(WAIT_S):
        async with a_team(tmp_path, ScriptedModel("ok")) as team:
            reading = asyncio.create_task(_numbers(team.events(after=0)))
            await team.run("Go.")
        assert await reading


async def _numbers(events) -> list[int]:
    return [number async for number, _ in events]


@pytest.mark.promise("J1")
@pytest.mark.slow
async def test_a_reader_that_never_reads_holds_up_nobody_and_still_gets_all_of_the_log(tmp_path):
    calls = MAX_WAITING // 2

    def answer(request: Request):
        return ("TaskGet", {"taskId": str(len(model.requests))}) if len(model.requests) <= calls else "done"

    model = ScriptedModel(answer)
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, budget=Budget.unlimited()) as team:
        run = team.run("Go.")
        events = run.events()
        await anext(events)  # it is attached now, and then does not come back for long
        result = await run
        assert result.ok
        rest = [event async for event in events]
    assert sum(isinstance(event, ToolCalled) for event in rest) == calls
    assert isinstance(rest[-1], RunEnded)


@pytest.mark.promise("J1")
@pytest.mark.slow
async def test_abandoning_an_iterator_changes_nothing(tmp_path):
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel([("TaskList", {}), "done"])) as team:
        run = team.run("Go.")
        async for _ in run.events():
            break
        gc.collect()
        assert (await run).text == "done"
        assert not team.session.requests.attended()


@pytest.mark.promise("J1")
async def test_waiting_for_an_event_may_time_out_and_goes_on_where_it_was(tmp_path):
    go = asyncio.Event()

    class Waits(ScriptedModel):
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            await go.wait()
            async for part in super().stream(request):
                yield part

    async with asyncio.timeout(WAIT_S), a_team(tmp_path, Waits("done")) as team:
        run = team.run("Go.")
        events = run.events()
        seen = []
        with pytest.raises(TimeoutError):
            await _read_for_a_while(events, seen)
        assert seen and not run.done
        go.set()
        seen += [event async for event in events]
        logged = [type(e) for e in seen if not isinstance(e, kinds.LIVE)]
        assert logged == await _kinds(run.events())


async def test_events_cost_nothing_when_nobody_watches_and_text_comes_in_pieces_when_somebody_does(tmp_path):
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel("one two three")) as team:
        assert not team.session.log.has_listeners()
        run = team.run("Go.")
        text = "".join([event.text async for event in run.events() if isinstance(event, TextDelta)])
    assert text == "one two three"


@pytest.mark.promise("J1", "C10")
async def test_members_and_their_mail_are_in_the_events(tmp_path):
    async with (
        asyncio.timeout(WAIT_S),
        a_team(tmp_path, ScriptedModel({"ada": ["found 3"], "lead": ["w", "w", "w"]})) as team,
    ):
        feed = team.events()
        run = team.run("Wait for ada.")
        await team.spawn("ada", "Look.")
        await run
        states, mail = [], []
        async for _, event in feed:
            match event:
                case MemberChanged(member="ada", state=state):
                    states.append(state)
                case MessageSent(member="ada"):
                    mail.append((event.to, event.summary))
                case RunEnded():
                    break
                case _:
                    pass
    assert states == ["idle", "working", "idle"]
    assert mail == [("team-lead", "found 3")]
