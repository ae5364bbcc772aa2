"""`teamwright agents`, `--agents` and `--plugin-dir`, as a person uses them."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from tests.support import preloaded
from tests.support.waits import WAIT_S

REVIEWER = "---\nname: reviewer\ndescription: Reads changes.\ntools: Read, TodoWrite\n---\nYou review.\n"
SCRIPT = """
[[agent.lead.turn]]
say = "Let me ask."
[[agent.lead.turn.call]]
tool = "Agent"
input = { description = "look", prompt = "Look.", subagent_type = "whales:reviewer" }

[[agent.lead.turn]]
say = "Done."
"""


@pytest.fixture
def teamwright(tmp_path):
    (tmp_path / "repo").mkdir()

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "teamwright", *args]
        env = {**os.environ, "HOME": str(tmp_path), "TEAMWRIGHT_HOME": str(tmp_path / "state")}
        options = {"stdin": subprocess.DEVNULL, "text": True, "timeout": WAIT_S}
        return preloaded.run(command, cwd=tmp_path / "repo", env=env, **options)

    return run


def put(tmp_path, name: str, text: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.promise("row F8")
def test_the_list_says_what_holds_what_is_shadowed_and_what_is_wrong(tmp_path, teamwright):
    put(tmp_path, "repo/.claude/agents/reviewer.md", REVIEWER)
    put(tmp_path, "state/agents/reviewer.md", REVIEWER)
    put(tmp_path, ".claude/agents/reviewer.md", REVIEWER)
    put(tmp_path, ".claude/agents/bad.md", "---\nname: bad\nmaxTurns: many\n---\n")
    done = teamwright("agents", "list")
    assert done.returncode == 0
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert [row for row in rows if row[:1] == ["reviewer"]] == [
        ["reviewer", "needs"],
        ["reviewer", "used"],
        ["reviewer", "shadowed"],
    ]
    assert f"{tmp_path}/.claude/agents/bad.md: line 3: maxTurns must be a whole number from 1 on" in done.stdout
    found = json.loads(teamwright("agents", "list", "--json").stdout)
    assert [kind["state"] for kind in found["kinds"]].count("used") == 5


@pytest.mark.finding("U10")
@pytest.mark.slow
def test_the_bare_command_lists_source_model_tools_and_description(tmp_path, teamwright):
    put(tmp_path, "state/agents/reviewer.md", REVIEWER.replace("tools:", "model: haiku\ntools:"))
    done = teamwright("agents")
    assert done.returncode == 0
    row, about = next(pair for pair in pairwise(done.stdout.splitlines()) if pair[0].startswith("reviewer "))
    assert re.split(r"  +", row) == ["reviewer", "used", "haiku", "user", "Read, TodoWrite"]
    assert about == "  Reads changes."
    assert teamwright("agents", "--json").stdout == teamwright("agents", "list", "--json").stdout
    given = json.dumps({"scout": {"description": "Looks.", "prompt": "Look."}})
    assert "scout" in teamwright("agents", "--agents", given).stdout
    early = teamwright("agents", "--json", "show", "reviewer")
    assert early.returncode == 2 and "teamwright agents show" in early.stderr


@pytest.mark.promise("row F8")
@pytest.mark.slow
def test_show_says_file_fields_warnings_and_the_words(tmp_path, teamwright):
    put(tmp_path, "state/agents/reviewer.md", REVIEWER)
    done = teamwright("agents", "show", "REVIEWER")
    for text in (f"{tmp_path}/state/agents/reviewer.md", '["Read", "TodoWrite"]', "there is no tool TodoWrite here"):
        assert text in done.stdout
    assert done.stdout.rstrip().endswith("You review.")
    wrong = teamwright("agents", "show", "reviwer")
    assert wrong.returncode == 2
    assert "did you mean reviewer?" in wrong.stderr


def test_a_text_of_a_file_moves_no_cursor(tmp_path, teamwright):
    put(tmp_path, "state/agents/x.md", '---\nname: x\ndescription: "a\\e[2Jb"\n---\nbody \x1b[2J here\n')
    assert "\x1b" not in teamwright("agents", "show", "x").stdout + teamwright("agents", "list").stdout


@pytest.mark.promise("row F8")
@pytest.mark.slow
def test_agents_and_plugins_that_flags_give_are_listed_and_run(tmp_path, teamwright):
    put(tmp_path, "whales/agents/reviewer.md", REVIEWER)
    put(tmp_path, "whales/output-styles/s.md", "x")
    put(tmp_path, "script.toml", SCRIPT)
    given = ["--plugin-dir", "../whales", "--agents", '{"own": {"description": "d", "prompt": "p"}}']
    listed = teamwright("agents", "list", *given).stdout
    assert "whales:reviewer" in listed
    assert "own " in listed
    assert "output-styles: not read; of a plugin agents, skills, commands, hooks and MCP servers are" in listed
    done = teamwright("-p", "Go.", "--model", f"scripted:{tmp_path}/script.toml", *given, "--output-format", "json")
    assert done.returncode == 0, done.stderr
    begun = "".join(path.read_text() for path in (tmp_path / "state/projects").rglob("prefixes/*.json"))
    assert "You review." in begun


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--agents", '{"a": {"tols": []}}'], "did you mean tools"),
        (["--agents", "@none.json"], "cannot be read"),
        (["--plugin-dir", "none"], "there is no directory"),
    ],
)
def test_what_a_flag_gives_and_nobody_understands_starts_nothing(teamwright, flags, words):
    done = teamwright("-p", "Go.", "--model", "scripted:none", *flags)
    assert done.returncode == 2
    assert words in done.stderr
    assert teamwright("sessions").stdout.count("\n") <= 1
