"""Every asset is found once and said to be what a run takes it for, with its file and its line."""

import json
import os
from pathlib import Path

import pytest

from teamwright.config.plugins import PluginSource
from teamwright.views.configuration_sources import AssetQuery
from teamwright.views.directory_configuration import Assets, list_assets
from tests.session.compatibility.folder import fill, put

AGENT = "---\nname: {name}\ndescription: Does.\n{more}---\nYou do.\n"


def look(repository, env=None, **more) -> Assets:
    return list_assets(AssetQuery(repository.home, more.pop("cwd", repository.root), env or {}, **more))


def row(assets: Assets, file: Path, line: int = 0, word: str = "", group: str = ""):
    """The one asset of that place."""
    found = [
        asset
        for asset in assets.assets
        if asset.file == str(file)
        and asset.line == line
        and word in f"{asset.name} {asset.why}"
        and group in asset.group
    ]
    assert len(found) == 1, assets.assets
    return found[0]


OURS, THEIRS = ".teamwright/settings.json", ".claude/settings.json"


def hook(text: str) -> str:
    return '{"hooks": {"Stop": [{"hooks": [\n' + text + "]}]}}"


def servers(text: str) -> str:
    return '{"mcpServers": {\n' + text + "}}"


CASES = [
    (OURS, '{\n  "model": "x",\n  "teams": tru\n}', "broken", 3, "(line 3, column 12)"),
    (THEIRS, '{\n\n  "limits": {"members": -1}\n}', "broken", 3, "limits.members must be a whole number"),
    (OURS, '{\n  "goodbye_s": 3\n}', "used", 2, "is called shutdown_timeout_s now: rename it"),
    (OURS, '{\n  "modle": "x"\n}', "ignored", 2, "is not a setting; did you mean model?"),
    (OURS, '{\n  "model": "a",\n  "model": "b"\n}', "ignored", 2, "occurs twice"),
    (THEIRS, '{\n  "enabledPlugins": {}\n}', "ignored", 2, "is not used yet"),
    (THEIRS, '{\n  "apiKeyHelper": "x"\n}', "ignored", 2, "is never used"),
    (OURS, '{\n  "providers": {}\n}', "ignored", 2, "is taken from your own settings only"),
    (THEIRS, '{\n  "permissions": {\n    "deny": [\n      "Bash(("\n    ]\n  }\n}', "broken", 4, "Bash(("),
    (THEIRS, '{"permissions": {\n"defaultMode": "bypassPermissions"}}', "ignored", 2, "own settings only"),
    (THEIRS, '{"permissions": {\n"defaultMode": "sometimes"}}', "broken", 2, "sometimes"),
    (THEIRS, '{"env": {\n"A": "1",\n"A_TOKEN": "x"}}', "ignored", 3, "own settings only"),
    (THEIRS, '{"hooks": {\n"Stopp": []}}', "ignored", 2, "it is not an event of this program; did you mean Stop?"),
    (THEIRS, hook('{"type": "wish"}'), "ignored", 2, "'wish' is not supported"),
    (THEIRS, hook('{"type": "command"}'), "broken", 2, "it has no command"),
    (THEIRS, '{"hooks": {"Stop": [\n{"matcher": "("}]}}', "broken", 2, "no regular expression"),
    (THEIRS, hook('{"command": "x", "unheard": "y"}'), "ignored", 2, "'unheard' is not supported"),
    (THEIRS, hook('{"command": "x", "if": "Bash(x)"}'), "broken", 2, "its `if` never applies"),
    (".mcp.json", servers('"db": {"command": ""}'), "broken", 2, "its command is not a text"),
    (".mcp.json", servers('"db": {"type": "ws", "url": "http://x"}'), "ignored", 2, "not supported"),
    (".mcp.json", servers('"db": {"command": "x", "args": ["${NOT_SET}"]}'), "ignored", 2, "NOT_SET is not set"),
    (".mcp.json", servers('"db": {"command": "x", "disabled": true}'), "ignored", 2, "disabled"),
    (".mcp.json", servers('"db": {"command": "x", "color": "red"}'), "ignored", 2, "'color' is not used"),
    (".mcp.json", '{\n"mcpServers": {', "broken", 2, "line 2, column 16"),
    (".mcp.json", "{}", "broken", 1, "it has no mcpServers"),
    (".claude/agents/a.md", AGENT.format(name="a", more="tools: Read, MultiEdit\n"), "ignored", 4, "MultiEdit"),
    (".claude/agents/a.md", AGENT.format(name="a", more="maxTurns: many\n"), "broken", 4, "maxTurns must be"),
    (".claude/agents/a.md", AGENT.format(name="a", more="colour: red\n"), "ignored", 4, "colour"),
    (".claude/agents/a.md", "---\nname: [a\n---\nx", "broken", 2, "YAML"),
    (".claude/agents/a.md", AGENT.format(name="a", more="hooks:\n  Stopp: []\n"), "ignored", 4, "Stopp"),
    (".claude/agents/a.md", "---\nname: a\ndescription: Use it: now\n---\nx", "used", 0, "no strict YAML"),
    (".claude/skills/a/SKILL.md", "---\nname: a\ndescription: x\npaths: y\n---\nx", "ignored", 4, "paths is not used"),
    (".claude/skills/a/SKILL.md", "---\nname: a\ndescription: x\nmagic: y\n---\nx", "ignored", 4, "magic"),
    (".claude/skills/a/SKILL.md", "---\nname: &x a\nb: *x\n---\nx", "broken", 2, "anchors"),
    (".claude/skills/a", None, "ignored", 0, "it has no SKILL.md"),
    (".claude/commands/notes.txt", "x", "ignored", 0, "a command is a .md file"),
    (THEIRS, '{"hooks": {"Stop": [\n{"if": "x", "hooks": []}]}}', "ignored", 2, "'if' beside its hooks"),
    (".claude/commands/a.md", "\0", "broken", 0, "it is not text"),
    (".teamwright/team.toml", '[team]\n\ncheck = 3\n', "broken", 3, "check"),
    (".teamwright/team.toml", "[team\n", "broken", 1, "Expected"),
    ("CLAUDE.md", "Text.\n\nSee @docs/gone.md please.\n", "broken", 3, "@docs/gone.md: there is no such file"),
    ("AGENTS.md", "", "ignored", 0, "it is empty"),
]  # fmt: skip


@pytest.mark.promise("K7")
@pytest.mark.parametrize(("name", "content", "state", "line", "word"), CASES, ids=[f"{c[0]}: {c[4]}" for c in CASES])
@pytest.mark.slow_after(10)
def test_what_is_wrong_or_odd_is_said_with_its_line_once_it_is_trusted(repository, name, content, state, line, word):
    path = repository.root / name
    if content is None:
        put(path, "notes.txt", "No skill.")
    else:
        put(repository.root, name, content)
    repository.trust()
    found = look(repository)
    assert row(found, path, line, word).state == state
    assert found.counts["broken"] == (state == "broken")


LABELS = ("description", "id", "name", "_docs", "//why", "comment", "$schema")


@pytest.mark.promise("K7")
def test_keys_that_are_notes_for_people_are_in_no_list_of_faults(repository):
    notes = dict.fromkeys(LABELS, "why it is here")
    stop = {**notes, "hooks": [{**notes, "type": "command", "command": "true"}]}
    settings = {**notes, "permissions": {**notes, "allow": ["Bash(ls)"]}, "hooks": {"Stop": [stop]}}
    put(repository.root, THEIRS, json.dumps(settings))
    put(repository.root, ".mcp.json", json.dumps({"mcpServers": {"db": {**notes, "command": "true"}}}))
    repository.trust()
    found = look(repository)
    assert not [asset for asset in found.assets if asset.state in ("ignored", "broken")]
    assert {"Stop: true", "db"} <= {asset.name for asset in found.assets if asset.state == "used"}


@pytest.mark.promise("K7", "K1")
def test_what_waits_for_trust_is_said_so_and_used_afterwards(repository, own_home, monkeypatch):
    monkeypatch.setenv("LEVEL", "1")
    fill(repository.root, own_home / ".claude")
    waiting = {(a.group, a.name) for a in look(repository, os.environ).assets if a.state == "needs trust"}
    assert {
        ("agents", "reviewer"),
        ("skills", "release-notes"),
        ("commands", "fix"),
        ("hooks", "PreToolUse: cat >> seen.jsonl"),
        ("MCP servers", "files"),
        ("settings", "permissions.allow Bash(make:*)"),
    } <= waiting
    assert not [name for group, name in waiting if group == "instructions"]
    repository.trust()
    after = look(repository, os.environ)
    assert after.counts["needs trust"] == after.counts["broken"] == 0
    used = {(a.group, a.name) for a in after.assets if a.state == "used"}
    assert waiting - used - {("commands", "db")} <= {
        ("settings", "permissions.defaultMode"),
        *((group, name) for group, name in waiting if group == "settings"),
    }


@pytest.mark.promise("K7")
def test_a_readme_beside_definitions_is_none(repository):
    put(repository.root, ".claude/agents/README.md", "# Our agents\n")
    put(repository.root, ".claude/agents/a.md", AGENT.format(name="a", more=""))
    repository.trust()
    assert [asset.name for asset in look(repository).assets if asset.group == "agents"] == ["a"]


@pytest.mark.promise("K7")
def test_a_definition_that_is_shadowed_names_the_file_that_is_nearer(repository):
    near = put(repository.root, ".teamwright/agents/a.md", AGENT.format(name="a", more=""))
    far = put(repository.root, ".claude/agents/x.md", AGENT.format(name="a", more=""))
    repository.trust()
    found = look(repository)
    assert row(found, near).state == "used"
    assert (row(found, far).state, row(found, far).why) == ("ignored", ".teamwright/agents/a.md is nearer")


@pytest.mark.promise("K7")
def test_switches_say_that_they_are_why(repository):
    put(repository.root, ".claude/commands/a.md", "Do a.")
    put(repository.root, ".claude/settings.json", {"hooks": {"Stop": [{"hooks": [{"command": "true"}]}]}})
    put(repository.root, ".mcp.json", {"mcpServers": {"db": {"command": "x"}, "web": {"command": "y"}}})
    repository.user(
        {"disableAllHooks": True, "skills": {"disabled": ["a"]}, "disabledMcpjsonServers": ["db"], "teams": True}
    )
    repository.trust()
    whys = {asset.name: asset.why for asset in look(repository).assets if asset.state == "ignored"}
    assert whys["Stop: true"] == "disableAllHooks is on"
    assert whys["a"] == "skills.disabled names it"
    assert whys["db"] == "disabledMcpjsonServers names it"


@pytest.mark.promise("K7")
def test_every_part_of_a_plugin_is_found(repository, tmp_path):
    plugin = tmp_path / "kit"
    put(plugin, ".claude-plugin/plugin.json", {"name": "kit"})
    put(plugin, "agents/a.md", AGENT.format(name="a", more="tools: TodoWrite\n"))
    put(plugin, "skills/s/SKILL.md", "---\nname: s\ndescription: x\n---\nx")
    put(plugin, "commands/c.md", "Do c.")
    put(plugin, "hooks/hooks.json", {"hooks": {"Stop": [{"hooks": [{"command": "true"}]}], "Nope": []}})
    put(plugin, ".mcp.json", {"mcpServers": {"db": {"command": "${CLAUDE_PLUGIN_ROOT}/db"}, "bad": {}}})
    put(plugin, "output-styles/x.md", "x")
    broken = tmp_path / "broken"
    put(broken, ".claude-plugin/plugin.json", "{")
    found = look(repository, plugins=(PluginSource(plugin), PluginSource(broken)))
    states = {(a.group, a.name): a.state for a in found.assets if str(plugin) in a.file and not a.line}
    assert states == {
        ("agents", "kit:a"): "used",
        ("skills", "kit:s"): "used",
        ("commands", "kit:c"): "used",
        ("hooks", "Stop: true"): "used",
        ("hooks", "kit"): "ignored",
        ("MCP servers", "plugin_kit_db"): "used",
        ("MCP servers", "plugin_kit_bad"): "broken",
        ("plugins", "kit"): "ignored",
    }
    assert row(found, plugin / "agents" / "a.md", 4).why.startswith("there is no tool TodoWrite")
    assert row(found, broken / ".claude-plugin" / "plugin.json", 1, group="plugins").state == "broken"


@pytest.mark.promise("K7")
def test_instructions_of_deeper_directories_and_outside_it_are_listed(repository, tmp_path):
    outside = put(tmp_path, "secret.md", "Outside.")
    put(repository.root, "CLAUDE.md", f"Read @{outside}\n")
    deep = put(repository.root, "a/b/AGENTS.md", "Deep.")
    put(repository.root, "node_modules/x/AGENTS.md", "Of a package.")
    local = put(repository.root, "a/CLAUDE.local.md", "Local.")
    found = look(repository)
    assert row(found, outside).state == "needs trust"
    assert row(found, deep).state == "used"
    assert row(found, local).state == "ignored"
    assert not [asset for asset in found.assets if "node_modules" in asset.file]
    repository.trust()
    assert row(look(repository), outside).state == "used"
    assert row(look(repository, cwd=repository.root / "a"), local).state == "used"


@pytest.mark.promise("K7")
def test_a_users_broken_file_does_not_hide_the_others(repository):
    repository.user('{\n"teams": 3}')
    put(repository.root, ".claude/settings.json", {"permissions": {"deny": ["WebFetch"]}})
    found = look(repository)
    assert row(found, repository.home.settings, 2).state == "broken"
    assert row(found, repository.root / ".claude" / "settings.json").state == "used"
    repository.user({"members": {"backend": "tmuxx"}, "providers": {"a": {}}, "teams": False})
    broken = {(asset.name, asset.line) for asset in look(repository).assets if asset.state == "broken"}
    assert broken == {("members.backend", 1), ("providers", 1)}


def test_the_home_directory_as_a_project_shows_each_file_once_and_no_state(repository, own_home):
    fill(own_home, own_home / ".claude")
    repository.user({"model": "haiku"})
    (repository.home.own / "projects").mkdir(parents=True)
    found = look(repository, cwd=own_home)
    files = [(asset.group, asset.name, asset.file, asset.line) for asset in found.assets]
    assert sorted(files) == sorted(set(files))
    assert not [asset for asset in found.assets if asset.file.endswith("projects")]
    assert row(found, repository.home.settings).state == "used"


@pytest.mark.promise("K7", "K1", "K10")
def test_looking_runs_nothing_and_changes_nothing(repository, tmp_path, monkeypatch):
    mark = tmp_path / "ran"
    script = put(repository.root, "run.sh", f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    hook = {"hooks": [{"type": "command", "command": str(script)}]}
    put(repository.root, ".claude/settings.json", {"hooks": {"SessionStart": [hook]}, "env": {"BASH_ENV": str(script)}})
    put(repository.root, ".mcp.json", {"mcpServers": {"db": {"command": str(script)}}})
    put(repository.root, ".claude/commands/a.md", f"!`{script}`")
    repository.trust()
    monkeypatch.setattr("subprocess.Popen", None)
    monkeypatch.setattr("socket.socket", None)

    def tree() -> dict[str, tuple[int, int]]:
        places = (repository.root, repository.home.own)
        files = [Path(at) / name for place in places for at, _, names in os.walk(place) for name in names]
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_ino) for path in files}

    before = tree()
    assert look(repository).counts["used"] >= 4
    assert tree() == before
    assert not mark.exists()


@pytest.mark.parametrize(
    "content", ["[" * 50_000, "\0" * 9, '{"a": ' * 500 + "1" + "}" * 500, json.dumps({"\x1b[2J": 1})]
)
def test_whatever_lies_there_looking_at_it_does_not_fail(repository, content):
    names = [".claude/settings.json", ".mcp.json", ".claude/agents/a.md", ".claude/skills/a/SKILL.md", "CLAUDE.md"]
    for name in [*names, ".claude/commands/a.md", ".teamwright/team.toml", ".teamwright/settings.json"]:
        put(repository.root, name, content)
    look(repository)
    repository.trust()
    assert look(repository).assets
