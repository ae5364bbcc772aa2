"""Configuration that is read again while a team runs: what is different, and whose prefix is new."""

import json
import sys
from pathlib import Path

import pytest

from teamwright import CannotStart, Reloaded, Team
from teamwright.testing import ScriptedModel

SKILL = "---\nname: notes\ndescription: Writes notes of a release.\n---\nRead the log.\n"
AGENT = "---\nname: whale\ndescription: Sings.\n---\nYou sing.\n"
SERVER = Path(__file__).parent.parent / "mcp" / "stdio_server.py"


def a_team(tmp_path: Path, model, **more) -> Team:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    return Team("crew", model=model, cwd=work, home=tmp_path / "home", **more)


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def head(request) -> str:
    return request.prefix.head.decode()


def digest(team: Team) -> str:
    return team.session.lead.agent.conversation.prefix.digest


@pytest.mark.promise("H4")
async def test_where_nothing_is_different_no_prefix_begins(tmp_path):
    model = ScriptedModel(["One.", "Two."])
    async with a_team(tmp_path, model) as team:
        await team.run("Go.")
        before = digest(team)
        made = await team.reload()
        assert (made.changed, made.members, made.later) == ((), (), ())
        await team.run("Again.")
        assert digest(team) == before
        assert b"".join(model.requests[-1].items).count(b"# This session") == 1
        assert b'"type":"prefix"' not in team.session.lead.agent.conversation.path.read_bytes()


@pytest.mark.promise("H4")
async def test_instructions_skills_and_kinds_are_told_anew_to_everybody(tmp_path):
    home, work = tmp_path / "home", tmp_path / "work"
    model = ScriptedModel({"lead": ["One.", "Two."], "ada": ["Hello.", "Hm."]})
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Hello.")
        await team.run("Go.")
        put(work / "AGENTS.md", "Whisper.")
        put(home / "skills/notes/SKILL.md", SKILL)
        put(home / "agents/whale.md", AGENT)
        made = await team.reload()
        lines = "\n".join(made.changed)
        assert f"instructions: + {work / 'AGENTS.md'}" in lines
        assert "skills: + notes" in lines
        assert "agent types: + whale" in lines
        assert set(made.members) == {"team-lead", "ada"}
        await team.run("Again.")
        request = next(
            one for one in reversed(model.requests) if one.agent_name == "team-lead" or one.agent_name == "lead"
        )
        assert b"Whisper." in request.items[-1] and b"This replaces the notice" in request.items[-1]
        assert "notes: Writes notes" in head(request)
        assert "whale: Sings." in head(request)
        assert b"One." in b"".join(request.items)
        put(work / "AGENTS.md", "Shout.")
        (home / "skills/notes/SKILL.md").unlink()
        made = await team.reload()
        assert made.changed == (f"instructions: ~ {work / 'AGENTS.md'}", "skills: - notes")
        assert "Shout." in team.session.lead.agent.session_note()


@pytest.mark.promise("H4", "P6")
async def test_rules_hold_from_the_next_call_on_and_what_cannot_be_read_changes_nothing(tmp_path):
    home = tmp_path / "home"
    put(home / "settings.json", json.dumps({"permissions": {"allow": ["Bash(make:*)"]}}))
    model = ScriptedModel(["One."])
    async with a_team(tmp_path, model) as team:
        before = digest(team)
        put(home / "settings.json", "{")
        with pytest.raises(CannotStart):
            await team.reload()
        rules = [rule.text for rule in team.session.agent_factory.policy.rules]
        assert "Bash(make:*)" in rules
        put(home / "settings.json", json.dumps({"permissions": {"deny": ["WebFetch"]}, "git_trailer": "x"}))
        made = await team.reload()
        assert made.changed == ("permissions: + deny WebFetch, - allow Bash(make:*)",)
        assert made.later == ("git_trailer",)
        rules = [rule.text for rule in team.session.agent_factory.policy.rules]
        assert "Bash(make:*)" not in rules and "WebFetch" in rules
        assert made.members == ("team-lead",), "a tool that is denied whole is listed no more"
        assert digest(team) != before
        assert '"WebFetch"' not in team.session.lead.agent.conversation.prefix.head.decode()


@pytest.mark.promise("H3")
async def test_servers_come_and_go_with_their_tools(tmp_path):
    home = tmp_path / "home"
    server = {"command": sys.executable, "args": [str(SERVER)]}
    model = ScriptedModel(["One.", "Two."])
    async with a_team(tmp_path, model) as team:
        put(home / "settings.json", json.dumps({"mcpServers": {"db": server}}))
        made = await team.reload()
        assert made.changed == ("MCP servers: + db",)
        assert "mcp__db__" in team.session.lead.agent.conversation.prefix.head.decode()
        put(home / "settings.json", "{}")
        made = await team.reload()
        assert made.changed == ("MCP servers: - db",)
        assert "mcp__db__" not in team.session.lead.agent.conversation.prefix.head.decode()
        assert not team.session.agent_factory.toolset.serving.servers.all


@pytest.mark.promise("P6")
async def test_what_an_agent_changed_in_a_repository_since_it_was_trusted_for_one_run_does_not_hold(tmp_path):
    work = tmp_path / "work"
    put(work / ".teamwright/settings.json", json.dumps({"permissions": {"allow": ["Bash(make:*)"]}}))
    async with a_team(tmp_path, ScriptedModel(["One."]), trust=True) as team:
        assert "Bash(make:*)" in [rule.text for rule in team.session.agent_factory.policy.rules]
        put(work / ".teamwright/settings.json", json.dumps({"permissions": {"allow": ["Bash(make:*)", "Bash(rm:*)"]}}))
        put(work / ".teamwright/skills/notes/SKILL.md", SKILL)
        await team.reload()
        assert "Bash(rm:*)" not in [rule.text for rule in team.session.agent_factory.policy.rules]
        assert not team.session.agent_factory.toolset.shelf.callable_skills


@pytest.mark.promise("K5")
async def test_a_reading_is_told_by_an_event(tmp_path):
    async with a_team(tmp_path, ScriptedModel(["One."])) as team:
        events = team.events()
        put(tmp_path / "work" / "AGENTS.md", "Whisper.")
        await team.reload()
        found = await anext(event async for _, event in events if isinstance(event, Reloaded))
        assert found.members == ("team-lead",) and "AGENTS.md" in found.changed[0]
