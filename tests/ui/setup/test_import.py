"""`teamwright import`: what is taken over is shown with its origin, secrets are not, and the file stays as it is."""

import json
from pathlib import Path

import pytest

from tests.ui.program import Program

pytestmark = [pytest.mark.promise("row L6"), pytest.mark.finding("C5")]


@pytest.fixture
def program(tmp_path: Path, repo: Path) -> Program:
    user = tmp_path / "user"
    user.mkdir()
    local = {"local-db": {"command": "db", "args": ["--here"]}, "search": {"command": "other"}}
    said = {
        "numStartups": 7,
        "mcpServers": {
            "search": {"command": "node", "args": ["search.js"], "env": {"SEARCH_KEY": "sk-very-secret"}},
            "wiki": {"type": "http", "url": "https://wiki.example.org/mcp", "headers": {"Authorization": "Bearer x9"}},
            "odd": {"command": 3},
        },
        "projects": {str(repo): {"mcpServers": local}, "/elsewhere": {"mcpServers": {"not-here": {"command": "x"}}}},
    }
    (user / ".claude.json").write_text(json.dumps(said))
    return Program(repo, tmp_path / "home", env={"HOME": str(user)})


@pytest.mark.slow
def test_servers_are_shown_with_their_origin_and_taken_over_when_a_person_agrees(tmp_path, program):
    before = (tmp_path / "user/.claude.json").read_bytes()
    shown = program.run("import")
    assert shown.returncode == 1 and "Nothing was changed" in shown.stdout
    assert not (program.home / "settings.json").exists()
    assert "for every project" in shown.stdout and f"for {program.cwd}" in shown.stdout
    assert "node search.js (env: SEARCH_KEY)" in shown.stdout and "not-here" not in shown.stdout
    assert "very-secret" not in shown.stdout and "x9" not in shown.stdout
    done = program.run("import", "--yes")
    assert done.returncode == 0, done.stderr
    own = json.loads((program.home / "settings.json").read_text())["mcpServers"]
    assert set(own) == {"search", "wiki"} and own["search"]["env"] == {"SEARCH_KEY": "sk-very-secret"}
    local = json.loads((program.cwd / ".teamwright/settings.local.json").read_text())["mcpServers"]
    assert set(local) == {"local-db"}, "the first of a name counts"
    assert (tmp_path / "user/.claude.json").read_bytes() == before
    again = program.run("import", "--json")
    assert {row["name"]: row["state"] for row in json.loads(again.stdout)} == {
        **dict.fromkeys(("search", "wiki", "local-db"), "there"),
        "odd": "broken",
    }


@pytest.mark.parametrize("text", ["{", "[]"])
@pytest.mark.slow_after(1)
def test_a_file_that_is_missing_or_damaged_changes_nothing(tmp_path, program, text):
    assert program.run("import", "--from", "nowhere.json").returncode == 2
    (tmp_path / "odd.json").write_text(text)
    done = program.run("import", "--yes", "--from", str(tmp_path / "odd.json"))
    assert done.returncode == (2 if text == "{" else 0) and not (program.home / "settings.json").exists()
