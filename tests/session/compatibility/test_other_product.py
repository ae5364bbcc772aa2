"""What a person brings along from the other product, kind by kind, in one realistic folder: read as a run reads it."""

import json
import os
from pathlib import Path

import pytest

from teamwright.agent.instructions import NestedInstructions, load_instructions
from teamwright.config.agent_types import AgentTypes, definition_sources
from teamwright.config.mcp_settings import configured_servers
from teamwright.config.trusted_skills import make_shelf
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.session.agents.specs import TrustedDefinitions
from teamwright.skills.skill_definition import CommandArguments, fill_pieces, split_template
from teamwright.views.configuration_sources import AssetQuery
from teamwright.views.directory_configuration import list_assets
from tests.session.compatibility.folder import fill, put


@pytest.fixture
def folder(repository, own_home):
    fill(repository.root, own_home / ".claude")
    return repository


def kinds(folder, *, trusted: bool) -> AgentTypes:
    state = folder.trust() if trusted else folder.state()
    return AgentTypes(
        definition_sources(folder.home, folder.root, compat=True), None, TrustedDefinitions(folder.home, state)
    )


def texts(folder, below: str = "") -> list[str]:
    found = load_instructions(folder.root / below, folder.root, folder.home.own, True)
    return [one.text.strip() for one in found]


@pytest.mark.promise("H4")
def test_instructions_are_read_from_the_user_to_the_leaf_each_text_once_and_local_last(folder):
    assert texts(folder) == ["Answer in English.", "Use tabs, says the project.", "Only in this checkout."]
    below = texts(folder, "web")
    assert below[:2] == ["Answer in English.", "Use tabs, says the project."]
    assert below[2].startswith("The web part")
    assert [text[:6] for text in below[3:8]] == [f"Note {number}" for number in (1, 2, 3, 4, 5)], "five deep, no deeper"
    assert below[-1] == "Only in this checkout."
    assert not any("Never read" in text for text in below), "nothing is imported from a code fence"


@pytest.mark.promise("H4")
@pytest.mark.parametrize("how", ["import", "link", "copy"])
def test_agents_md_and_claude_md_that_say_the_same_are_told_once(folder, how):
    claude = folder.root / "CLAUDE.md"
    claude.unlink()
    if how == "link":
        claude.symlink_to("AGENTS.md")
    else:
        claude.write_text("@AGENTS.md\n" if how == "import" else (folder.root / "AGENTS.md").read_text())
    assert texts(folder).count("Use tabs, says the project.") == 1
    states = {a.name: (a.state, a.why) for a in found(folder) if a.group == "instructions" and "web" not in a.file}
    assert states["AGENTS.md"][0] == "used"
    if how != "import":
        assert states["CLAUDE.md"][0] == "ignored"
        assert "read already" in states["CLAUDE.md"][1]


@pytest.mark.promise("H4")
def test_deeper_instructions_are_told_when_their_directory_is_touched(folder):
    known = load_instructions(folder.root, folder.root, folder.home.own, True)
    nested = NestedInstructions(folder.root, folder.root, known, True)
    assert "The web part" in nested.text_for(folder.root / "web" / "index.html")
    assert nested.text_for(folder.root / "web" / "index.html") == ""


@pytest.mark.promise("H4")
def test_definitions_of_the_repository_and_the_user_are_kinds_and_strange_tools_only_warn(folder):
    before = kinds(folder, trusted=False).active()
    assert before["reviewer"].description == "Mine.", "before trust the user's own holds"
    known = kinds(folder, trusted=True).active()
    assert known["reviewer"].tools == ("Read", "Grep", "MultiEdit", "TodoWrite", "WebSearch")
    assert known["reviewer"].model is None, "inherit is the caller's"
    assert known["scribe"].tools == ("Read", "Write")
    whys = [a.why for a in found(folder) if a.group == "agents" and a.line == 4]
    assert [why.split(" here;")[0] for why in whys] == [
        f"there is no tool {name}" for name in ("MultiEdit", "TodoWrite")
    ]


@pytest.mark.promise("K1", "G1", "G2")
def test_settings_give_permissions_and_environment_but_never_credentials_endpoints_or_bypass(folder):
    folder.trust()
    settings, policy = folder.settings(), folder.policy()
    assert settings.env == {"EDITOR": "vi", "NODE_ENV": "test"}
    assert settings.mode is Mode.PLAN, "the local file is nearer"
    assert settings.directories == (Path(os.path.realpath(folder.root / "../docs")),)
    rules = {(str(rule.verdict), rule.text) for rule in settings.rules}
    assert {("deny", "WebFetch"), ("deny", "Read(./.env)"), ("ask", "Bash(git push:*)")} <= rules
    assert {("allow", "Bash(npm run test:*)"), ("allow", "Bash(make:*)")} <= rules
    assert policy.decide("WebFetch", Access(url="https://example.org")).verdict is Verdict.DENY
    put(folder.root, ".claude/settings.local.json", {"permissions": {"defaultMode": "bypassPermissions"}})
    folder.trust()
    assert folder.settings().mode is Mode.ACCEPT_EDITS


@pytest.mark.promise("K1")
def test_before_trust_only_what_narrows_holds(folder):
    settings = folder.settings()
    assert {str(rule.verdict) for rule in settings.rules} == {"deny", "ask"}
    assert (settings.mode, settings.hooks, settings.mcp.servers) == (Mode.DEFAULT, (), ())
    assert settings.env == {"EDITOR": "vi"}


@pytest.mark.promise("G7")
def test_hooks_are_read_with_their_matchers_and_a_minute_each(folder):
    folder.trust()
    hooks = folder.settings().hooks
    assert [(hook.event, hook.matcher, hook.timeout_s) for hook in hooks] == [
        ("PreToolUse", "Bash", 60.0),
        ("PostToolUse", "Edit|Write", 60.0),
    ]


@pytest.mark.promise("H7")
def test_servers_of_mcp_json_have_their_variables_and_are_approved_one_by_one(folder):
    folder.trust()
    settings = folder.settings()
    servers, problems = configured_servers(settings.mcp, (), folder.root, {"LEVEL": "3"}, frozenset())
    by_name = {server.name: server for server in servers}
    assert by_name["files"].argv == ("npx", "-y", "files", "/srv")
    assert by_name["files"].env == {"LEVEL": "3"}
    assert by_name["web"].url == "https://example.org/mcp"
    assert not problems
    said = json.loads((folder.root / ".mcp.json").read_text())
    said["mcpServers"]["web"]["url"] = "https://elsewhere.example/mcp"
    put(folder.root, ".mcp.json", said)
    assert [one.name for one in folder.settings().mcp.servers] == ["files"], "only the one that changed waits again"


@pytest.mark.promise("H4")
def test_skills_and_commands_of_both_places_can_be_called(folder):
    untrusted = make_shelf(folder.settings(), folder.home, folder.state())
    assert sorted(one.name for one in untrusted.callable_skills) == ["haiku", "standup"]
    folder.trust()
    shelf = make_shelf(folder.settings(), folder.home, folder.state())
    assert sorted(one.name for one in shelf.callable_skills) == [
        "db:migrate",
        "fix",
        "haiku",
        "release-notes",
        "standup",
    ]
    made = fill_pieces(split_template(shelf.read_body(shelf.get_command("fix"))), CommandArguments.parse("17 parser"))
    assert [(piece.kind, piece.text) for piece in made if piece.kind != "text"] == [
        ("file", "docs/conventions.md"),
        ("shell", "echo begun 17"),
    ]
    assert made[0].text.startswith("Fix ticket 17 in parser, all of it: 17 parser.")


@pytest.mark.promise("K7")
def test_what_is_not_read_is_listed_as_ignored(folder):
    others = {asset.name: asset.state for asset in found(folder) if asset.group == "other files"}
    assert others == {"plugins": "ignored", "keybindings.json": "ignored"}
    keys = {asset.name for asset in found(folder) if asset.group == "settings" and asset.state == "ignored"}
    assert {"includeCoAuthoredBy", "apiKeyHelper", "env ANTHROPIC_API_KEY"} <= keys


@pytest.mark.promise("K7")
def test_one_setting_switches_all_of_it_off(folder):
    folder.user({"compat": {"claude": False}})
    folder.trust()
    settings = folder.settings()
    assert (settings.rules, settings.hooks, settings.env, settings.mcp.servers) == ((), (), {}, ())
    instructions = load_instructions(folder.root, folder.root, folder.home.own, False)
    assert [one.path.name for one in instructions] == ["AGENTS.md"]
    assert not make_shelf(settings, folder.home, folder.state(compat=False)).callable_skills
    assets = [asset for asset in found(folder) if ".claude" in asset.file or "CLAUDE" in asset.name]
    assert assets
    assert {(asset.group, asset.state) for asset in assets} == {("other files", "ignored")}


def test_nothing_of_it_is_written(folder, own_home):
    places = [folder.root / ".claude", own_home / ".claude"]
    before = {path: path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()}
    folder.trust()
    found(folder)
    folder.settings()
    after = {path: path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()}
    assert after == before


def found(folder):
    return list_assets(AssetQuery(folder.home, folder.root, {})).assets
