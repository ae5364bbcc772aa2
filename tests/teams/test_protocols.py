"""What members may send, in both shapes; what a member's end tells; kinds of agents; many members in one loop."""

import json

import pytest

from teamwright.testing import ScriptedModel
from tests.support.notices import notices
from tests.teams.crew import a_team, newest, told, until


@pytest.mark.promise("C1", "C2")
@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ({"type": "message", "recipient": "ada", "content": "hello", "summary": "hi"}, '"success": true'),
        ({"type": "message", "content": "hello"}, "a message needs a recipient"),
        ({"type": "message", "recipient": "ada", "content": " "}, "a message needs text"),
        ({"type": "message", "recipient": "adda", "content": "x"}, "did you mean ada?"),
        ({"type": "broadcast", "content": "all"}, "Sent to 1 member: ada"),
        ({"type": "shutdown_request"}, "a message needs a recipient"),
        ({"type": "shutdown_request", "recipient": "*"}, "one member at a time"),
        ({"to": "", "message": "x"}, "a message needs a recipient"),
        ({"to": "ada@crew", "message": "x"}, '"target": "@ada"'),
        ({"to": "lead", "message": "x"}, "you cannot send a message to yourself"),
        (
            {"to": "ada", "message": {"type": "shutdown_response", "approve": True}},
            "a member's answer, and you are the lead",
        ),
        ({"to": "ada", "message": {"type": "nonsense"}}, "does not fit"),
    ],
)
@pytest.mark.slow_after(3)
async def test_both_shapes_of_a_message_are_taken_and_each_mistake_has_its_sentence(tmp_path, sent, answer):
    def script(request):
        if request.agent_name == "ada":
            return "ok"
        return ("SendMessage", sent) if len(request.items) == 1 else "fine"

    model = ScriptedModel(script)
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        await team.run("Send it.")
    second = [r for r in model.requests if r.agent_name == "team-lead"][1]
    assert answer in newest(second)


@pytest.mark.promise("D5", "D3")
@pytest.mark.parametrize("how", ["stopped", "broke", "consented"])
async def test_every_end_reaches_the_lead_once_with_its_cause(tmp_path, how):
    def script(request):
        if request.agent_name == "ada" and how == "broke":
            raise KeyError("a mistake")
        if request.agent_name == "ada":
            return "ok"
        stop = ("SendMessage", {"to": "ada", "message": {"type": "shutdown_request"}})
        return stop if how == "consented" and len(request.items) == 1 else "fine"

    model = ScriptedModel(script)
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state in {"idle", "gone"})
        if how == "stopped":
            await ada.stop()
        await team.run("And?")
        await team.run("And now?")
        assert ada.state == "gone"
    said = told(model, "team-lead")
    assert len(notices("teammate_terminated", said)) == 1
    assert {"stopped": "stopped by the program", "broke": "a mistake", "consented": "shut down on request"}[how] in said


@pytest.mark.promise("row F9", "row F1")
@pytest.mark.parametrize(
    ("kind", "tools"),
    [
        (
            "general-purpose",
            {"Bash", "Read", "Write", "Edit", "Glob", "Grep", "ToolSearch"},
        ),
        ("Explore", {"Bash", "Read", "Glob", "Grep", "WebFetch"}),
        ("Plan", {"Bash", "Read", "Glob", "Grep", "WebFetch"}),
        ("Bash", {"Bash"}),
    ],
)
async def test_a_built_in_kind_has_its_stated_tools_and_as_a_teammate_also_mail_and_tasks(tmp_path, kind, tools):
    def script(request):
        if request.agent_name == "team-lead" and len(request.items) == 1:
            return ("Agent", {"description": "x", "prompt": "Go.", "subagent_type": kind})
        return "ok"

    model = ScriptedModel(script)
    async with a_team(tmp_path, model) as team:
        await team.run("Start one.")
        ada = await team.spawn("ada", "Wait.", agent_type=kind)
        await until(team, lambda: ada.state == "idle" and model.requests[-1].agent_name == "ada")
    of = {r.agent_name: {t["name"] for t in json.loads(b"{" + r.prefix.head + b"}")["tools"]} for r in model.requests}
    sub = next(names for asker, names in of.items() if asker not in {"team-lead", "ada"})
    team_tools = {"SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "ExitPlanMode"}
    assert sub == tools
    assert of["ada"] >= tools | team_tools and not of["ada"] & {"TeamCreate", "TeamDelete"}


@pytest.mark.promise("row F1")
async def test_a_sub_agent_may_do_no_more_than_the_member_that_started_it(tmp_path):
    def script(request):
        if request.agent_name == "team-lead":
            return "w"
        first = len(request.items) == 1
        if request.agent_name == "ada":
            return ("Agent", {"description": "write it", "prompt": "Write."}) if first else "done"
        return ("Bash", {"command": "touch made"}) if first else "tried"

    async with a_team(tmp_path, ScriptedModel(script)) as team:
        await team.spawn("ada", "Delegate.", mode="dontAsk")
        result = await team.run("Wait.")
    assert not (tmp_path / "made").exists()
    assert result.denials[0]["member"] == "ada › general-purpose: write it"


@pytest.mark.promise("row F1")
@pytest.mark.parametrize(
    "more",
    [
        {"resume": "a1"},
        {"resume": "a1", "model": "haiku"},
        {"resume": "a1", "name": "ada"},
        {"run_in_background": False, "name": "ada"},
        {"isolation": "worktree"},
        {"cwd": "/no/such/directory"},
        {"effort": "high"},
        {"subagent_type": "Explorer"},
        {"name": "ada", "team_name": "other"},
    ],
)
async def test_what_belongs_to_later_work_or_to_nobody_is_refused_and_starts_nothing(tmp_path, more):
    model = ScriptedModel(
        lambda r: ("Agent", {"description": "x", "prompt": "Go."} | more) if len(r.items) == 1 else "ok"
    )
    async with a_team(tmp_path, model) as team:
        await team.run("Start it.")
        assert not team.members
    assert {r.agent_name for r in model.requests} == {"team-lead"}
    assert json.loads(model.requests[1].items[-1])["content"][0]["is_error"]


@pytest.mark.slow
@pytest.mark.promise("E1")
async def test_a_hundred_members_live_in_one_loop_and_each_does_its_turns(tmp_path, own_home):
    (own_home / ".teamwright").mkdir(mode=0o700)
    limits = {"members": 100, "spawns": 100, "spawns_per_minute": 100}
    (own_home / ".teamwright" / "settings.json").write_text(json.dumps({"limits": limits}))
    model = ScriptedModel("ok")
    async with a_team(tmp_path, model) as team:
        for number in range(100):
            await team.spawn(f"m{number}", "Say ok.")
        await until(team, lambda: all(m.state == "idle" for m in team.members))
        assert len({r.agent_name for r in model.requests}) == 100
