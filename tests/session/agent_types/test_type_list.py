"""The list of agent types in the Agent tool: each with its whole description and its tools, within one budget."""

import json
import re

import pytest

from teamwright import Team
from teamwright.config.agent_types import LIST_BYTES, LOOK_UP, AgentTypes, DefinitionDirectory, DefinitionSources
from teamwright.storage.paths import find_home
from teamwright.testing import Call, ScriptedModel
from teamwright.views.configuration_sources import AssetQuery
from teamwright.views.directory_configuration import list_assets

GUIDE = (
    "Use this agent when a screen has to be drawn, e.g. a settings page. Do not use it for icons. "
    "Examples: <example>user: 'Draw the login screen' assistant: 'I start the designer.'</example>"
)


def put(directory, name, description, tools=""):
    directory.mkdir(parents=True, exist_ok=True)
    body = f"---\nname: {name}\ndescription: {json.dumps(description)}\n{tools}---\nbody\n"
    (directory / f"{name}.md").write_text(body)


def kinds_in(directory) -> AgentTypes:
    return AgentTypes(DefinitionSources(directories=(DefinitionDirectory("user", directory),)))


def line_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"- {name}"))


@pytest.mark.finding("C7")
def test_within_the_budget_descriptions_are_whole_and_each_type_has_its_tools(tmp_path):
    put(tmp_path, "designer", GUIDE * 4, "tools: Read, Write\n")
    put(tmp_path, "careful", "Looks.", "disallowedTools: Write, Edit\n")
    put(tmp_path, "many", "Does all.", f"tools: {', '.join(f'mcp__s__t{n}' for n in range(10))}\n")
    kinds = kinds_in(tmp_path)
    text = kinds.tool_description()
    assert line_of(text, "designer") == f"- designer: {GUIDE * 4} (tools: Read, Write)"
    assert line_of(text, "careful") == "- careful: Looks. (all tools except Write, Edit)"
    assert line_of(text, "many").endswith("mcp__s__t7 and 2 more)")
    assert line_of(text, "general-purpose").endswith("(all tools)")
    assert line_of(text, "Explore").endswith("(tools: Bash, Read, Glob, Grep, WebFetch)")
    assert LOOK_UP not in text and not kinds.shortened()


@pytest.mark.finding("C7")
def test_beyond_the_budget_the_longest_descriptions_are_shortened_at_the_end_of_a_sentence(tmp_path):
    for number in range(12):
        put(tmp_path, f"long-{number}", GUIDE + " Then more." * 40)
    put(tmp_path, "short", "Short, and whole.")
    kinds = kinds_in(tmp_path)
    text = kinds.tool_description()
    assert LIST_BYTES * 0.8 < len(text.encode()) <= LIST_BYTES
    assert line_of(text, "short") == "- short: Short, and whole. (all tools)"
    longs = [line for line in text.splitlines() if line.startswith("- long-")]
    assert len(longs) == 12
    assert all(re.search(r"(icons\.|'</example>|more\.) … \(all tools\)$", line) for line in longs), longs
    assert kinds.shortened() == {f"long-{number}" for number in range(12)}
    assert text.endswith(LOOK_UP)


@pytest.mark.finding("C7")
def test_check_says_which_descriptions_are_shortened(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    home = find_home(str(tmp_path / "state"))
    for number in range(12):
        put(home.own / "agents", f"long-{number}", GUIDE + " Then more." * 40)
    put(home.own / "agents", "short", "Short, and whole.")
    rows = {one.name: one for one in list_assets(AssetQuery(home, tmp_path, {})).assets if one.group == "agents"}
    assert rows["short"].why == "" and rows["long-3"].state == "used"
    assert "its description is shortened in the Agent tool" in rows["long-3"].why


@pytest.mark.finding("C7")
async def test_a_call_with_an_empty_prompt_returns_the_whole_description_and_starts_nothing(tmp_path):
    about = GUIDE + " Then more." * 300
    kinds = {"designer": {"description": about, "prompt": "p", "tools": ["Read"]}}
    look = Call("Agent", {"subagent_type": "designer", "description": "Look it up", "prompt": ""})
    nothing = Call("Agent", {"description": "Nothing", "prompt": " "})
    model = ScriptedModel({"team-lead": [look, nothing, "Done."]})
    async with Team("crew", model=model, cwd=tmp_path, agents=kinds) as team:
        assert (await team.run("Look.")).ok
        assert not team.session.agents.runs
    said = b"".join(model.requests[-1].items).decode()
    assert f"Agent type designer (tools: Read): {about}" in said and "the prompt is empty" in said


@pytest.mark.finding("C9")
@pytest.mark.parametrize("more", [{}, {"name": "ada"}], ids=["sub-agent", "teammate"])
async def test_isolation_in_a_call_outside_a_repository_is_refused_with_the_reason_and_starts_nothing(tmp_path, more):
    call = Call("Agent", {"description": "look", "prompt": "Look.", "isolation": "worktree", **more})
    model = ScriptedModel({"team-lead": [call, "Done."]})
    async with Team("crew", model=model, cwd=tmp_path, home=tmp_path / "home", env={}) as team:
        await team.run("Go.")
        assert team.members == []
    assert "a worktree needs a git repository" in model.request_text()
    assert "leave isolation out" in model.request_text() and len(model.requests) == 2
