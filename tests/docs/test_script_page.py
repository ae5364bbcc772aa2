"""The page of script files: what it says a call takes is what the tool takes, and its scripts play as they stand."""

import re
import subprocess

import pytest

from teamwright.agent.agent_type import LEAD_ONLY
from teamwright.agent.tool import tool_schema
from teamwright.protocol.ids import LEAD
from teamwright.teams.team import SessionTeam
from tests.docs.pages import ROOT
from tests.session.test_prefix_size import Nobody, tools_of
from tests.ui.program import Program

PAGE = (ROOT / "docs" / "reference" / "script-format.md").read_text()
SCRIPTS = re.findall(r"```toml\n(\[script\].*?)```", PAGE, re.DOTALL)


def test_the_table_names_what_each_tool_takes_and_what_may_be_left_out(tmp_path):
    team = SessionTeam(
        tmp_path, Nobody(), "0f9c6a5e-0000-4000-8000-000000000000", tmp_path, lambda _event: None, Nobody(), Nobody()
    )
    takes: dict[str, list[str]] = {}
    for tool in [*tools_of("ann", team), *tools_of(LEAD, team)]:
        schema = tool_schema(tool)["input_schema"]
        needed = schema.get("required", [])
        takes[tool.name] = [key if key in needed else f"{key}?" for key in schema.get("properties", {})]
    table = {
        tool: re.findall(r"`([^`]+)`", keys) for tool, keys in re.findall(r"^\| `([A-Z]\w+)` \| (.*) \|$", PAGE, re.M)
    }
    assert {"Bash", "Agent", "TaskCreate", "SendMessage"} <= table.keys() and not table.keys() & LEAD_ONLY
    shared = table.keys() & takes.keys()
    assert len(shared) > 12
    assert {tool: table[tool] for tool in shared} == {tool: takes[tool] for tool in shared}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(("script", "said"), list(zip(SCRIPTS, ["This repository holds 1 files"], strict=True)))
def test_each_script_of_the_page_plays_in_any_repository(tmp_path, script, said):
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "one.txt").write_text("one\n")
    subprocess.run(["git", "init", "-q", "."], cwd=repo, check=True)
    subprocess.run(["git", "add", "."], cwd=repo, check=True)
    (tmp_path / "team.toml").write_text(script.replace("sleep 5", "true"))
    done = Program(repo, tmp_path / "home").run(
        "-p", "Count them.", "--backend", "in-process", "--model", f"scripted:{tmp_path / 'team.toml'}"
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
