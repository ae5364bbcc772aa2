"""`teamwright check` as a person runs it: groups, one line each at 80 columns, counts, JSON, exit codes."""

import json
import re

import pytest

from tests.session.compatibility.folder import fill, put
from tests.ui.program import Program, error_of


@pytest.fixture
def program(tmp_path, repo, own_home):
    fill(repo, own_home / ".claude")
    return Program(repo, tmp_path / "home", env={"LEVEL": "1"})


@pytest.mark.promise("K7")
def test_every_asset_is_listed_in_its_group_with_its_file_and_line(program):
    done = program.run("check")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    groups = [line for line in lines[:-3] if line and not line.startswith(" ")]
    assert groups == ["instructions", "settings", "agents", "skills", "commands", "hooks", "MCP servers", "other files"]
    assert "  used         AGENTS.md" in lines
    assert "  needs trust  .mcp.json:3  files" in lines
    assert "  needs trust  .claude/agents/reviewer.md  reviewer: teamwright trust shows it" in lines
    assert any(
        re.fullmatch(r"  ignored      \.claude/settings\.json:\d+  includeCoAuthoredBy is not used yet", s)
        for s in lines
    )
    assert max(map(len, lines)) <= 80
    assert re.fullmatch(r"\d+ used, \d+ ignored, \d+ need trust, 0 broken", lines[-2])
    assert lines[-1] == "What waits takes effect after: teamwright trust"
    assert not (program.home / "trust.json").exists()


@pytest.mark.promise("K7")
def test_after_trust_it_is_used_and_nothing_waits(program):
    assert program.run("trust", "--yes").returncode == 0
    done = program.run("check")
    assert done.returncode == 0
    assert "needs trust " not in done.stdout
    assert " 0 need trust, 0 broken" in done.stdout
    assert "~/.claude/agents/reviewer.md" in done.stdout
    assert "reviewer: .claude/agents/reviewer.md is nearer" in done.stdout


@pytest.mark.promise("K7")
def test_something_broken_is_exit_1_with_its_file_and_line(program, repo):
    put(repo, ".claude/agents/tester.md", "---\nname: tester\ndescription: x\nmaxTurns: many\n---\nYou test.\n")
    put(repo, ".teamwright/team.toml", "[team]\nchek = 'make'\n")
    program.settings(limits={"members": "many"})
    done = program.run("check")
    assert done.returncode == 1
    assert re.search(r"broken +\.claude/agents/tester\.md:4", done.stdout)
    assert re.search(r"broken +\.teamwright/team\.toml:2", done.stdout)
    assert re.search(r"broken +/.*/home/settings\.json:1", done.stdout)
    assert ", 3 broken" in done.stdout


@pytest.mark.promise("K7")
def test_json_says_the_same(program, repo):
    put(repo, ".mcp.json", "{\n")
    done = program.run("check", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert (found["ok"], found["root"], found["trusted"]) == (False, str(repo), False)
    assert found["counts"]["broken"] == 1
    [broken] = [asset for asset in found["assets"] if asset["state"] == "broken"]
    assert (broken["group"], broken["file"], broken["line"]) == ("MCP servers", str(repo / ".mcp.json"), 2)
    assert sum(found["counts"].values()) == len(found["assets"])


@pytest.mark.slow
def test_flags_add_what_a_run_would_have(program, tmp_path):
    put(tmp_path, "kit/agents/a.md", "---\nname: a\ndescription: x\n---\nx")
    given = json.dumps({"helper": {"description": "Helps.", "prompt": "You help."}})
    done = program.run("check", "--agents", given, "--plugin-dir", str(tmp_path / "kit"))
    assert "helper" in done.stdout
    assert "kit:a" in done.stdout
    assert program.run("check", "--agents", "{").returncode == 2


def test_an_empty_directory_has_nothing_and_a_broken_trust_file_stops_the_look(tmp_path):
    (tmp_path / "empty").mkdir()
    program = Program(tmp_path / "empty", tmp_path / "home")
    assert program.run("check").stdout == "0 used, 0 ignored, 0 need trust, 0 broken\n"
    program.home.mkdir(exist_ok=True)
    (program.home / "trust.json").write_text("{")
    done = program.run("check")
    assert (done.returncode, error_of(done)[0]) == (3, "bad-settings")


@pytest.mark.promise("K1")
@pytest.mark.slow
def test_names_of_a_stranger_move_no_cursor(program, repo):
    put(repo, ".claude/settings.json", {"\x1b[2J\x1b]0;mine\x07": 1, "hooks": {"\x1b[1A": []}})
    put(repo, ".claude/agents/\x1b[2J.md", "---\nname: \x1b\n---\n")
    put(repo, ".mcp.json", {"mcpServers": {"\x1b[2J": {"command": "x"}}})
    for args in (("check",), ("check", "--json"), ("config", "list")):
        done = program.run(*args)
        assert "\x1b" not in done.stdout + done.stderr
