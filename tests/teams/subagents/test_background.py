"""Sub-agents in the background: launched, told of once, at the right parent, whatever else happens."""

import json

import pytest

from teamwright.protocol.events import ToolCalled
from teamwright.protocol.ids import LEAD
from teamwright.testing import Call
from tests.support.waits import WAIT_S
from tests.teams.crew import within
from tests.teams.subagents.crowd import Children, behind, crew, only, results, start, until


def facts_of(team, tool="Agent"):
    seen = []
    team.session.log.subscribe(
        lambda _n, e: seen.append(e.facts) if isinstance(e, ToolCalled) and e.tool == tool else None
    )
    return seen


@pytest.mark.promise("row F3", "row F13", "F36")
async def test_one_in_the_background_is_launched_with_its_fields_and_its_end_is_told_with_its_result(tmp_path):
    model = Children(behind("Count the lines."), "I wait.")
    async with crew(tmp_path, model) as team:
        seen = facts_of(team)
        result = await team.run("Go.")
        run = only(team)
    named = {"status", "agentId", "description", "prompt", "outputFile", "canReadOutputFile", "brief"}
    assert [set(f) for f in seen] == [named]
    assert (seen[0]["status"], seen[0]["prompt"]) == ("async_launched", "Count the lines.")
    assert run.output_file.read_text().splitlines()[1:] == ["done: Count the lines.", "[completed]"]
    assert result.text.startswith("told: <task-notification key=")
    for part in (
        f"<task-id>{run.id}</task-id>\n<tool-use-id>{run.call}</tool-use-id>\n",
        f"\n<output-file>{run.output_file}</output-file>\n<status>completed</status>\n",
        '\n<summary>Sub-agent "job Count the lines." completed.</summary>\n<result>done: Count the lines.</result>\n',
        f"<usage>total_tokens: 0\ntool_uses: 0\nduration_ms: {run.duration_ms}</usage>\n</task-notification>",
    ):
        assert part in result.text, part
    assert model.notices() == [run.id]


@pytest.mark.promise("row F2", "row F13")
async def test_one_in_the_foreground_answers_in_its_call_with_id_and_usage_and_tells_no_notice(tmp_path):
    model = Children(start("Look."), "I have it.")
    async with crew(tmp_path, model) as team:
        seen = facts_of(team)
        await team.run("Go.")
        run = only(team)
    assert results(model)[0].startswith(f"done: Look.\nagentId: {run.id}\n<usage>total_tokens: 0\ntool_uses: 0")
    assert seen[0].keys() >= {"status", "content", "agentId", "totalTokens", "totalToolUseCount", "totalDurationMs"}
    assert seen[0]["status"] == "completed" and not model.notices()


@pytest.mark.promise("F38", "F39", "row F14")
async def test_twenty_that_end_at_once_are_told_once_each_and_one_that_fails_takes_nobody_along(tmp_path):
    jobs = [f"hold {number:02}" for number in range(19)] + ["hold fail 19"]
    model = Children([behind(job) for job in jobs], "I wait.")
    async with crew(tmp_path, model) as team:
        done = team.run("Go.")
        await until(team, lambda: len(team.session.agents.running_runs()) == 20)
        model.go.set()
        await within(WAIT_S, done)
        runs = team.session.agents.runs
        assert sorted(model.notices()) == sorted(runs) and len(runs) == 20
        for run in runs.values():
            part = next(p for p in model.told().split("<task-notification ") if f"<task-id>{run.id}<" in p)
            assert f'Sub-agent \\"{run.description}\\" {run.state}' in part, "the id is its producer's"
    assert sorted(run.state for run in runs.values()) == ["completed"] * 19 + ["failed"]


@pytest.mark.promise("F38")
async def test_nothing_is_told_before_the_childs_own_jobs_have_ended(tmp_path):
    gate = tmp_path / "work/gate"
    held = f"until [ -e {gate} ]; do sleep 0.05; done; echo late"

    class WithJob(Children):
        def _said(self, request):
            if request.agent_name == LEAD:
                return super()._said(request)
            if len(request.items) == 1:
                return Call("Bash", {"command": held, "run_in_background": True})
            return f"said {len(request.items)}"

    model = WithJob(behind("Start it."), "I wait.")
    async with crew(tmp_path, model) as team:
        done = team.run("Go.")
        await until(team, lambda: team.session.jobs.list())
        run = only(team)
        await until(team, lambda: any(r.agent_name == run.id and len(r.items) == 3 for r in model.requests))
        assert run.is_running and not model.notices()
        gate.touch()
        await within(WAIT_S, done)
        assert (run.state, run.text) == ("completed", "said 5")
        assert "Background command" in model.told(run.id)


@pytest.mark.promise("row F3", "F36")
async def test_one_that_is_stopped_is_told_as_killed_with_what_it_had_said_and_its_end_can_be_read(tmp_path):
    def stop(request):
        return Call("TaskStop", {"task_id": only(team).id})

    def read(request):
        return Call("TaskOutput", {"task_id": only(team).id, "block": False})

    model = Children(behind("work, then stall"), "I wait.", stop, read, stop, "Enough.")
    async with crew(tmp_path, model) as team:
        done = team.run("Go.")
        await within(WAIT_S, model.thinking.wait())
        team.session.lead.add_prompt([{"type": "text", "text": "Stop it."}])
        await within(WAIT_S, done)
        run = only(team)
    stopped, shown, again = results(model)[1:]
    body = json.loads(stopped)
    assert (body["task_id"], body["task_type"], body["command"]) == (run.id, "local_agent", run.description)
    assert "<status>killed</status>" in shown and "begun" in shown
    assert again.startswith(f"{run.id} is not running (status: killed).")
    notice = model.told().split("<task-notification ")[1]
    assert '\\" was killed: stopped by the lead' in notice and "<result>begun</result>" in notice
    assert model.notices() == [run.id]


@pytest.mark.promise("row F12", "F37")
async def test_a_blocking_read_delivers_the_end_and_takes_the_notice_along(tmp_path):
    def read(request):
        model.go.set()
        return Call("TaskOutput", {"task_id": only(team).id})

    model = Children(behind("hold on"), read, "I have it.")
    async with crew(tmp_path, model) as team:
        await team.run("Go.")
        run = only(team)
    assert results(model)[1].split("\n\n") == [
        "<retrieval_status>success</retrieval_status>",
        f"<task_id>{run.id}</task_id>",
        "<task_type>local_agent</task_type>",
        "<status>completed</status>",
        "<output>\ndone: hold on\n</output>",
    ]
    assert not model.notices()


@pytest.mark.promise("F37")
async def test_waiting_ends_in_time_and_ids_that_never_were_are_told_from_those_that_run(tmp_path):
    def read(request):
        return Call("TaskOutput", {"task_id": only(team).id, "timeout": 50})

    def look(request):
        return Call("TaskOutput", {"task_id": only(team).id, "block": False})

    def wrong(request):
        return Call("TaskOutput", {"task_id": only(team).id[:-1] + "z"})

    def end(request):
        model.go.set()
        return "Go on."

    model = Children(behind("hold on"), read, look, wrong, end)
    async with crew(tmp_path, model) as team:
        await team.run("Go.")
        run = only(team)
    waited, looked, unknown = results(model)[1:]
    assert "timeout</retrieval_status>" in waited and "<status>running</status>" in waited
    assert "not_ready</retrieval_status>" in looked
    assert "there is no background task" in unknown and f"Did you mean {run.id}?" in unknown
    assert model.notices() == [run.id], "a read that did not deliver the end takes nothing away"


@pytest.mark.promise("P5", "row F3")
async def test_interrupting_the_foreground_leaves_the_background_alone_and_ends_the_foreground(tmp_path):
    model = Children([behind("hold a"), start("hold b")])
    async with crew(tmp_path, model) as team:
        running = team.run("Go.")
        await until(team, lambda: len(team.session.agents.running_runs()) == 2)
        await until(team, lambda: model.thinking.is_set())
        one, other = team.session.agents.runs.values()
        await running.stop()
        assert (one.state, other.state) == ("running", "killed")
        assert not team.session.agents.running_runs(background=False)
        model.go.set()
        await within(WAIT_S, one.ended.wait())
        assert one.state == "completed"


async def test_the_lead_sees_sub_agents_in_its_list_with_ids_and_states(tmp_path):
    def end(request):
        model.go.set()
        return "I wait."

    model = Children(behind("hold on"), Call("ListAgents", {}), end)
    async with crew(tmp_path, model) as team:
        await team.run("Go.")
        run = only(team)
    [row] = json.loads(results(model)[1])["sub_agents"]
    assert row["agentId"] == run.id and row["state"] == "running" and row["of"] == "lead"


@pytest.mark.promise("row F3")
@pytest.mark.parametrize(
    ("options", "reads"),
    [
        ({}, True),
        ({"disallowed_tools": ["Read"]}, False),
        ({"disallowed_tools": ["Read(//**/output/**)"]}, False),
        ({"disallowed_tools": ["Read(docs/**)"]}, True),
    ],
)
async def test_its_caller_is_told_of_a_file_that_it_can_read_and_of_no_other(tmp_path, options, reads):
    model = Children(behind("Look."), "I wait.")
    async with crew(tmp_path, model, **options) as team:
        seen = facts_of(team)
        await team.run("Go.")
        run = only(team)
    assert [facts["canReadOutputFile"] for facts in seen] == [reads]
    assert (f"output_file: {run.output_file}\n" in results(model)[0]) is reads
