"""Agent where there are no teams: a sub-agent that answers once. What both Agent tools share is here.

Knows how a sub-agent is made through a port, and how its answer reads. Refuses to know teams.
"""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import Field

from teamwright.agent.loop import Agent
from teamwright.agent.subagent import SubagentResult, run_subagent
from teamwright.agent.tool import AnyTool, Tool, ToolContext, ToolInput, ToolResult, read_beside
from teamwright.permissions.verdict import Access
from teamwright.protocol.blocks import text_block
from teamwright.protocol.budget import Budget
from teamwright.teams.spec import SpawnSpec


class SubagentInput(ToolInput):
    """Parameters of a sub-agent."""

    description: str = Field(description="3 to 5 words.")
    prompt: str = Field(description="The whole job.")
    subagent_type: str = Field("general-purpose", description="general-purpose, Explore, Plan or Bash.")
    model: str | None = Field(None, description="Another model than yours.")
    mode: Literal["default", "acceptEdits", "bypassPermissions", "delegate", "dontAsk", "plan"] | None = Field(
        None, description="Permission mode; never more than yours."
    )
    max_turns: int | None = Field(None, gt=0, description="At most so many model calls.")
    budget_tokens: int | None = Field(None, gt=0, description="At most so many tokens, in and out.")

    def spec(self, name: str = "") -> SpawnSpec:
        """What is to be started."""
        return SpawnSpec(
            prompt=self.prompt,
            description=self.description,
            name=name,
            agent_type=self.subagent_type,
            model=self.model,
            mode=self.mode,
            max_turns=self.max_turns,
            budget=Budget(tokens=self.budget_tokens),
        )

    def access(self) -> Access:
        """`Agent(type)` rules look at the type; starting one touches nothing by itself."""
        return Access(subject=self.subagent_type, harmless=True)


class SubagentBuilder(Protocol):
    """The port that makes a sub-agent ready to run: filled in `app`."""

    def resolved(self, spec: SpawnSpec) -> SpawnSpec:
        """The spec with what its kind says. Raises UsageError for a kind that nobody knows."""
        ...

    async def subagent(self, spec: SpawnSpec, caller: str, parent_call: str) -> Agent:
        """Raises TeamwrightError when it cannot be made or a limit forbids it."""
        ...


class SubagentTool(Tool[SubagentInput]):
    """Starts sub-agents for the agent of this name."""

    name = "Agent"
    aliases = ("Task",)
    input_type = SubagentInput

    def __init__(self, caller: str, builder: SubagentBuilder, types: str = "") -> None:
        self._caller = caller
        self._builder = builder
        self._types = types

    @property
    def description(self) -> str:
        """What the model is told, with the kinds of agents that there are besides the built-in ones."""
        return described(type(self), self._types)

    def repeats(self, call: SubagentInput) -> bool:
        """A sub-agent would begin all over."""
        return False

    def summary(self, call: SubagentInput) -> str:
        """What is started."""
        return f"{call.subagent_type}: {call.description}"

    def access(self, call: SubagentInput, ctx: ToolContext) -> Access:
        """See SubagentInput.access."""
        return call.access()

    def read_only(self, call: SubagentInput) -> bool:
        """Several agents of one answer start together."""
        return True

    async def run(self, call: SubagentInput, ctx: ToolContext) -> ToolResult:
        """The sub-agent's answer with its id and usage."""
        return await answer_of(self._builder, call.spec(), self._caller, ctx.tool_use_id)


def described(tool: type[AnyTool], types: str) -> str:
    """The text beside the tool, and what there is to say of kinds of agents."""
    return f"{read_beside(tool)}\n{types}" if types else read_beside(tool)


async def answer_of(builder: SubagentBuilder, spec: SpawnSpec, caller: str, parent_call: str) -> ToolResult:
    """Run a sub-agent to its end; what its caller's model reads of it. Raises TeamwrightError when it cannot start."""
    spec = builder.resolved(spec)
    agent = await builder.subagent(spec, caller, parent_call)
    return _answer(await run_subagent(agent, spec.prompt), spec)


def _answer(result: SubagentResult, spec: SpawnSpec) -> ToolResult:
    about = (
        f"agentId: {result.agent_id}\n<usage>total_tokens: {result.usage.tokens}\ntool_uses: {result.tool_uses}\n"
        f"duration_ms: {result.duration_ms}</usage>"
    )
    facts = result.facts(spec.prompt)
    if result.ok:
        return ToolResult([text_block(result.text or "(no text)"), text_block(about)], brief="answered", facts=facts)
    why = result.end.why
    if not result.text:
        return ToolResult.error(f"The sub-agent failed: {why}.", "Try once more, or do it yourself.")
    note = f"The sub-agent did not finish: {why}. This is what it had said:"
    return ToolResult([text_block(note), text_block(result.text), text_block(about)], brief=why, facts=facts)
