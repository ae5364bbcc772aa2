"""Variables and arguments in the texts of skills, commands and agents, wherever an agent receives them."""

import json
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.skills.skill_definition import CommandArguments, fill_text
from teamwright.testing import Call, ScriptedModel

pytestmark = pytest.mark.finding("C2")

VARIABLES = "${CLAUDE_PLUGIN_ROOT} ${CLAUDE_PLUGIN_DATA} ${CLAUDE_PROJECT_DIR} ${CLAUDE_SESSION_ID} ${HOME}"


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    base = tmp_path / "the tools"
    put(base / ".claude-plugin/plugin.json", json.dumps({"name": "tools"}))
    put(base / "commands/go.md", f"Go: {VARIABLES} $ARGUMENTS")
    put(base / "commands/run.md", '---\nallowed-tools: Bash(sh:*)\n---\n!`sh "${CLAUDE_PLUGIN_ROOT}/say.sh" $1`')
    put(base / "say.sh", 'echo "said $1"')
    skill = "---\nname: note\ndescription: Notes.\n---\n${CLAUDE_SKILL_DIR}: [$ARGUMENTS]"
    put(base / "skills/note/SKILL.md", f"{skill} {VARIABLES}")
    agent = "---\nname: helper\ndescription: Helps.\nskills: tools:note\n---\nYou read ${CLAUDE_PLUGIN_ROOT}/rules.md."
    put(base / "agents/helper.md", agent)
    (tmp_path / "work").mkdir()
    return base


def a_team(plugin: Path, model: ScriptedModel, **more) -> Team:
    work = plugin.parent / "work"
    return Team("crew", model=model, cwd=work, home=plugin.parent / "home", plugin_dirs=[plugin], **more)


async def test_a_command_of_a_plugin_knows_its_directory_its_data_the_project_and_the_session(plugin):
    model = ScriptedModel(["Done."])
    async with a_team(plugin, model) as team:
        await team.command("tools:go", "now")
        session, data = team.session.id, team.session.agent_factory.home.own / "plugin-data/tools"
        expected = f"Go: {plugin} {data} {plugin.parent / 'work'} {session} ${{HOME}} now"
    assert expected in model.request_text(0), "a variable of the environment stays as it is written"


@pytest.mark.parametrize("sandbox", ["off", "auto"])
async def test_a_shell_line_of_a_plugin_runs_its_own_script(plugin, sandbox):
    model = ScriptedModel(["Done."])
    async with a_team(plugin, model, sandbox=sandbox) as team:
        await team.command("tools:run", "hello")
    assert "said hello" in model.request_text(0)


async def test_a_skill_that_a_model_reads_and_one_that_an_agent_begins_with_have_their_values(plugin):
    model = ScriptedModel([Call("Skill", {"skill": "tools:note", "args": "a b"}), "Done."])
    async with a_team(plugin, model) as team:
        await team.run("Go.")
    assert f"{plugin}/skills/note: [a b] {plugin}" in model.request_text(1)
    start = Call("Agent", {"subagent_type": "tools:helper", "prompt": "x", "description": "d"})
    model = ScriptedModel([start, "k", "k"])
    async with a_team(plugin, model, permission_mode="bypassPermissions") as team:
        await team.run("Go.")
    heads = [request.prefix.head.decode() for request in model.requests]
    [head] = [one for one in heads if f"You read {plugin}/rules.md." in one]
    assert f"{plugin}/skills/note: [] {plugin}" in head


@pytest.mark.parametrize(
    ("body", "typed", "expected"),
    [
        ("Fix $issue on $branch.", "7 main", "Fix 7 on main."),
        ("Fix $issue.", "", "Fix ."),
        ("$0 then $1", "a b", "a then b"),
        ("$1 then $2", "a b", "a then b"),
        ("awk '{print $1}'", "", "awk '{print $1}'"),
        ("cost: \\$1 and $price", "a", "cost: $1 and $price\n\nArguments: a"),
    ],
)
def test_named_and_numbered_arguments_are_filled_in(body, typed, expected):
    assert fill_text(body, CommandArguments.parse(typed, {}, ("issue", "branch"))) == expected
