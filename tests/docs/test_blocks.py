"""Blocks that are data or programs: they parse, our own readers take what is ours, Python is right in its types."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from teamwright import Hook, Team
from teamwright.config.settings.merge import load_settings
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.team_file import parse_definition
from teamwright.config.trust import TrustState
from teamwright.mcp.server_config import ConfigSource, parse_servers
from teamwright.models.scripted.script_file import read_script
from teamwright.storage.paths import Home
from teamwright.testing import ScriptedModel
from tests.docs.pages import ROOT, Block, blocks
from tests.support.waits import WAIT_S

LANGUAGES = {"sh", "console", "text", "json", "yaml", "toml", "python", "markdown", "bash"}


def test_every_block_is_in_a_language_that_the_tests_know():
    assert {block.language for block in blocks()} <= LANGUAGES | {""}


def test_no_block_of_text_hides_a_command():
    shown = [block for block in blocks("text") if block.text.startswith("$ ")]
    assert not [block.id for block in shown]


SETTINGS = [block for block in blocks("json") if {"hooks", "members", "providers"} & set(json.loads(block.text))]
SERVERS = [block for block in blocks("json") if set(json.loads(block.text)) == {"mcpServers"}]
TEAM_FILES = [block for block in blocks("toml") if {"team", "roles"} & set(tomllib.loads(block.text))]
SCRIPTS = [block for block in blocks("toml") if block not in TEAM_FILES]


def each(shown: list[Block]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", shown, ids=lambda block: block.id)


@each(blocks("json"))
def test_a_block_of_json_is_an_object(block: Block):
    assert isinstance(json.loads(block.text), dict)


@each(blocks("yaml"))
def test_a_block_of_yaml_is_yaml(block: Block):
    assert yaml.safe_load(block.text)


@each([one for one in SETTINGS if one.page.name != "plugins.md"])
def test_settings_in_a_page_are_taken_without_a_warning(block: Block, own_home: Path, tmp_path: Path):
    home = Home.at(own_home / ".teamwright")
    home.settings.parent.mkdir()
    home.settings.write_text(block.text)
    settings = load_settings(home, tmp_path, SettingFlags(), TrustState.as_written(tmp_path, []))
    assert not settings.warnings
    assert set(json.loads(block.text)) & {key.partition(".")[0] for key in settings.origins} or settings.hooks


@each(SERVERS)
def test_mcp_servers_in_a_page_are_all_understood(block: Block, tmp_path: Path):
    said = json.loads(block.text)["mcpServers"]
    found, warnings = parse_servers(said, ConfigSource("page", tmp_path, {"TRACKER_TOKEN": "t"}))
    assert not warnings
    assert [server.name for server in found] == list(said)


@each(TEAM_FILES)
def test_a_team_file_in_a_page_is_one(block: Block):
    assert parse_definition(block.text, Path("team.toml"))


@each(SCRIPTS)
def test_a_script_in_a_page_is_one(block: Block):
    assert read_script(block.text, block.id)


@each([block for block in blocks("markdown") if block.text.startswith("---")])
def test_the_head_of_a_file_in_a_page_is_yaml_and_describes_it(block: Block):
    _, head, text = block.text.split("---\n")
    assert yaml.safe_load(head)["description"]
    assert text.strip()


# ── Python ─────────────────────────────────────────────────────────────────────────────────────────────────────────

AROUND = """# pyright: basic
import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Literal
import teamwright
from teamwright import *


@dataclass
class Ticket:
    number: int
    title: str
"""
"""What a reader of the page has seen, or writes in its place."""


def program(block: Block) -> str:
    """The block as a program of its own: what it names is there, and what awaits stands in a coroutine."""
    text = block.text
    if re.search(r"^(async with|await|async for)\b", text, re.MULTILINE):
        body = "\n".join(f"    {line}" for line in text.splitlines())
        text = f"async def shown(open_ticket: Any) -> None:\n{body}\n"
    if "class Echo" in text:
        text += "\n\nechoing: Model = Echo()\n"
    return f"{AROUND}\n\n{text}"


@pytest.mark.slow
def test_the_programs_in_the_pages_are_right_for_a_type_checker(tmp_path: Path):
    shown = [block for block in blocks("python") if not block.not_run]
    assert len(shown) >= 8
    for number, block in enumerate(shown):
        made = program(block)
        compile(made, block.id, "exec")
        (tmp_path / f"shown{number}.py").write_text(made)
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3 * WAIT_S, check=False)
    named = [f"shown{number}.py is {block.id}" for number, block in enumerate(shown)]
    assert done.returncode == 0, "\n".join([done.stdout, *named])


def defined(name: str) -> Any:
    """What a block of the manual defines under this name."""
    manual = [block for block in blocks("python") if block.page.name == "python.md"]
    [block] = [one for one in manual if re.search(rf"^(async def |def |class |){name}\b", one.text, re.MULTILINE)]
    scope: dict[str, Any] = {}
    exec(compile(program(block), block.id, "exec"), scope)
    return scope[name]


async def test_the_model_of_the_manual_plays_a_team(tmp_path: Path):
    async with Team("shown", model=defined("Echo")(), cwd=tmp_path) as team:
        result = await team.run("hi")
    assert (result.text, result.usage.input_tokens) == ("hello", 12)


async def test_the_tool_the_hook_and_the_answerer_of_the_manual_work_together(tmp_path: Path):
    calls = [
        ("python__open_ticket", {"title": "a leak"}),
        ("Bash", {"command": "git push"}),
        ("Bash", {"command": "touch made"}),
        "That is it.",
    ]
    model = ScriptedModel({"lead": calls})
    options = {"tools": [defined("open_ticket")], "allowed_tools": ["python__open_ticket"]}
    answers = {"hooks": [Hook("PreToolUse", defined("guard"), matcher="Bash")], "on_request": defined("decide")}
    async with Team("shown", model=model, cwd=tmp_path, **options, **answers) as team:
        result = await team.run("go")
    told = [str(request.items) for request in model.requests]
    assert result.text == "That is it."
    assert "a leak" in told[1].rpartition("tool_result")[2]
    assert "Ask before you push." in told[2]
    assert (tmp_path / "made").exists()
    assert "changed the input of this call" in told[3]


async def test_the_test_of_the_manual_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    async with defined("team") as team:
        assert (await team.run("How many?")).text == "Two files."
