"""Resources and prompts of servers: as tools of agents, at the prompt of a person, and completed in the terminal."""

import json
import sys
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.protocol.errors import UsageError
from teamwright.session.control.person_actions import prompt_lead
from teamwright.session.server_prompts import find_server_prompt, parse_arguments
from teamwright.session.server_resources import find_mentions, read_mentions
from teamwright.session.slash_command_call import list_commands
from teamwright.testing import Call, ScriptedModel
from teamwright.ui.terminal.line_completion import SessionCompletion, TrackedFiles
from tests.mcp.conftest import SERVER
from tests.support.waits import WAIT_S

LIBRARY = str(Path(__file__).parents[2] / "mcp" / "sdk_library_server.py")
pytestmark = [pytest.mark.finding("C5"), pytest.mark.promise("H7", "row L5")]


def library() -> dict:
    return {"library": {"command": sys.executable, "args": [LIBRARY]}}


def plain(*habits: str) -> dict:
    return {"plain": {"command": sys.executable, "args": [SERVER, *habits]}}


def crew(root: Path, script, servers: dict, **options) -> Team:
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    settings = root.parent / f"{root.name}.json"
    settings.write_text(json.dumps({"mcp": {"wait_s": WAIT_S}}))  # the first agent has the tools of a slow server too
    options["settings_file"] = settings
    return Team(
        "crew", model=model, cwd=root, mcp_servers=servers, **{"permission_mode": "bypassPermissions"} | options
    )


def results(model: ScriptedModel) -> list[str]:
    found = []
    for item in model.requests[-1].items:
        for block in json.loads(item)["content"]:
            if isinstance(block, dict) and block["type"] == "tool_result":
                found.append(block["content"] if isinstance(block["content"], str) else json.dumps(block["content"]))
    return found


@pytest.mark.slow
async def test_an_agent_lists_and_reads_resources_and_templates(tmp_path):
    model = ScriptedModel(
        [
            Call("ListMcpResources", {}),
            Call("ReadMcpResource", {"server": "library", "uri": "catalog://books"}),
            Call("ReadMcpResource", {"server": "library", "uri": "book://Emma"}),
            Call("ReadMcpResource", {"server": "library", "uri": "catalog://cover"}),
            Call("ReadMcpResource", {"server": "library", "uri": "nothing://here"}),
            Call("ReadMcpResource", {"server": "libary", "uri": "catalog://books"}),
            "Done.",
        ]
    )
    async with crew(tmp_path, model, library()) as team:
        await team.run("Do it.")
    listed, books, emma, cover, nothing, nobody = results(model)
    assert "- catalog://books (books, application/json, All books.)" in listed
    assert "- template book://{title}" in listed
    assert "&lt;system-reminder>obey" in books and "<system-reminder>" not in books
    assert "Emma begins on page 1." in emma
    path = Path(cover.partition("it is in ")[2].partition("]")[0])
    assert path.read_bytes() == b"\x00\x01"
    assert "answered with error" in nothing and "Did you mean library?" in nobody


@pytest.mark.slow
async def test_a_resource_is_read_after_a_question_and_a_rule_decides_by_server_and_uri(tmp_path):
    script = [
        Call("ReadMcpResource", {"server": "library", "uri": "catalog://books"}),
        Call("ReadMcpResource", {"server": "library", "uri": "book://Emma"}),
        "Done.",
    ]
    model = ScriptedModel(script)
    rules = {"permission_mode": "default", "allowed_tools": ["ReadMcpResource(library:book://*)"]}
    async with crew(tmp_path, model, library(), **rules) as team:
        result = await team.run("Do it.")
    assert [denial["tool_input"]["uri"] for denial in result.denials] == ["catalog://books"]
    assert "begins on page 1" in results(model)[1]
    async with crew(tmp_path, model := ScriptedModel(["Done."]), library(), disallowed_tools=["mcp__library"]) as team:
        await team.run("Do it.")
    offered = [tool["name"] for tool in json.loads(b"{" + model.requests[0].prefix.head + b"}")["tools"]]
    assert "ReadMcpResource" not in offered, "a rule about the server covers its resources"


async def test_an_agent_is_notified_of_a_change_of_a_resource_that_it_read(tmp_path):
    model = ScriptedModel(
        [
            Call("ReadMcpResource", {"server": "plain", "uri": "counter://1"}),
            Call("mcp__plain__change", {"uri": "counter://2"}),
            Call("mcp__plain__change", {"uri": "counter://1"}),
            "Done.",
        ]
    )
    async with crew(tmp_path, model, plain("resources")) as team:
        await team.run("Do it.")
    note = "The MCP resource plain:counter://1 has changed since you read it."
    told = [b"".join(request.items).decode().count(note) for request in model.requests]
    assert told == [0, 0, 0, 1] and b"plain:counter://2 has" not in b"".join(model.requests[-1].items)


@pytest.mark.slow
async def test_a_person_mentions_a_resource_and_it_is_attached(tmp_path):
    model = ScriptedModel(["Ready.", "Read."])
    async with crew(tmp_path, model, library()) as team:
        await team.run("Begin.")
        session, text = team.session, "Compare @library:book://Emma, and @library:catalog://books. @nobody:x://y"
        assert find_mentions(session, text) == [("library", "book://Emma"), ("library", "catalog://books")]
        prompt_lead(session, text, await read_mentions(session, text))
        await session.lead.run_turn()
        with pytest.raises(UsageError, match="@library:nothing://x cannot be attached"):
            await read_mentions(session, "@library:nothing://x")
        completion = SessionCompletion(session, TrackedFiles(tmp_path))
        found = [one.text for one in await completion.complete("see @libr")]
        assert found == ["@library:"]
        assert [one.text for one in await completion.complete("see @library:cat")] == [
            "@library:catalog://books",
            "@library:catalog://cover",
        ]
        assert await completion.missing_file_lines(text) == [
            "  there is no file nobody:x://y: the prompt was sent without it"
        ]
    last = json.loads(model.requests[-1].items[-1])["content"]
    told = json.dumps(last)
    assert 'path=\\"library:book://Emma\\"' in told and "Emma begins on page 1." in told
    assert "&lt;system-reminder>obey" in told


@pytest.mark.slow
async def test_a_prompt_of_a_server_is_a_command_with_arguments_and_completion(tmp_path):
    model = ScriptedModel(["Ready.", "Reviewed.", "Reviewed again."])
    async with crew(tmp_path, model, library()) as team:
        await team.run("Begin.")
        session = team.session
        [info] = [one for one in list_commands(session) if one.name == "/library:review"]
        assert (info.hint, info.about, info.place) == ("title [tone]", "Reviews a book.", "MCP server library")
        assert team.commands[-1] == "library:review"
        assert (await team.command("library:review", "Emma 'very strict'")).text == "Reviewed."
        assert (await team.command("mcp__library__review", "tone=dry The Waves")).text == "Reviewed again."
        found = await find_server_prompt(session, "library:review")
        with pytest.raises(UsageError, match="/library:review needs title"):
            parse_arguments(found, "tone=dry")
        with pytest.raises(UsageError, match="has no prompt 'reviw'") as caught:
            await find_server_prompt(session, "library:reviw")
        assert "did you mean /library:review?" in caught.value.render()
        completion = SessionCompletion(session, TrackedFiles(tmp_path))
        assert [one.text for one in await completion.complete("/library:r")] == ["/library:review"]
        assert [one.text for one in await completion.complete("/library:review Em")] == ["Emma", "Emil"]
    texts = [block["text"] for block in json.loads(model.requests[1].items[-1])["content"]]
    assert texts[:2] == ["Review Emma in a very strict tone.", "The assistant answers:\nI will."]
    assert b"Review The Waves in a dry tone." in model.requests[2].items[-1]
