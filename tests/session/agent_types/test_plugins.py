"""Plugins: what a manifest names is used under the plugin's name, and what is wrong with one is said with its file."""

import json
import sys
from pathlib import Path

import pytest

from teamwright import Team, UsageError
from teamwright.config.agent_types import AgentTypes, definition_sources
from teamwright.config.plugins import PluginStore, installed_plugins, plugin_at
from teamwright.protocol.errors import StorageError
from teamwright.storage.paths import find_home
from teamwright.testing import Call, ScriptedModel
from teamwright.ui.cli.run_location import RunLocation
from teamwright.ui.invocation import parse_plugin_dirs

SERVER = Path(__file__).parents[2] / "mcp" / "stdio_server.py"
SKILL = "---\nname: {name}\ndescription: Does it.\n---\nText.\n"
AGENT = "---\nname: {name}\ndescription: d\n---\nYou work.\n"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def manifest(base: Path, **said: object) -> Path:
    put(base / ".claude-plugin/plugin.json", json.dumps({"name": "release", **said}))
    return base


def whole(base: Path) -> Path:
    """A plugin with everything, in usual places and in others."""
    put(base / "agents/usual.md", AGENT.format(name="usual"))
    put(base / "more/other.md", AGENT.format(name="other"))
    put(base / "single.md", AGENT.format(name="single"))
    put(base / "skills/notes/SKILL.md", SKILL.format(name="notes"))
    put(base / "extra/tag/SKILL.md", SKILL.format(name="tag"))
    put(base / "extra/left-out/SKILL.md", SKILL.format(name="left-out"))
    put(base / "admin/undo.md", "Undo $1.")
    put(base / "admin/hidden.md", "Not named.")
    hook = {"type": "command", "command": 'cat > "${CLAUDE_PLUGIN_ROOT}/told.json"'}
    put(base / "config/hooks.json", json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}))
    return manifest(
        base,
        version="1.2.0",
        description="Cuts releases.",
        agents=["./more", "./single.md"],
        skills="./extra/tag",
        commands=["./admin/undo.md"],
        hooks="./config/hooks.json",
        mcpServers={"db": {"command": sys.executable, "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"]}},
        lspServers="./.lsp.json",
    )


@pytest.mark.promise("row F8", "H4")
def test_named_agents_and_commands_replace_the_usual_ones_and_named_skills_add_to_them(tmp_path):
    plugin = plugin_at(whole(tmp_path / "it"))
    assert (plugin.name, plugin.version, plugin.description) == ("release", "1.2.0", "Cuts releases.")
    places = definition_sources(find_home(), tmp_path / "repo", compat=False, plugins=[plugin])
    active = set(AgentTypes(places).active())
    assert {"release:other", "release:single"} <= active and "release:usual" not in active
    assert [path.name for path in plugin.skills] == ["skills", "tag"]
    assert list(plugin.servers) == ["db"]
    assert [hook.event for hook in plugin.hooks] == ["PreToolUse"]
    assert any("lspServers" in part for part in plugin.ignored)


@pytest.mark.promise("H3", "H4", "G7")
async def test_a_session_uses_skills_commands_hooks_and_servers_of_a_plugin(tmp_path):
    base = whole(tmp_path / "the plugin's")
    put(base / "server.py", SERVER.read_text())
    (tmp_path / "work").mkdir()
    model = ScriptedModel([Call("Bash", {"command": "echo hi"}), "Done."])
    more = {"home": tmp_path / "home", "permission_mode": "bypassPermissions", "plugin_dirs": [base]}
    async with Team("crew", model=model, cwd=tmp_path / "work", **more) as team:
        await team.run("Go.")
        assert {"release:notes", "release:tag", "release:undo"} <= set(team.commands)
        assert not {"release:left-out", "release:hidden"} & set(team.commands)
        assert "mcp__plugin_release_db__" in model.requests[0].prefix.head.decode()
    assert json.loads((base / "told.json").read_text())["tool_input"] == {"command": "echo hi"}


@pytest.mark.promise("P6")
@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"version": 3}, "version is not a text"),
        ({"agents": 3}, "agents must be a path that begins with ./"),
        ({"agents": ["more"]}, "agents must be a path that begins with ./"),
        ({"skills": "./../secret"}, "leads out of the plugin"),
        ({"commands": "./link"}, "leads out of the plugin"),
        ({"commands": "./none"}, "there is no ./none"),
        ({"hooks": "./broken.json"}, "broken.json is no JSON"),
        ({"mcpServers": "./list.json"}, "list.json is not an object"),
        ({"name": "../x"}, "cannot be a plugin's name"),
    ],
)
def test_what_is_wrong_with_a_manifest_is_an_error_with_its_file(tmp_path, said, what):
    base = manifest(tmp_path / "it", **said)
    (tmp_path / "secret").mkdir()
    (base / "link").symlink_to(tmp_path / "secret")
    put(base / "broken.json", "{")
    put(base / "list.json", "[]")
    with pytest.raises(UsageError, match=what) as raised:
        plugin_at(base)
    files = dict(raised.value.looked_at)
    assert files["file"].startswith(str(base))


@pytest.mark.promise("P6")
async def test_a_server_of_a_plugin_gets_no_credential(tmp_path):
    base = manifest(tmp_path / "it", mcpServers={"db": {"command": "run", "env": {"K": "${ANTHROPIC_API_KEY}"}}})
    (tmp_path / "work").mkdir()
    env = {"ANTHROPIC_API_KEY": "sk-test", "HOME": str(tmp_path)}
    team = Team(
        "crew", model=ScriptedModel(["x"]), cwd=tmp_path / "work", home=tmp_path / "home", env=env, plugin_dirs=[base]
    )
    async with team:
        assert not team.session.agent_factory.toolset.serving.configs
        assert any("ANTHROPIC_API_KEY is not given" in line for line in team.session.warnings)


def test_a_flag_that_names_a_marketplace_is_an_error_with_its_plugins(tmp_path):
    put(tmp_path / "m/tools/agents/a.md", AGENT.format(name="a"))
    listed = {"name": "m", "plugins": [{"name": "tools", "source": "./tools"}]}
    put(tmp_path / "m/.claude-plugin/marketplace.json", json.dumps(listed))
    with pytest.raises(UsageError, match="is a marketplace") as raised:
        parse_plugin_dirs(RunLocation(cwd=tmp_path), {"plugin_dir": ["m"]})
    assert list(raised.value.do) == [f"--plugin-dir {tmp_path / 'm/tools'}"]


def test_the_file_of_added_plugins_has_the_form_of_its_golden_file(tmp_path):
    golden = Path(__file__).parents[2] / "golden" / "plugins.json"
    home = find_home(str(tmp_path / "home"))
    home.prepare()
    put(home.own / "plugins.json", golden.read_text())
    store = PluginStore.load(home)
    (home.own / "plugins.json").unlink()
    store.add(store.find("tracer"))
    assert (home.own / "plugins.json").read_text() == golden.read_text()
    put(home.own / "plugins.json", '{"version": 2}')
    with pytest.raises(StorageError, match="newer"):
        PluginStore.load(home)
    assert installed_plugins(home)[1], "a run goes on without them, and says so"
