"""The compact prompt: who gets it, that it is short, and that everything else is found by ToolSearch."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from teamwright import Team, ToolCalled
from teamwright.models.model import ModelCard, Request
from teamwright.testing import Call, ScriptedModel
from tests.support.waits import WAIT_S

SERVER = str(Path(__file__).parents[1] / "mcp" / "stdio_server.py")
CORE = {"Bash", "Read", "Edit", "Write", "Grep", "ToolSearch"}
TEAM = {"Agent", "SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"}
SMALL, LARGE = 8_192, 128_000


def model(answers, window: int = SMALL, name: str = "small") -> ScriptedModel:
    card = ModelCard(f"own/{name}", name, "own", usd_in=0.0, usd_out=0.0, context_tokens=window)
    return ScriptedModel(by_agent(answers) if isinstance(answers, dict) else answers, card=card)


def by_agent(answers: dict):
    """Answer each agent with its own list; `*` is any sub-agent."""
    given: dict[str, int] = {}

    def answer(request: Request):
        own = answers.get(request.agent_name, answers.get("*"))
        at = given[request.agent_name] = given.get(request.agent_name, 0) + 1
        return own[min(at, len(own)) - 1]

    return answer


def a_team(root: Path, model, settings: dict | None = None, **more) -> Team:
    work = root / "work"
    work.mkdir(exist_ok=True)
    given = root / "settings.json"
    given.write_text(json.dumps(settings or {}))
    more.setdefault("permission_mode", "bypassPermissions")
    return Team("crew", model=model, cwd=work, home=root / "home", settings_file=given, **more)


async def play(root: Path, model: ScriptedModel, settings: dict | None = None, **more) -> list[Request]:
    async with a_team(root, model, settings, **more) as team:
        assert (await asyncio.wait_for(team.run("Begin."), WAIT_S)).ok
    return model.requests


def head(request: Request) -> dict:
    return json.loads(b"{" + request.prefix.head + b"}")


def tools_of(request: Request) -> set[str]:
    return {tool["name"] for tool in head(request)["tools"]}


def is_compact(request: Request) -> bool:
    return tools_of(request) >= CORE and "Glob" not in tools_of(request)


def tokens(request: Request) -> int:
    fields = head(request)
    return len(json.dumps([fields["system"], fields["tools"]], ensure_ascii=False).encode()) // 4


def of(requests: list[Request], name: str) -> Request:
    return next(request for request in requests if request.agent_name == name)


SPAWN = [
    Call("Agent", {"description": "help", "prompt": "Say hello.", "name": "ada"}),
    Call("Agent", {"description": "look", "prompt": "Find it."}),
]


async def test_lead_teammate_and_sub_agent_have_a_short_prompt_and_the_tools_that_they_need(tmp_path):
    requests = await play(tmp_path, model({"team-lead": [SPAWN, "Done."], "*": ["Hello."]}))
    lead, ada = of(requests, "team-lead"), of(requests, "ada")
    [sub] = [one for one in requests if one.agent_name not in {"team-lead", "ada"}]
    assert tools_of(lead) == tools_of(ada) == CORE | TEAM
    assert tools_of(sub) == CORE
    assert all(tokens(one) <= 1_250 for one in (lead, ada, sub))
    assert head(lead)["system"][0] == head(ada)["system"][0], "a service reads it once for both"


@pytest.mark.parametrize(
    ("window", "settings", "compact"),
    [
        (16_384, {}, True),
        (16_385, {}, False),
        (SMALL, {"prompt": "full"}, False),
        (LARGE, {"prompt": "compact"}, True),
    ],
)
async def test_the_setting_decides_and_without_it_the_window(tmp_path, window, settings, compact):
    [request] = await play(tmp_path, model(["Hello."], window), settings)
    assert is_compact(request) == compact


async def test_an_agent_type_has_its_own_size(tmp_path):
    kind = {"description": "Looks.", "prompt": "You look.", "promptSize": "compact"}
    spawn = [Call("Agent", {"description": "look", "prompt": "Find it.", "subagent_type": "looker"})]
    answers = {"team-lead": [spawn, "Done."], "*": ["Found."]}
    requests = await play(tmp_path, model(answers, LARGE), agents={"looker": kind})
    [sub] = [one for one in requests if one.agent_name != "team-lead"]
    assert not is_compact(of(requests, "team-lead")) and is_compact(sub)
    assert head(sub)["system"][0]["text"].startswith("You look.")


async def test_two_sessions_send_the_same_bytes(tmp_path):
    heads = set()
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        requests = await play(tmp_path / place, model({"team-lead": [SPAWN, "Done."], "*": ["Hello."]}))
        heads.add(tuple(sorted({request.prefix.head for request in requests})))
    assert len(heads) == 1


async def test_a_tool_outside_the_prompt_is_found_and_called_through_tool_search_and_by_its_name(tmp_path):
    calls = [
        Call("ToolSearch", {"query": "find files by their path"}),
        Call("ToolSearch", {"call": "Glob", "arguments": {"pattern": "*.txt"}}),
        Call("Glob", {"pattern": "*.txt"}),
        Call("ToolSearch", {"call": "Glop", "arguments": {}}),
        Call("ToolSearch", {"call": "Glob", "arguments": {"pattren": "*"}}),
        "Done.",
    ]
    played = model(calls)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "here.txt").write_text("x")
    await play(tmp_path, played)
    assert "Glob\nFind files by their path" in played.request_text(1) and '"pattern"' in played.request_text(1)
    assert "here.txt" in played.request_text(2) and "here.txt" in played.request_text(3)
    assert played.request_text(4).startswith("ToolSearch calls no tool 'Glop'.")
    assert "`pattren` is not a parameter (did you mean `pattern`?)" in played.request_text(5)


async def test_a_call_through_tool_search_is_that_tools_call_for_rules(tmp_path):
    calls = [Call("ToolSearch", {"call": "NotebookEdit", "arguments": {"notebook_path": "a.ipynb"}}), "Done."]
    async with a_team(tmp_path, model(calls), permission_mode="default") as team:
        result = await asyncio.wait_for(team.run("Begin."), WAIT_S)
    assert [denial["tool_name"] for denial in result.denials] == ["NotebookEdit"]


async def test_a_forbidden_tool_is_not_found(tmp_path):
    calls = [Call("ToolSearch", {"query": "select:Glob,WebFetch"}), Call("ToolSearch", {"call": "Glob"}), "Done."]
    played = model(calls)
    await play(tmp_path, played, disallowed_tools=["Glob"])
    assert played.request_text(1).startswith("WebFetch") and "Glob" not in played.request_text(1)
    assert "calls no tool" in played.request_text(2)


async def test_without_tool_search_everything_is_in_the_prompt(tmp_path):
    [request] = await play(tmp_path, model(["Hello."]), disallowed_tools=["ToolSearch"])
    assert {"Glob", "WebFetch", "TaskOutput"} < tools_of(request)
    [request] = await play(tmp_path, model(["Hello."], LARGE), disallowed_tools=["ToolSearch"])
    assert {"NotebookEdit", "TaskOutput"} < tools_of(request)


BAD = [Call("Reed", {}), Call("Read", {"path": "a"}), Call("Bash", {"command": "touch x"})]


@pytest.mark.parametrize("window", [SMALL, LARGE])
async def test_a_refused_call_is_one_sentence_for_a_small_model(tmp_path, window):
    played = model([*BAD, "Done."], window)
    async with a_team(tmp_path, played, permission_mode="default") as team:
        await asyncio.wait_for(team.run("Begin."), WAIT_S)
    texts = [played.request_text(number) for number in (1, 2, 3)]
    assert [("\n" in text) for text in texts] == [window == LARGE] * 3
    assert "Read" in texts[0] and "`file_path` is missing" in texts[1] and "not allowed" in texts[2]
    assert all(len(text) < 300 for text in texts) or window == LARGE


async def test_a_fork_repeats_its_callers_prefix_and_calls_deferred_tools(tmp_path):
    fork = [Call("Agent", {"description": "copy", "prompt": "Copy it."})]
    lists = [Call("ToolSearch", {"call": "Glob", "arguments": {"pattern": "*"}}), "Copied."]
    played = model({"team-lead": [fork, "Done."], "*": lists})
    requests = await play(tmp_path, played, {"agents": {"fork": True}})
    forked = [one for one in requests if one.agent_name != "team-lead"]
    assert {one.prefix.head for one in forked} == {of(requests, "team-lead").prefix.head}
    assert "No file matches" in str(forked[1].items[-1]) or "no file" in str(forked[1].items[-1]).lower()


async def test_another_model_brings_its_own_prompt_and_a_resume_keeps_the_one_of_before(tmp_path):
    small = model({"team-lead": ["One."], "ada": ["Hello."]})
    large = model({"team-lead": ["Two."], "ada": ["Hello."]}, LARGE, "large")

    async def resumed(played: ScriptedModel, settings: dict | None = None) -> Request:
        a_team(tmp_path, played, settings)
        given = {"cwd": tmp_path / "work", "home": tmp_path / "home", "settings_file": tmp_path / "settings.json"}
        async with Team.resume("crew", model=played, **given) as team:
            await team.run("Once more.")
        return played.requests[-1]

    async with a_team(tmp_path, small, keep=True) as team:
        await team.spawn("ada", "Say hello.")
        await team.run("Begin.")
        await team.set_model(large)
        await team.run("Again.")
        await team.set_model(small)
        await team.run("And again.")
    of_small, of_large = of(small.requests, "team-lead"), of(large.requests, "team-lead")
    assert is_compact(of_small) and not is_compact(of_large)
    assert small.requests[-1].prefix.head == of_small.prefix.head
    again = await resumed(small, {"prompt": "full"})
    assert again.prefix.head == of_small.prefix.head, "a conversation keeps its prompt"
    assert (await resumed(large)).prefix.head == of_large.prefix.head, "the other model has its own"


async def test_tools_of_servers_are_called_through_tool_search(tmp_path):
    calls = [
        Call("ToolSearch", {"query": "say some text again"}),
        Call("ToolSearch", {"call": "mcp__plain__echo", "arguments": {"text": "hi"}}),
        "Done.",
    ]
    played = model(calls)
    servers = {"plain": {"command": sys.executable, "args": [SERVER]}}
    requests = await play(tmp_path, played, mcp_servers=servers)
    assert tools_of(requests[0]) == CORE | TEAM and tokens(requests[0]) <= 1_400
    assert "mcp__plain__echo" in played.request_text(1) and played.request_text(2) == "hi"


async def test_a_lead_that_only_coordinates_finds_the_tools_that_it_has(tmp_path):
    calls = [
        Call("ToolSearch", {"query": "select:ListAgents"}),
        Call("ToolSearch", {"call": "ListAgents"}),
        Call("ToolSearch", {"call": "Glob", "arguments": {"pattern": "*"}}),
        "Done.",
    ]
    async with a_team(tmp_path, model(calls), permission_mode="delegate") as team:
        result = await asyncio.wait_for(team.run("Begin."), WAIT_S)
    assert [denial["tool_name"] for denial in result.denials] == ["Glob"]


async def test_a_tool_of_a_server_is_called_through_mcp_call_and_tool_search_too(tmp_path):
    inner = {"server": "plain", "tool": "echo", "arguments": {"text": "hi"}}
    played = model([Call("ToolSearch", {"call": "McpCall", "arguments": inner}), "Done."])
    servers = {"plain": {"command": sys.executable, "args": [SERVER]}}
    await play(tmp_path, played, mcp_servers=servers)
    assert played.request_text(1) == "hi"


async def test_events_and_hooks_of_a_call_through_tool_search_name_the_tool_that_ran(tmp_path):
    seen = tmp_path / "batch.json"
    hook = {"hooks": [{"type": "command", "command": f"cat > {seen}"}]}
    played = model([Call("ToolSearch", {"call": "Glob", "arguments": {"pattern": "*.txt"}}), "Done."])
    async with a_team(tmp_path, played, {"hooks": {"PostToolBatch": [hook]}}) as team:
        called: list[ToolCalled] = []
        team.session.log.subscribe(lambda _n, event: called.append(event) if isinstance(event, ToolCalled) else None)
        await asyncio.wait_for(team.run("Begin."), WAIT_S)
    assert [(event.tool, event.input) for event in called] == [("Glob", {"pattern": "*.txt"})]
    [call] = json.loads(seen.read_text())["tool_calls"]
    assert (call["tool_name"], call["tool_input"]) == ("Glob", {"pattern": "*.txt"})


async def test_tool_search_finds_what_the_prompt_of_a_resumed_conversation_leaves_out(tmp_path):
    calls = [Call("ToolSearch", {"call": "Glob", "arguments": {"pattern": "*.txt"}}), "Two."]
    search = [Call("ToolSearch", {"query": "select:Glob"}), "Three."]
    await play(tmp_path, model(["One."]), keep=True)
    (tmp_path / "work" / "here.txt").write_text("x")
    given = {"cwd": tmp_path / "work", "home": tmp_path / "home", "settings_file": tmp_path / "settings.json"}
    for answers, expected in ((calls, "here.txt"), (search, "Glob\nFind files")):
        played = model(answers, LARGE)
        async with Team.resume("crew", model=played, permission_mode="bypassPermissions", **given) as team:
            assert (await asyncio.wait_for(team.run("Go on."), WAIT_S)).ok
        assert is_compact(played.requests[0])
        assert expected in played.request_text(len(played.requests) - 1)
