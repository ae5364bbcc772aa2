"""Going on with a sub-agent: by its id, with words while it runs and after, over lives of the session, at any size."""

import asyncio
import json

import pytest

from teamwright import Budget, Team
from teamwright.agent.agent import SOURCES, CommandMode, CommandPriority, InputQueue
from teamwright.models.model import ModelCard
from teamwright.protocol.errors import LimitExceeded
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.session.control.action_table import stop_running
from teamwright.subagents.subagent_settings import CallRef
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.testing import Call
from tests.support.waits import WAIT_S
from tests.teams.crew import within
from tests.teams.subagents.crowd import Children, behind, crew, only, results, start


def resume(team, prompt, **more):
    return lambda _request: Call("Agent", {"description": "more", "prompt": prompt, "resume": only(team()).id} | more)


@pytest.mark.promise("row F1", "F57")
async def test_one_that_has_ended_goes_on_with_all_it_knew_under_the_same_id(tmp_path):
    held: list[Team] = []
    model = Children(start("Look."), resume(lambda: held[0], "And there?"), "Good.")
    async with crew(tmp_path, model) as team:
        held.append(team)
        await team.run("Go.")
        run = only(team)
    first, second = results(model)
    assert f"agentId: {run.id}" in first and second.startswith("done: And there?")
    assert f"agentId: {run.id}" in second and run.generation == 2
    asked = [r for r in model.requests if r.agent_name == run.id]
    assert asked[1].items[:2] == (*asked[0].items, asked[1].items[1]) and len(asked[1].items) == 3
    assert asked[0].prefix == asked[1].prefix


@pytest.mark.promise("row F1", "F57")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"resume": "a000000"}, "there is no sub-agent 'a000000' in this session"),
        ({"resume": "a000000", "model": "haiku"}, "model cannot be given with resume"),
        ({"resume": "a000000", "subagent_type": "Explore"}, "subagent_type cannot be given with resume"),
        ({"team_name": "crew"}, "team_name is for a teammate, and a teammate needs a name"),
        ({"resume": "a000000", "team_name": "crew"}, "team_name is for a teammate"),
    ],
)
async def test_an_id_that_never_was_and_what_cannot_be_honoured_are_errors(tmp_path, given, said):
    model = Children(start("x", **given), "I see.")
    async with crew(tmp_path, model) as team:
        await team.run("Go.")
        assert not team.session.agents.runs
    assert said in results(model)[0]


def message(team, text):
    return lambda _request: Call("SendMessage", {"to": only(team()).id, "message": text})


@pytest.mark.promise("row F11")
async def test_words_for_a_running_one_stand_in_its_transcript_at_once_and_are_read_before_its_next_step(tmp_path):
    held: list[Team] = []

    def after(_request):
        lines = [json.loads(line) for line in only(held[0]).transcript.read_text().splitlines()]
        queued.extend(line["content"][0]["text"] for line in lines if line["type"] == "queued")
        model.go.set()
        return "I wait."

    queued: list[str] = []
    model = Children(behind("hold, then work"), message(lambda: held[0], "Also look there."), after)
    async with crew(tmp_path, model) as team:
        held.append(team)
        await team.run("Go.")
        run = only(team)
    assert queued == ["hold, then work", "Also look there."]
    assert json.loads(results(model)[1])["outcome"] == "queued_next_round"
    assert "Also look there." in model.told(run.id) and model.notices() == [run.id]


@pytest.mark.promise("row F11")
async def test_words_for_one_that_has_ended_make_it_go_on_in_the_background_and_its_end_is_told_again(tmp_path):
    held: list[Team] = []
    model = Children(start("Look."), message(lambda: held[0], "Look again."), "I wait.")
    async with crew(tmp_path, model) as team:
        held.append(team)
        result = await team.run("Go.")
        run = only(team)
    assert json.loads(results(model)[1])["outcome"] == "resumed"
    assert "<result>done: Look again.</result>" in result.text and model.notices() == [run.id]


@pytest.mark.promise("row F11")
async def test_without_teams_one_is_reached_by_its_name(tmp_path):
    model = Children(
        behind("hold", name="flaky"),
        lambda _r: Call("SendMessage", {"to": "Flaky", "message": "Only the second one."}),
        lambda _r: model.go.set() or "I wait.",
    )
    from teamwright.session.open_session import open_session
    from teamwright.session.options import Options

    (tmp_path / "work").mkdir()
    options = Options(cwd=tmp_path / "work", model=model, teams=False, permission_mode="bypassPermissions")
    async with open_session(options) as session:
        await within(WAIT_S, session.run([text_block("Go.")]))
        [run] = session.agents.runs.values()
        assert (run.name, run.state) == ("flaky", "completed")
    assert "Only the second one." in model.told(run.id)


@pytest.mark.promise("F57")
async def test_fifty_megabytes_are_no_obstacle_and_neither_is_another_life_of_the_session(tmp_path):
    model = Children(start("Look."), "Done.")
    async with crew(tmp_path, model) as team:
        await team.run("Go.")
        run, home = only(team), team.session.agents
        path = home.builder.transcript_path(run.id)
    big = json.dumps({"role": "user", "content": [text_block("x" * 1_000_000)]}, separators=(",", ":"))
    small = json.dumps({"role": "assistant", "content": [text_block("seen")]}, separators=(",", ":"))
    with open(path, "a") as file:
        for _ in range(50):
            file.write(f'{{"type":"user","at":"2026-01-01T00:00:00Z","message":{big}}}\n')
            file.write(f'{{"type":"assistant","at":"2026-01-01T00:00:00Z","message":{small}}}\n')
    assert path.stat().st_size > 50_000_000
    again = Children(lambda _r: Call("SendMessage", {"to": run.id, "message": "Still there?"}), "I wait.")
    again._card = ModelCard("scripted", "scripted", "scripted", context_tokens=100_000_000, usd_in=0.0, usd_out=0.0)
    given = {"cwd": tmp_path / "work", "permission_mode": "bypassPermissions", "budget": Budget.unlimited()}
    async with Team.resume("crew", model=again, **given) as team:
        result = await within_result(WAIT_S, team.run("Ask it."))
        assert team.session.agents.runs[run.id].state == "completed"
    assert "<result>done: Still there?</result>" in result.text
    assert len(next(r for r in again.requests if r.agent_name == run.id).items) == 103


async def within_result(seconds, wait):
    import asyncio

    async with asyncio.timeout(seconds):
        return await wait


@pytest.mark.promise("row F10")
def test_the_order_of_what_waits_is_one_table_and_what_the_runtime_says_never_goes_before_words():
    queue = InputQueue()
    for source in reversed(SOURCES):
        if source != "shell":
            queue.put(source, [text_block(source)], source)
    queue.put("user", [text_block("second")], "second")
    assert [one.id for one in queue.texts_in_order()] == [
        "user", "second", "shutdown", "lead", "peer", "permission", "notice", "task",
    ]  # fmt: skip
    assert {one.mode for one in queue.texts_in_order()} == {
        CommandMode.PROMPT,
        CommandMode.TASK_NOTIFICATION,
        CommandMode.ORPHANED_PERMISSION,
    }
    assert [row.priority for row in SOURCES.values()] == sorted(row.priority for row in SOURCES.values())
    assert SOURCES["user"].priority is CommandPriority.NOW and SOURCES["notice"].priority is CommandPriority.LATER
    assert queue.withdraw("notice") and not queue.withdraw("notice")


@pytest.mark.promise("row F10")
async def test_a_persons_command_runs_between_turns_wakes_nobody_and_goes_along_with_the_next_words(tmp_path):
    model = Children("First.", "Second.")
    async with crew(tmp_path, model) as team:
        lead = team.session.lead
        lead.queue_shell("echo from the shell > made; cat made")
        assert await lead.run_turn() is None and not model.requests
        await team.run("What did it print?")
        lead.add_late_answer("The request is gone.")
        await lead.run_turn()
        assert (tmp_path / "work" / "made").exists()
    assert "<bash-output>from the shell</bash-output>" in model.request_text(
        0
    ) and "The request is gone." in model.request_text(1)


@pytest.mark.promise("row F16")
async def test_a_coordinators_agents_run_in_the_background_and_a_call_names_no_model(tmp_path):
    model = Children(start("a"), start("b", model="haiku"), start("c", run_in_background=False), "I wait.")
    async with crew(tmp_path, model, settings={"coordinator": True}) as team:
        await team.run("Go.")
        assert [run.background for run in team.session.agents.runs.values()] == [True]
        schema = next(t for t in team.session.lead.agent.toolbox.schemas if t["name"] == "Agent")["input_schema"]
    assert not {"model", "run_in_background"} & set(schema["properties"])
    launched, model_named, waited = results(model)
    assert "runs in the background" in launched and "does not take model now" in model_named
    assert "does not take run_in_background now" in waited


@pytest.mark.finding("3S8")
@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"coordinator": True}, True),
        ({"coordinator": True}, "true"),
        ({"agents": {"background": "always"}}, True),
        ({"agents": {"background": False}}, False),
    ],
)
async def test_a_call_may_name_the_value_that_holds_anyway(tmp_path, settings, value):
    model = Children(start("a", run_in_background=value), start("b", run_in_background=value is False), "I wait.")
    async with crew(tmp_path, model, settings=settings) as team:
        await team.run("Go.")
        [run] = team.session.agents.runs.values()
        assert run.background is (value is not False)
    assert "does not take run_in_background now" in results(model)[1]


@pytest.mark.promise("row F16")
async def test_agents_that_always_run_in_the_background_never_hold_up_their_caller_and_without_one_all_are_waited_for(
    tmp_path,
):
    model = Children(start("a", model="scripted"), "I wait.")
    async with crew(tmp_path, model, settings={"agents": {"background": "always"}}) as team:
        await team.run("Go.")
        assert only(team).background
    (tmp_path / "2").mkdir()
    model = Children(behind("a"), start("b"), "Good.")
    async with crew(tmp_path / "2", model, settings={"agents.background": False}, replace=True) as team:
        await team.run("Go.")
        assert not only(team).background
    assert "nothing runs in the background here" in results(model)[0]


@pytest.mark.promise("row F15", "F59")
async def test_the_cap_on_those_that_run_holds_on_every_route(tmp_path):
    held: list[Team] = []

    def three(_request):
        return [behind("hold a"), behind("hold b"), behind("hold c")]

    def end(_request):
        model.go.set()
        return "I wait."

    model = Children(three, end)
    async with crew(tmp_path, model) as team:
        team.session.agents._limits.settings = type(team.session.agents._limits.settings)(agents=2)
        held.append(team)
        await team.run("Go.")
        assert len(team.session.agents.runs) == 2
    assert sum("2 sub-agents are running already" in text for text in results(model)) == 1


class Slow:
    """A builder that makes an agent only when the test lets it."""

    def __init__(self, team: Team) -> None:
        self.builder = team.session.agents.builder
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        team.session.agents.builder = self

    async def build_subagent(self, *given, **more):
        self.asked.set()
        await self.go.wait()
        return await self.builder.build_subagent(*given, **more)

    def __getattr__(self, name: str):
        return getattr(self.builder, name)


@pytest.mark.promise("row F12", "F38")
async def test_one_that_is_stopped_while_it_is_about_to_go_on_is_stopped_and_told_of(tmp_path):
    model = Children(start("Look."), "Good.")
    async with crew(tmp_path, model) as team:
        await team.run("Go.")
        run, slow = only(team), Slow(team)
        agents = team.session.agents
        async with asyncio.timeout(WAIT_S):
            call = CallRef("call_9", "key-9")
            comes = asyncio.ensure_future(agents.resume(run, "hold", LEAD, call, background=True))
            await slow.asked.wait()
            stopped = asyncio.ensure_future(stop_running(team.session.agent_factory, run))
            await asyncio.sleep(0)
            slow.go.set()
            assert await comes is run
            assert (await stopped).endswith("was stopped") and run.state == "killed"
        await team.run("And?")
    assert model.notices() == [run.id]


@pytest.mark.promise("F59", "row F15")
async def test_nothing_begins_once_the_session_has_ended_however_long_it_took_to_make(tmp_path):
    model = Children(start("Look."), "Good.")
    async with crew(tmp_path, model) as team:
        await team.run("Go.")
        run, slow = only(team), Slow(team)
        agents, call = team.session.agents, CallRef("call_9", "key-9")
        async with asyncio.timeout(WAIT_S):
            again = asyncio.ensure_future(agents.resume(run, "More.", LEAD, call, background=True))
            new = asyncio.ensure_future(agents.start(SpawnSpec("New."), LEAD, CallRef(), background=True))
            await slow.asked.wait()
            await agents.end_background()
            slow.go.set()
            ends = await asyncio.gather(again, new, return_exceptions=True)
        assert all(isinstance(end, LimitExceeded) and "the session has ended" in end.what for end in ends)
        assert not agents.running_runs() and list(agents.runs) == [run.id] and run.state == "completed"


@pytest.mark.finding("T9")
async def test_one_that_is_resumed_and_stopped_in_the_same_answer_ends(tmp_path):
    """It is cancelled before its first step, and its end must be noted all the same."""
    held: list[Team] = []

    def both(_request):
        run = only(held[0])
        return [Call("SendMessage", {"to": run.id, "message": "More."}), Call("TaskStop", {"task_id": run.id})]

    model = Children(start("Look."), both, "I see.", "Good.")
    async with crew(tmp_path, model) as team:
        held.append(team)
        await within(WAIT_S, team.run("Go."))
        run = only(team)
    assert not run.is_running and run.state in {"killed", "completed"}
