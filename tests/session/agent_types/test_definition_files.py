"""Files of definitions: what is read, what is wrong with file and line, and that one never harms the others."""

import json
import os
import re
from pathlib import Path

import pytest

from teamwright.config.agent_types import (
    LIST_BYTES,
    MAX_BYTES,
    AgentTypes,
    DefinitionDirectory,
    DefinitionSources,
    definition_sources,
    parse_agents_flag,
    parse_given_agents,
    read_file,
)
from teamwright.config.plugins import plugin_at
from teamwright.config.tool_names import KNOWN_TOOLS
from teamwright.protocol.errors import UsageError
from teamwright.skills.front_matter import UnreadableFrontMatter, parse_typed
from teamwright.storage.paths import find_home

WHOLE = """---
name: code-reviewer
description: Reads a change.
tools:
  - Read
  - Task
disallowed-tools: Write, Bash(rm:*)
model: inherit
permissionMode: acceptEdits
background: true
max_turns: 8
color: pink
memory: project
skills: [a, b]
requiredMcpServers: github
mcpServers:
  - slack
  - own: {command: run}
hooks:
  Stop:
    - hooks: [{type: command, command: "true"}]
isolation: worktree
effort: high
initialPrompt: Greet.
---

You review.
"""


def put(base: Path, name: str, text: str | bytes) -> Path:
    path = base / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def minimal(name: str = "one", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: d\n{more}---\nbody\n"


def read(tmp_path: Path, text: str | bytes, name: str = "one.md"):
    return read_file(put(tmp_path, name, text), "user")


@pytest.mark.promise("row F8")
def test_every_field_is_read_in_any_spelling(tmp_path):
    found = read(tmp_path, WHOLE)
    kind = found.definition
    assert kind is not None and not found.warnings
    assert (kind.name, kind.description, kind.prompt) == ("code-reviewer", "Reads a change.", "You review.")
    assert kind.tools == ("Read", "Agent")
    assert (kind.disallowed_tools, kind.denied) == (("Write",), ("Bash(rm:*)",))
    assert (kind.model, kind.mode, kind.max_turns, kind.background) == (None, "acceptEdits", 8, True)
    assert (kind.color, kind.memory, kind.skills, kind.effort) == ("pink", "project", ("a", "b"), "high")
    assert kind.required_mcp_servers == ("github",)
    assert kind.mcp_servers == {"slack": None, "own": {"command": "run"}}
    assert [hook.event for hook in kind.hooks] == ["SubagentStop"]
    assert (kind.isolation, kind.initial_prompt) == ("worktree", "Greet.")


@pytest.mark.promise("row F8")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no fields", "line 1: there is no front matter: it does not begin with ---"),
        ("---\nname: x\n", "line 1: the front matter is not closed with ---"),
        ("---\nname: x\ntools: [Read\n---\n", "the front matter is not YAML"),
        ("---\n- a\n---\n", "line 2: the front matter has no `name: value` lines"),
        (minimal(more="maxTurns: many\n"), "line 4: maxTurns must be a whole number"),
        (minimal(more="maxTurns: true\n"), "line 4: maxTurns must be a whole number"),
        (minimal(more="tools: {a: 1}\n"), "line 4: tools must be a list of texts"),
        (minimal(more="permissionMode: root\n"), "line 4: permissionMode must be one of"),
        (minimal(more="isolation: moon\n"), "line 4: isolation must be one of"),
        (minimal(more="hooks: all\n"), "line 4: hooks must be an object"),
        (minimal(more="background: maybe\n"), "line 4: background must be true or false"),
        (minimal(more="tools: Read\ntools: Bash\n"), "line 5: tools is there twice"),
        (minimal(more="maxTurns: 1\nmax_turns: 2\n"), "line 5: maxTurns occurs twice"),
        (minimal(more="disallowedTools: 'Bash('\n"), "disallowedTools"),
        (minimal("../evil"), "line 2: name must be 1 to 64"),
        (minimal("plugin:evil"), "line 2: name must be 1 to 64"),
        (minimal("x" * 65), "line 2: name must be 1 to 64"),
        (minimal(more="tools: &a [Read]\ndisallowedTools: *a\n"), "line 4: anchors"),
        (minimal(more="effort: !!python/object/apply:os.system [x]\n"), "the front matter is not YAML"),
        (b"---\nname: \xff\n---\n", "it is not UTF-8"),
        ("---\n" + "a: " + "[" * 5_000 + "\n---\n", "the front matter is nested deeper"),
        ("---\n" + "x: 1\n" * 20_000 + "---\n", "line 1: the front matter is longer than"),
        ("---\nname: x\n---\n" + "y" * MAX_BYTES, "it is longer than"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path, text, problem):
    found = read(tmp_path, text)
    assert found.definition is None
    assert problem in found.problem


def test_unknown_fields_and_tools_and_soft_values_warn_and_never_fail(tmp_path):
    text = minimal(more="tools: Read, MultiEdit, TodoWrite, WebSearch, Raed\ncolour: pink\ncolor: mauve\nmemory: all\n")
    found = read(tmp_path, text)
    assert found.definition is not None
    warnings = "\n".join(found.warnings)
    for word in ("MultiEdit", "TodoWrite", "Raed here; did you mean Read", "did you mean color"):
        assert word in warnings
    assert "line 6: color must be one of" in warnings
    assert "line 7: memory must be one of" in warnings
    assert found.definition.color is None
    assert found.definition.allows("Read") and not found.definition.allows("Write")


def test_a_part_of_a_tool_is_never_given_as_the_whole(tmp_path):
    found = read(tmp_path, minimal(more='tools: "Read, Bash(git log:*)"\n'))
    assert found.definition.tools == ("Read",)
    assert any("Bash(git log:*) is left out" in text for text in found.warnings)


@pytest.mark.parametrize(
    ("said", "has", "lacks"),
    [
        ("", ["Bash", "Read", "mcp__db__ask"], []),
        ("tools: '*'\n", ["Bash", "Read"], []),
        ("tools: *\n", ["Bash", "Read"], []),
        ("tools: []\n", [], ["Bash", "Read"]),
        ("tools: mcp__db\n", ["mcp__db__ask"], ["mcp__dbx__ask", "Read"]),
        ("tools: 'mcp__db__*'\n", ["mcp__db__ask"], ["Read"]),
        ("disallowedTools: mcp__db\n", ["Read"], ["mcp__db__ask"]),
    ],
)
def test_what_the_two_lists_mean(tmp_path, said, has, lacks):
    kind = read(tmp_path, minimal(more=said)).definition
    assert all(kind.allows(tool) for tool in has)
    assert not any(kind.allows(tool) for tool in lacks)


def test_a_text_with_a_colon_is_taken_as_it_stands_with_a_warning(tmp_path):
    text = "---\nname: a\ndescription: Use it when: x. <example>a: b</example> # yes\nbackground: true\n---\nb"
    found = read(tmp_path, text)
    assert found.definition.description == "Use it when: x. <example>a: b</example> # yes"
    assert found.definition.background is True
    assert any("strict YAML" in warning for warning in found.warnings)


def test_windows_lines_and_a_mark_at_the_begin_are_read(tmp_path):
    found = read(tmp_path, b"\xef\xbb\xbf---\r\nname: a\r\ndescription: d\r\n---\r\nbody\r\n")
    assert (found.definition.name, found.definition.prompt) == ("a", "body")


def test_an_alias_bomb_is_refused_at_once():
    bomb = "---\na: &a [x,x,x,x,x,x,x,x,x]\n"
    bomb += "".join(f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True))
    with pytest.raises(UnreadableFrontMatter, match="anchors"):
        parse_typed(bomb + "---\n")


def test_pipes_and_devices_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "zero.md").symlink_to("/dev/zero")
    assert "no plain file" in read_file(tmp_path / "pipe.md", "user").problem
    assert "no plain file" in read_file(tmp_path / "zero.md", "user").problem


@pytest.mark.promise("row F8", "P6")
def test_five_hundred_files_are_read_and_the_agent_tool_says_little_of_them(tmp_path):
    for number in range(500):
        put(tmp_path, f"d{number % 7}/a{number}.md", minimal(f"kind-{number}"))
    put(tmp_path, "broken.md", "---\n")
    kinds = AgentTypes(DefinitionSources(directories=(DefinitionDirectory("user", tmp_path),)))
    assert len(kinds.active()) == 504
    assert kinds.find("KIND-499").name == "kind-499"
    assert kinds.warnings() == (
        f"1 agent definition cannot be used: {tmp_path}/broken.md: line 1: the front matter is not closed with ---; "
        "teamwright agents list shows all",
    )
    text = kinds.tool_description()
    assert 4_000 < len(text.encode()) <= LIST_BYTES
    assert text.index("- general-purpose: ") < text.index("- kind-0: "), "the built-in types come first"
    assert re.search(r"Further types, by name: .* and \d+ more\n", text)


def test_a_file_that_changes_is_read_again_at_the_next_look(tmp_path):
    kinds = AgentTypes(DefinitionSources(directories=(DefinitionDirectory("user", tmp_path),)))
    with pytest.raises(UsageError, match="there is no agent type"):
        kinds.find("late")
    path = put(tmp_path, "late.md", minimal("late"))
    assert kinds.find("late").prompt == "body"
    path.write_text(minimal("late").replace("body", "another body"))
    assert kinds.find("late").prompt == "another body"
    path.unlink()
    with pytest.raises(UsageError):
        kinds.find("late")


@pytest.mark.promise("row F8")
def test_of_one_name_the_nearest_holds_and_the_others_are_shadowed(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    root, home = tmp_path / "repo", find_home(str(tmp_path / "state"))
    dirs = [root / ".teamwright", root / ".claude", home.own, tmp_path / "user/.claude"]
    for directory in dirs:
        put(directory / "agents", "x.md", minimal("Plan"))
    put(tmp_path / "tools/agents", "x.md", minimal("Plan"))
    given = {"plan": {"description": "d", "prompt": "given"}}
    places = definition_sources(home, root, compat=True, agents=given, plugins=[plugin_at(tmp_path / "tools")])
    kinds = AgentTypes(places, allows=lambda _found: True)
    states = [(entry.source.name, entry.state) for entry in kinds.entries() if entry.source.name.lower() == "plan"]
    assert states == [("plan", "used"), *[("Plan", "shadowed")] * 5]
    assert kinds.find("PLAN").prompt == "given"
    assert kinds.find("tools:plan").name == "tools:Plan"
    for directory in dirs:
        without = definition_sources(home, root, compat=True)
        assert AgentTypes(without, allows=lambda _found: True).find("plan").file == str(directory / "agents/x.md")
        (directory / "agents/x.md").unlink()
    assert AgentTypes(definition_sources(home, root, compat=True)).find("plan").source == "built in"


def test_without_compat_the_other_products_directories_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / ".claude/agents", "x.md", minimal("mine"))
    assert "mine" not in AgentTypes(definition_sources(find_home(), tmp_path / "repo", compat=False)).active()
    assert "mine" in AgentTypes(definition_sources(find_home(), tmp_path / "repo", compat=True)).active()


def test_a_plugin_is_called_as_its_manifest_says_and_what_is_not_read_is_told(tmp_path):
    put(tmp_path, ".claude-plugin/plugin.json", '{"name": "whales"}')
    put(tmp_path, "agents/a.md", minimal("reviewer"))
    put(tmp_path, "output-styles/s.md", "x")
    places = definition_sources(find_home(), tmp_path / "repo", compat=False, plugins=[plugin_at(tmp_path)])
    assert "whales:reviewer" in AgentTypes(places).active()
    assert places.plugins[0].ignored == ("output-styles",)


@pytest.mark.parametrize("manifest", ["{", '{"name": "../x"}', '{"name": 3}'])
def test_a_plugin_that_is_none_is_an_error(tmp_path, manifest):
    put(tmp_path, ".claude-plugin/plugin.json", manifest)
    with pytest.raises(UsageError):
        plugin_at(tmp_path)
    with pytest.raises(UsageError, match="there is no directory"):
        plugin_at(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "it is no JSON"),
        ("[]", "it is not an object"),
        ('{"a": 3}', "a definition must be an object"),
        ('{"a": {"tols": []}}', "did you mean tools"),
        ('{"a": {"maxTurns": 0}}', "maxTurns must be"),
        ('{"a/b": {}}', "name must be"),
        ('{"a": {}, "A": {}}', "two of this name"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_a_flag_says_is_understood_whole_or_refused(tmp_path, text, problem):
    with pytest.raises(UsageError, match=problem):
        parse_given_agents(parse_agents_flag(text, tmp_path))


def test_a_flag_may_name_a_file(tmp_path):
    put(tmp_path, "agents.json", json.dumps({"a": {"description": "d", "prompt": "p"}}))
    assert [found.name for found in parse_given_agents(parse_agents_flag("@agents.json", tmp_path))] == ["a"]
    with pytest.raises(UsageError, match="cannot be read"):
        parse_agents_flag("@none.json", tmp_path)


async def test_the_names_of_tools_that_are_known_are_those_that_are_there(tmp_path):
    from teamwright import Team
    from teamwright.testing import ScriptedModel

    model = ScriptedModel("Done.")
    async with Team("crew", model=model, cwd=tmp_path) as team:
        await team.run("Go.")
    text = model.requests[0].prefix.head.decode()
    at = text.index('"tools":') + len('"tools":')
    there = {tool["name"] for tool in json.JSONDecoder().raw_decode(text[at:].lstrip())[0]}
    assert there <= KNOWN_TOOLS


EXAMPLES = """---
name: brand-keeper
description: Use this agent when a brand is at stake. Examples:

<example>
Context: A new page
user: "Make it ours: now"
assistant: "I use the brand-keeper agent"
tools: a word in an example
<commentary>
It needs care # always
</commentary>
</example>

color: pink
tools: Read, Grep
disallowedTools:
  - Bash(rm:*)
model: opus
maxTurns: 7
---
You keep it.
"""


@pytest.mark.finding("C1")
def test_a_description_with_examples_that_is_no_yaml_is_read_field_by_field(tmp_path):
    path = tmp_path / "keeper.md"
    path.write_text(EXAMPLES)
    found = read_file(path, "user")
    made = found.definition
    assert made is not None, found.problem
    assert (made.name, made.color, made.model, made.max_turns) == ("brand-keeper", "pink", "opus", 7)
    assert made.tools == ("Read", "Grep")
    assert made.denied
    assert made.description.endswith("It needs care # always </commentary> </example>")
    assert 'user: "Make it ours: now"' in made.description
    assert any("no strict YAML" in text for text in found.warnings)


@pytest.mark.finding("C1")
@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("tools: Read\n", ""),
        ("tools: Read\ntools: Bash\n", "line 6: tools is there twice"),
        ("disallowedTools: [Bash, \n", "line 5: "),
        ("permissionMode: everything\n", "line 5: permissionMode must be"),
        ("maxTurns: many: more\n", "line 5: maxTurns must be"),
        ("hooks: none: at all\n", "line 5: hooks must be"),
    ],
)
def test_what_restricts_an_agent_is_never_lost_in_a_text(tmp_path, lines, problem):
    path = tmp_path / "x.md"
    path.write_text(f"---\nname: x\ndescription: Use it: here\nuser: 'now\n{lines}---\nWork.\n")
    found = read_file(path, "user")
    assert found.problem.startswith(problem) if problem else found.definition and found.definition.tools == ("Read",)


@pytest.mark.finding("C1")
def test_an_example_that_is_never_closed_hides_no_field(tmp_path):
    path = tmp_path / "x.md"
    path.write_text("---\nname: x\ndescription: Use it\n<example>\nuser: 'now\ntools: Read\n---\nWork.\n")
    made = read_file(path, "user").definition
    assert made is not None and made.tools == ("Read",)


@pytest.mark.finding("C1")
def test_an_unknown_line_behind_a_short_field_is_told_and_never_part_of_it(tmp_path):
    path = tmp_path / "x.md"
    path.write_text("---\nname: x\ndescription: Use it: here\nuser: 'now\ntools: Read\ntolls: Bash\n---\nWork.\n")
    found = read_file(path, "user")
    assert found.definition is not None and found.definition.tools == ("Read",)
    assert any("'tolls' is no field" in text for text in found.warnings)
