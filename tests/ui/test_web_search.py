"""Web search: by the service of the model, by a command, by a tool of an MCP server, or said to be absent."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.config.settings.settings import WebSearchSettings
from teamwright.models.endpoint import Endpoint
from teamwright.session.agents.web_search import SessionSearch
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.ui.program import Program

pytestmark = [pytest.mark.finding("C4"), pytest.mark.promise("row L10")]

PAGE = {"type": "web_search_result", "url": "https://example.org/a", "title": "A page", "encrypted_content": "x"}
FOUND = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "teams"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [PAGE, PAGE]},
]


class Player:
    """A lead that searches once. The service finds a page, or reports an error."""

    def __init__(self, *blocks: dict) -> None:
        self.blocks = blocks
        self.searches: list[dict] = []
        self.told = ""
        self.tools: set[str] = set()

    def __call__(self, body: dict) -> Answer:
        if body["tools"][0].get("type", "").startswith("web_search"):
            self.searches.append(body)
            return Answer("Teams are popular.", blocks=self.blocks)
        self.tools = {tool["name"] for tool in body["tools"]}
        if body["messages"][-1]["content"][0]["type"] == "tool_result":
            self.told = json.dumps(body["messages"][-1])
            return Answer("Done.")
        return Answer(tools=[("WebSearch", {"query": "agent teams", "blocked_domains": ["example.com"]})])


@pytest.fixture
def program(tmp_path: Path, repo: Path) -> Program:
    return Program(repo, tmp_path / "home", env={"HOME": str(tmp_path / "user")})


def run(program: Program, player: Player, *flags: str) -> dict:
    with LoopbackModel.in_thread(player) as server:
        program.url = server.url
        done = program.run("-p", "Go.", "--output-format", "json", *flags)
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "stderr": done.stderr}


@pytest.mark.slow
def test_the_service_searches_and_the_price_of_a_search_is_booked(program):
    player, plain = Player(*FOUND), Player()
    program.settings(**{"web_search": {"service": "on"}})
    made = run(program, player, "--allowed-tools", "WebSearch")
    [sent] = player.searches
    [tool] = sent["tools"]
    assert (tool["name"], tool["blocked_domains"]) == ("web_search", ["example.com"])
    assert "agent teams" in json.dumps(sent["messages"])
    assert "Teams are popular." in player.told and player.told.count("A page: https://example.org/a") == 1
    without = run(program, plain, "--allowed-tools", "WebSearch")
    assert made["total_cost_usd"] - without["total_cost_usd"] == pytest.approx(0.01, abs=0.005)


@pytest.mark.parametrize(
    ("service", "provider", "address", "expected"),
    [
        ("auto", "anthropic", "https://api.anthropic.com", True),
        ("auto", "anthropic", "https://gateway.example.org", False),
        ("on", "anthropic", "https://gateway.example.org", True),
        ("off", "anthropic", "https://api.anthropic.com", False),
        ("on", "openai", "https://api.openai.com", False),
    ],
)
def test_the_service_is_used_where_it_is_known_to_search(tmp_path, service, provider, address, expected):
    class Opened:
        endpoint = Endpoint(provider, address)

    async def no_tools() -> list:
        return []

    kept: Any = Opened()
    found = SessionSearch(
        WebSearchSettings(service), BudgetTracker(), lambda _event: None, tmp_path, {}, "/bin/sh", no_tools, kept
    )
    assert found.uses_service is found.is_available is expected


@pytest.mark.slow
def test_a_search_needs_an_answer_like_every_call_that_leaves_the_machine(program):
    player = Player(*FOUND)
    program.settings(**{"web_search": {"service": "on"}})
    made = run(program, player)
    assert not player.searches and made["permission_denials"][0]["tool_name"] == "WebSearch"


@pytest.mark.slow
def test_an_error_of_the_service_is_named(program):
    problem = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    player = Player(FOUND[0], {**FOUND[1], "content": problem})
    program.settings(**{"web_search": {"service": "on"}})
    run(program, player, "--allowed-tools", "WebSearch")
    assert "a search failed: max_uses_exceeded" in player.told


@pytest.mark.slow
def test_a_command_of_the_person_searches_where_the_service_does_not(tmp_path, program):
    player = Player()
    program.settings(**{"web_search": {"command": f"cat > {tmp_path}/asked; echo 'found by hand'"}})
    run(program, player, "--allowed-tools", "WebSearch")
    assert "found by hand" in player.told and not player.searches
    asked = json.loads((tmp_path / "asked").read_text())
    assert asked == {"query": "agent teams", "allowed_domains": [], "blocked_domains": ["example.com"]}
    program.settings(**{"web_search": {"command": "echo no network >&2; exit 3"}})
    run(program, player, "--allowed-tools", "WebSearch")
    assert "exit code 3: no network" in player.told


def test_a_tool_of_an_mcp_server_that_is_missing_is_named(program):
    player = Player()
    program.settings(**{"web_search": {"tool": "mcp__none__search"}})
    run(program, player, "--allowed-tools", "WebSearch")
    assert "no MCP server has the tool" in player.told


@pytest.mark.slow
def test_without_a_way_to_search_the_tool_is_absent_and_agents_that_name_it_are_named(program):
    folder = program.cwd / ".claude" / "agents"
    folder.mkdir(parents=True)
    for name in ("researcher", "writer"):
        tools = "Read, WebSearch" if name == "researcher" else "Read"
        (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: d\ntools: {tools}\n---\nYou work.\n")
    player = Player()
    made = run(program, player, "--trust")
    assert "WebSearch" not in player.tools and "WebFetch" not in player.tools, "ToolSearch finds WebFetch"
    [line] = [line for line in made["stderr"].splitlines() if "no web search here" in line]
    assert "researcher" in line and "writer" not in line and "web_search.command" in line
    program.settings(**{"web_search": {"command": f"{sys.executable} -c ''"}})
    assert "no web search here" not in run(program, player, "--trust")["stderr"]
