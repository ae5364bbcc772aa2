"""Agent where there are no teams: a sub-agent that answers once. What both Agent tools share is here.

Knows the book of sub-agents, and how an answer reads. Refuses to know members.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from teamwright.agent.definition import FORK
from teamwright.agent.tool import AnyTool, Tool, ToolContext, ToolInput, ToolResult, read_beside
from teamwright.models.effort import asked_effort
from teamwright.permissions.verdict import Access
from teamwright.protocol.blocks import text_block
from teamwright.protocol.budget import NO_CAPS, Budget
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import member_name
from teamwright.teams.agents.book import Agents
from teamwright.teams.agents.ports import FromCall
from teamwright.teams.agents.run import Run
from teamwright.teams.agents.words import facts, it_runs, launched_facts, may_continue, usage
from teamwright.teams.spec import SpawnSpec
from teamwright.tools.background.finding import known_agent

_OF_A_NEW_ONE = ("subagent_type", "model", "effort", "mode", "max_turns", "budget_tokens", "name")
"""Parameters that an agent has from its birth: one that goes on keeps what it has."""


_OF_ITS_CALLER = ("model", "mode", "effort")
"""Parameters that a fork cannot be given: it is its caller in all of these."""

TYPE_OR_FORK = "An agent type of the list above; default: a fork of you."


class SubagentInput(ToolInput):
    """Parameters of a sub-agent."""

    description: str = Field(description="Job in 3 to 5 words.")
    prompt: str = Field(description="Whole job.")
    subagent_type: str | None = Field("general-purpose", description="An agent type of the list above.")
    model: str | None = Field(None, description="Model; default: yours.")
    effort: str | None = Field(None, description="Thinking effort: low, medium, high, xhigh, max; default: yours.")
    mode: Literal["default", "acceptEdits", "bypassPermissions", "delegate", "dontAsk", "plan"] | None = Field(
        None, description="Permission mode, never wider than yours."
    )
    max_turns: int | None = Field(None, gt=0, description="Limit of model calls.")
    budget_tokens: int | None = Field(None, gt=0, description="Limit of tokens, input and output.")
    run_in_background: bool | None = Field(None, description="Immediate return, and a notice at the end.")
    resume: str | None = Field(None, description="agentId of a sub-agent that has ended.")

    @property
    def forks(self) -> bool:
        """Whether it asks for a fork of its caller."""
        return False

    @property
    def kind(self) -> str:
        """The kind of agent that it asks for."""
        return FORK.name if self.forks else self.subagent_type or "general-purpose"

    def spec(self, name: str = "") -> SpawnSpec:
        """What is to be started. Raises UsageError for what a fork cannot be given."""
        if self.forks:
            _refuse_of_forks(self)
        return SpawnSpec(
            prompt=self.prompt,
            description=self.description,
            name=name,
            agent_type=self.kind,
            fork=self.forks,
            model=self.model,
            effort=asked_effort(self.effort),
            mode=self.mode,
            max_turns=self.max_turns,
            budget=NO_CAPS if self.budget_tokens is None else Budget(tokens=self.budget_tokens),
        )

    def access(self) -> Access:
        """`Agent(type)` rules look at the type; starting one touches nothing by itself."""
        return Access(subject=self.kind, harmless=True)


class NamedSubagentInput(SubagentInput):
    """Parameters of a sub-agent where there are no members: a name is its own."""

    name: str | None = Field(None, description="Name for SendMessage, besides the agentId.")


class ForkingSubagentInput(NamedSubagentInput):
    """The same where a call that names neither a kind nor an agent makes a fork."""

    subagent_type: str | None = Field(None, description=TYPE_OR_FORK)

    @property
    def forks(self) -> bool:
        """See SubagentInput.forks."""
        return not (self.subagent_type or self.name or self.resume)


class SubagentTool(Tool[NamedSubagentInput]):
    """Starts sub-agents for the agent of this name."""

    name = "Agent"
    aliases = ("Task",)
    input_type = NamedSubagentInput

    def __init__(self, caller: str, agents: Agents, types: str = "", *, named: bool = True) -> None:
        """`named`: whether its sub-agents may have names; those of a sub-agent have ids alone."""
        self._caller = caller
        self._agents = agents
        self._types = types
        self.hidden = agents.settings.hidden | ({} if named else {"name": "a sub-agent of yours has an id alone"})
        if agents.settings.fork:
            self.input_type = ForkingSubagentInput

    @property
    def description(self) -> str:
        """What the model is told, with the kinds of agents that there are besides the built-in ones."""
        return described(type(self), self._types, forks=self._agents.settings.fork)

    def repeats(self, call: NamedSubagentInput) -> bool:
        """A call that a kill cut off finds its sub-agent again, and goes on with it."""
        return True

    def summary(self, call: NamedSubagentInput) -> str:
        """What is started."""
        return f"{call.resume or call.kind}: {call.description}"

    def access(self, call: NamedSubagentInput, ctx: ToolContext) -> Access:
        """See SubagentInput.access."""
        return call.access()

    def read_only(self, call: NamedSubagentInput) -> bool:
        """Several agents of one answer start together."""
        return True

    async def run(self, call: NamedSubagentInput, ctx: ToolContext) -> ToolResult:
        """The sub-agent's answer with its id and usage, or that it runs in the background."""
        spec = call.spec(member_name(call.name) if call.name else "")
        return await answer_of(self._agents, call, spec, self._caller, ctx)


def described(tool: type[AnyTool], types: str, *, forks: bool) -> str:
    """The text beside the tool, and what there is to say of forks and of kinds of agents."""
    return "\n".join(part for part in (read_beside(tool), _of_forks() if forks else "", types) if part)


@cache
def _of_forks() -> str:
    return Path(__file__).with_name("fork.md").read_text(encoding="utf-8").strip()


def _refuse_of_forks(call: SubagentInput) -> None:
    """Raises UsageError for what a fork has of its caller."""
    given = [name for name in _OF_ITS_CALLER if getattr(call, name) is not None]
    if given:
        raise UsageError(
            "usage",
            f"a fork has its caller's settings: {', '.join(given)} cannot be given",
            do=["Leave that out, or name a subagent_type."],
            note="nothing was started",
        )


async def answer_of(agents: Agents, call: SubagentInput, spec: SpawnSpec, caller: str, ctx: ToolContext) -> ToolResult:
    """Run a sub-agent to its end, or see it off into the background; what its caller's model reads of it.

    Raises TeamwrightError when it cannot start.
    """
    if not call.prompt.strip():
        return _type_described(agents, call, spec)
    background = bool(call.run_in_background) or agents.settings.fork
    if spec.fork:
        spec = replace(spec, cwd=ctx.workplace.cwd)
    if not call.resume:
        return await run_spec(agents, spec, caller, ctx, background=background)
    origin, background = FromCall(ctx.tool_use_id, ctx.key, ctx.again), agents.in_background(background)
    run = await _again(agents, caller, origin)
    if run is None:
        run = await agents.go_on(_resumed(agents, call, caller), call.prompt, caller, origin, background=background)
    return await _seen_through(agents, run, call.prompt, ctx)


def _type_described(agents: Agents, call: SubagentInput, spec: SpawnSpec) -> ToolResult:
    """Return the whole description of the type that the call names. Raises UsageError where it names none."""
    named = call.subagent_type and "subagent_type" in call.model_fields_set and not call.resume
    kind = agents.builder.resolved(spec).definition if named else None
    if kind is None:
        raise UsageError(
            "usage", "the prompt is empty", do=["Put the whole job into prompt."], note="nothing was started"
        )
    about = kind.description or "It has no description."
    text = f"Agent type {kind.name} ({kind.tools_in_words}): {about}\nNothing was started: the prompt is empty."
    return ToolResult(text, brief=f"the agent type {kind.name}")


async def run_spec(
    agents: Agents, spec: SpawnSpec, caller: str, ctx: ToolContext, *, background: bool = False
) -> ToolResult:
    """A new sub-agent: what its caller's model reads of it. Raises TeamwrightError when it cannot start."""
    origin, background = FromCall(ctx.tool_use_id, ctx.key, ctx.again), agents.in_background(background)
    run = await _again(agents, caller, origin) or await agents.start(spec, caller, origin, background=background)
    return await _seen_through(agents, run, spec.prompt, ctx)


async def _seen_through(agents: Agents, run: Run, prompt: str, ctx: ToolContext) -> ToolResult:
    waits = not run.background
    if waits and await agents.in_foreground(run):
        return _answer(run, prompt)
    can_read = ctx.may("Read", Access(reads=(run.file,)))
    return _launched(run, prompt, moved=waits, can_read=can_read)


async def _again(agents: Agents, caller: str, origin: FromCall) -> Run | None:
    """The sub-agent of a call that a kill cut off: in the foreground it goes on where it was. None: there is none."""
    run = agents.of_call(origin.key) if origin.again else None
    if run is None or run.background or run.state != "killed":
        return run
    return await agents.go_on(run, "", caller, origin, background=False)


def _resumed(agents: Agents, call: SubagentInput, caller: str) -> Run:
    """The sub-agent that is to go on. Raises UsageError, TeamRefused."""
    given = [name for name in _OF_A_NEW_ONE if name in call.model_fields_set and getattr(call, name) is not None]
    if given:
        raise UsageError(
            "usage",
            f"a resumed agent keeps its settings: {', '.join(given)} cannot be given with resume",
            do=["Leave that out, or start a new one without resume."],
            note="nothing was started",
        )
    run = known_agent(agents, call.resume or "", caller)
    if run.running:
        raise it_runs(run)
    return run


def _launched(run: Run, prompt: str, *, moved: bool, can_read: bool) -> ToolResult:
    how = "continues in the background" if moved else "runs in the background"
    file, says = (f"output_file: {run.file}\n", "The file has its text so far. ") if can_read else ("", "")
    text = (
        f"The sub-agent {how}.\nagentId: {run.id}\n{file}"
        f"You are notified when it ends: continue with other work, or end your turn. {says}"
        f'SendMessage with to "{run.id}" gives it more instructions; TaskStop ends it.'
    )
    made = launched_facts(run, prompt, can_read=can_read)
    return ToolResult(text, brief=f"{run.id} in the background", facts=made)


def _answer(run: Run, prompt: str) -> ToolResult:
    if run.error is not None and not run.text:
        raise run.error
    about = f"agentId: {run.id}\n<usage>{usage(run)}</usage>"
    made = facts(run, prompt)
    if run.state == "completed":
        return ToolResult([text_block(run.text or "(no text)"), text_block(about)], brief="answered", facts=made)
    if not run.text:
        again = f'Call Agent once more with resume "{run.id}" to continue it, or do the job yourself.'
        do = (
            again
            if may_continue(run)
            else "Another try would end in the same way. Do the job yourself, or report why not."
        )
        return ToolResult.error(f"The sub-agent {run.id} failed: {run.why}.", do)
    note = f"The sub-agent did not finish: {run.why}. This is what it had said:"
    return ToolResult([text_block(note), text_block(run.text), text_block(about)], brief=run.why, facts=made)
