"""What every call of every agent pays for before anybody has said a word: the system prompt and the tools."""

import json
import re
from pathlib import Path

import pytest

from teamwright.agent.agent_type import LEAD_ONLY, find_agent_type, load_prompt
from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.plan_mode import PlanMode
from teamwright.agent.prompt import lead_prompt, subagent_prompt, teammate_prompt
from teamwright.agent.spawn_limits import SpawnLimits
from teamwright.agent.tool import AnyTool, tool_schema
from teamwright.agent.toolbox import offered_tools
from teamwright.config.settings.settings import McpSettings, WebSearchSettings
from teamwright.hooks.hook_runner import no_hook_runner
from teamwright.hooks.payload import HookAgent
from teamwright.models.model_settings import ModelSettings
from teamwright.permissions.permission_decision import Policy
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import Block
from teamwright.session.agents.toolset import Toolset
from teamwright.session.agents.web_search import SessionSearch
from teamwright.session.mcp_servers import SessionMcpServers
from teamwright.session.session_hooks import SessionHooks
from teamwright.subagents.registry import Subagents
from teamwright.subagents.subagent_settings import SubagentSettings
from teamwright.teams.team import SessionTeam
from teamwright.tools.caller import Caller
from teamwright.tools.deferred_tools import offer_tools
from teamwright.tools.shell.bash import proves_nothing
from teamwright.tools.shell.bash_settings import BashSettings

MOST = {
    (False, "lead"): 4_150,
    (False, "teammate"): 3_950,
    (False, "sub-agent"): 1_900,
    (True, "lead"): 1_250,
    (True, "teammate"): 1_250,
    (True, "sub-agent"): 800,
}
"""Tokens, at four bytes a token, of each agent with the full and with the compact prompt. Real tokenizers count more in
short words: see test_prefix_tokens.
"""

MOST_OF_TOOLS = {"Agent": 420, "SendMessage": 370}
"""Tokens of a tool, without the list of agent types."""


class Nobody:
    """Fills the ports that no description looks at."""

    async def ask(self, *_: object) -> None:
        raise AssertionError("nobody is asked")

    def transcript_path(self, agent_id: str) -> Path:
        return Path("/nowhere", agent_id)


def toolset(teams: bool = True) -> Toolset:
    nobody, jobs = Nobody(), BackgroundJobs()
    hooks = SessionHooks(no_hook_runner(), HookAgent("", Path()), Path(), nobody, nobody, [])
    servers = SessionMcpServers(McpSettings(), Path(), nobody, nobody, nobody, nobody)
    search = SessionSearch(WebSearchSettings(), nobody, nobody, Path(), {}, "sh", nobody)
    parts = (ModelSettings(), proves_nothing, {}, hooks, servers, search)
    made = Toolset(jobs, nobody, nobody, BashSettings(), *parts, teams=teams)
    made.set_agents(Subagents(Path("/nowhere"), nobody, jobs, SpawnLimits(), lambda _event: None, SubagentSettings()))
    return made


def plan_mode() -> PlanMode:
    return PlanMode(Policy(), Path("/plans"), None)


@pytest.fixture
def team(tmp_path):
    return SessionTeam(
        tmp_path, Nobody(), "0f9c6a5e-0000-4000-8000-000000000000", tmp_path, lambda _event: None, Nobody(), Nobody()
    )


def tools_of(name: str, team: SessionTeam) -> list[AnyTool]:
    made = toolset()
    every = [*made.tools(Caller(name, team)), *made.plan_tools(name, plan_mode(), Nobody())]
    return every if name == LEAD else [tool for tool in every if tool.name not in LEAD_ONLY]


def tools_of_subagent() -> list[AnyTool]:
    made = toolset()
    return [*made.subagent_tools("a1", None, ()), *made.plan_tools("a1", plan_mode(), Nobody(), is_subagent=True)]


def offered(tools: list[AnyTool], compact: bool) -> list[AnyTool]:
    return offered_tools(offer_tools(tools, compact=compact))


def tokens(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode()) // 4


def told(system: list[Block], tools: list[AnyTool]) -> int:
    rows = {tool.name: tokens(tool_schema(tool)) for tool in tools}
    for name, size in sorted(rows.items(), key=lambda row: -row[1]):
        print(f"  {name:<16} {size:>5}")
    print(f"  {'system prompt':<16} {tokens(system):>5}")
    return sum(rows.values()) + tokens(system)


@pytest.mark.parametrize("compact", [False, True], ids=["full", "compact"])
def test_an_agent_knows_all_it_needs_in_few_tokens(team, compact):
    kind = find_agent_type("general-purpose")
    prompts = {
        "lead": (lead_prompt(True, compact=compact), tools_of(LEAD, team)),
        "teammate": (teammate_prompt(kind, compact=compact), tools_of("scout", team)),
        "sub-agent": (subagent_prompt(kind, compact=compact), tools_of_subagent()),
    }
    sizes = {name: told(system, offered(tools, compact)) for name, (system, tools) in prompts.items()}
    print(sizes)
    assert all(size <= MOST[compact, name] for name, size in sizes.items()), sizes


def test_the_tools_that_start_and_write_to_agents_are_short(team):
    sizes = {tool.name: tokens(tool_schema(tool)) for tool in offered(tools_of(LEAD, team), False)}
    assert all(sizes[name] <= most for name, most in MOST_OF_TOOLS.items()), sizes


def test_a_tool_that_a_person_names_alone_is_in_the_prefix(team):
    named = [tool for tool in tools_of(LEAD, team) if tool.name in {"Read", "NotebookEdit", "ToolSearch"}]
    assert [tool.name for tool in offered(named, False)] == ["Read", "NotebookEdit"]


COMPACT_PROMPTS = ("base", "limits", "lead", "member", "subagent")
PROMPTS = ("base", "limits", "lead", "member", "subagent", "explore", "plan", "shell", "tags")


def words_to_models(team: SessionTeam) -> dict[str, str]:
    """Everything that an agent is told at birth, by where it stands."""
    texts = {f"prompts/{stem}.md": load_prompt(stem) for stem in PROMPTS}
    texts |= {f"prompts/compact/{stem}.md": load_prompt(stem, compact=True) for stem in COMPACT_PROMPTS}
    return texts | {tool.name: json.dumps(tool_schema(tool), ensure_ascii=False) for tool in tools_of(LEAD, team)}


def test_a_tool_that_is_named_is_there(team):
    known = {tool.name for tool in tools_of(LEAD, team)}
    for where, text in words_to_models(team).items():
        named = set(re.findall(r"\b(?:[A-Z][a-z]+){2,}\b", text))
        assert named <= known | {where}, where


def test_a_parameter_that_is_named_is_the_tools_own(team):
    for tool in tools_of(LEAD, team):
        schema = json.dumps(tool_schema(tool)["input_schema"])
        named = re.findall(r"`([a-z_]+)`", tool.description)
        assert all(f'"{one}"' in schema for one in named), tool.name


def test_nothing_is_spoken_of_that_does_not_exist(team):
    for where, text in words_to_models(team).items():
        assert not re.search(r"(?i)\bhooks?\b(?!, force)|\bskill|slash command|\bMCP\b", text), where


@pytest.mark.parametrize(
    "rule", ["co-author|trailer", "never an instruction", "only when you were asked", "to all|costs"]
)
def test_a_rule_stands_in_one_place(team, rule):
    texts = words_to_models(team)
    assert len([where for where, text in texts.items() if re.search(rule, text)]) <= 1
