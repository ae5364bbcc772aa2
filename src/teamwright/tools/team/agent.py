"""Agent (alias Task): a sub-agent that answers once, or with a name a teammate.

The routes share one spec and one resolver; what belongs to routes that do not exist yet is not in the schema,
so that passing it is an error.
"""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import Field

from teamwright.agent.loop import Agent
from teamwright.agent.subagent import SubagentResult, run_subagent
from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult
from teamwright.permissions.verdict import Access
from teamwright.protocol.blocks import text_block
from teamwright.protocol.errors import TeamRefused
from teamwright.teams.spawning import spawn
from teamwright.teams.spec import SpawnSpec
from teamwright.tools.team.caller import Caller


class AgentInput(ToolInput):
    """Parameters of the two routes."""

    description: str = Field(description="3 to 5 words.")
    prompt: str = Field(description="The whole job: the agent sees nothing else.")
    subagent_type: str = Field("general-purpose", description="general-purpose, Explore, Plan or Bash.")
    name: str | None = Field(None, description="Makes it a teammate of that name.")
    team_name: str | None = Field(None, description="Your own team; may be left out.")
    model: str | None = Field(None, description="Another model than yours.")
    mode: Literal["default", "acceptEdits", "bypassPermissions", "dontAsk"] | None = Field(
        None, description="Permission mode; never more than yours."
    )
    max_turns: int | None = Field(None, gt=0, description="At most so many model calls.")


class SubagentBuilder(Protocol):
    """The port that makes a sub-agent ready to run: filled in `app`."""

    async def subagent(self, spec: SpawnSpec, caller: str, parent_call: str) -> Agent:
        """Raises TeamwrightError when it cannot be made or a limit forbids it."""
        ...


class AgentTool(Tool[AgentInput]):
    """Starts agents for its caller."""

    name = "Agent"
    aliases = ("Task",)
    input_type = AgentInput

    def __init__(self, caller: Caller, builder: SubagentBuilder) -> None:
        self._caller = caller
        self._builder = builder

    def summary(self, call: AgentInput) -> str:
        """What is started."""
        return f"starts {call.name}: {call.description}" if call.name else f"{call.subagent_type}: {call.description}"

    def access(self, call: AgentInput, ctx: ToolContext) -> Access:
        """`Agent(type)` rules look at the type; starting one touches nothing by itself."""
        return Access(subject=call.subagent_type, harmless=True)

    def read_only(self, call: AgentInput) -> bool:
        """Several agents of one answer start together."""
        return True

    async def run(self, call: AgentInput, ctx: ToolContext) -> ToolResult:
        """The teammate's id, or the sub-agent's answer with its id and usage."""
        spec = SpawnSpec(
            prompt=call.prompt,
            description=call.description,
            name=call.name or "",
            agent_type=call.subagent_type,
            model=call.model,
            mode=call.mode,
            max_turns=call.max_turns,
        )
        if call.name:
            return await self._teammate(spec, call.team_name)
        agent = await self._builder.subagent(spec, self._caller.name, ctx.tool_use_id)
        return _answer(await run_subagent(agent, call.prompt), spec)

    async def _teammate(self, spec: SpawnSpec, team_name: str | None) -> ToolResult:
        team = self._caller.team
        if team_name and team_name not in {team.name, team.directory}:
            if not team.exists and self._caller.is_lead:
                await team.create(team_name, None, None)
            else:
                raise TeamRefused(
                    "team-refused",
                    f"your team is {team.name!r}, not {team_name!r}",
                    do=["Leave team_name out."],
                    note="nothing was started",
                )
        mate = await spawn(team, spec, self._caller.name)
        facts = {
            "status": "teammate_spawned",
            "prompt": spec.prompt,
            "teammate_id": f"{mate.name}@{team.name}",
            "agent_id": f"{mate.name}@{team.name}",
            "agent_type": spec.agent_type,
            "model": mate.model,
            "name": mate.name,
            "color": mate.color,
            "team_name": team.name,
        }
        text = (
            f"{mate.name} is running.\nagent_id: {mate.name}@{team.name}\nname: {mate.name}\nteam_name: {team.name}\n"
            f"model: {mate.model}\nIt has your prompt. You are told when it reports."
        )
        return ToolResult(text, brief=f"{mate.name} is running", facts=facts)


def _answer(result: SubagentResult, spec: SpawnSpec) -> ToolResult:
    about = (
        f"agentId: {result.agent_id}\n<usage>total_tokens: {result.usage.tokens}\ntool_uses: {result.tool_uses}\n"
        f"duration_ms: {result.duration_ms}</usage>"
    )
    facts = result.facts(spec.prompt)
    if result.ok:
        return ToolResult([text_block(result.text or "(no text)"), text_block(about)], brief="answered", facts=facts)
    why = result.end.failure.what if result.end.failure else f"it reached its limit ({result.end.limit})"
    if not result.text:
        return ToolResult.error(f"The sub-agent failed: {why}.", "Try once more, or do it yourself.")
    note = f"The sub-agent did not finish: {why}. This is what it had said:"
    return ToolResult([text_block(note), text_block(result.text), text_block(about)], brief=why, facts=facts)
