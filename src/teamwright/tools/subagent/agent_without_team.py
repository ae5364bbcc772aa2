"""The Agent tool without teams: a sub-agent that answers once. The Agent tool of a team uses its parts.

`ForbiddenInFork` takes the place of a tool that a fork cannot use: its prefix, which is its caller's, names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec.structs import replace
from pydantic import ConfigDict, Field

from teamwright.agent.agent_type import FORK_TYPE
from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.models.effort import parse_optional_effort
from teamwright.permissions.verdict import Access
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.ids import member_name
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import NO_CAPS, Budget
from teamwright.subagents.registry import Subagents
from teamwright.subagents.reports import background_facts, is_running_error, may_continue, result_facts, usage_text
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.subagents.subagent_settings import CallRef
from teamwright.team_records.spawn_spec import REMOTE, SpawnSpec
from teamwright.tools.subagent.background_lookup import find_subagent

_FIXED_AT_START = ("subagent_type", "model", "effort", "mode", "max_turns", "budget_tokens", "isolation", "cwd", "name")
"""Parameters that are fixed when an agent starts. A resumed agent keeps its values."""


_FIXED_BY_CALLER = ("model", "mode", "effort")
"""Parameters that a fork does not take: it has its caller's values."""

TYPE_OR_FORK = "An agent type of the list above; default: a fork of you."


class SubagentInput(ToolInput):
    """Parameters of a sub-agent."""

    description: str = Field(description="Job in 3 to 5 words.")
    prompt: str
    subagent_type: str | None = Field("general-purpose", description="Type of the list.")
    model: str | None = Field(None, description="Default: yours.")
    effort: str | None = Field(None, description="low, medium, high, xhigh or max.")
    mode: Literal["default", "acceptEdits", "bypassPermissions", "delegate", "dontAsk", "plan"] | None = Field(
        None, description="Never wider than yours."
    )
    max_turns: int | None = Field(None, gt=0, description="Limit of model calls.")
    budget_tokens: int | None = Field(None, gt=0)
    run_in_background: bool | None = None
    isolation: Literal["worktree", "remote", "none"] | None = Field(
        None,
        description="worktree: without uncommitted files; remote: another machine.",
    )
    cwd: str | None = None
    resume: str | None = Field(None, description="The agentId.")

    @property
    def is_fork(self) -> bool:
        """True when the call asks for a fork of its caller."""
        return False

    @property
    def agent_type(self) -> str:
        """The agent type that the call asks for."""
        return FORK_TYPE.name if self.is_fork else self.subagent_type or "general-purpose"

    def spec(self, name: str = "") -> SpawnSpec:
        """Return the specification of the start. Raises UsageError for a parameter that a fork does not take."""
        if self.is_fork:
            _refuse_fork_parameters(self)
        if self.isolation == REMOTE and self.cwd is not None:
            raise UsageError(
                "usage",
                "cwd is a directory of this machine, and the agent works on another one",
                do=["Leave cwd out, or leave isolation out."],
                note="nothing was started",
            )
        if self.isolation == REMOTE and not name:
            raise UsageError(
                "usage",
                "a sub-agent works on its caller's machine",
                do=["Give it a name: a teammate may work on another machine."],
                note="nothing was started",
            )
        return SpawnSpec(
            prompt=self.prompt,
            description=self.description,
            name=name,
            agent_type=self.agent_type,
            fork=self.is_fork,
            model=self.model,
            effort=parse_optional_effort(self.effort),
            mode=self.mode,
            max_turns=self.max_turns,
            isolation=self.isolation,
            budget=NO_CAPS if self.budget_tokens is None else Budget(tokens=self.budget_tokens),
        )

    def access(self, ctx: ToolContext) -> Access:
        """Return an access for `Agent(type)` rules, and for the directory that the call names, which is read."""
        return Access(
            subject=self.agent_type, harmless=True, reads=() if self.cwd is None else (ctx.resolve(self.cwd),)
        )

    def summary(self) -> str:
        """Return what starts, and where the call says so, as a line for people."""
        where = "" if self.cwd is None else f" (in {self.cwd})"
        return f"{self.resume or self.agent_type}: {self.description}{where}"

    def find_directory(self, ctx: ToolContext) -> Path | None:
        """Return the directory that the call names, which exists; None when it names none. Raises UsageError."""
        if self.cwd is None:
            return None
        directory = ctx.resolve(self.cwd)
        if directory.is_dir():
            return directory
        why = "is not a directory" if directory.exists() else "does not exist"
        raise UsageError(
            "usage",
            f"cwd {str(directory)[:200]!r} {why}",
            do=["Name a directory, or leave cwd out: it then works in yours."],
            note="nothing was started",
        )


class NamedSubagentInput(SubagentInput):
    """Parameters of a sub-agent when there are no teammates: it may have a name."""

    name: str | None = Field(None, description="Name for SendMessage, in addition to the agentId.")


class ForkingSubagentInput(NamedSubagentInput):
    """The same parameters where a call without type and agent starts a fork."""

    subagent_type: str | None = Field(None, description=TYPE_OR_FORK)

    @property
    def is_fork(self) -> bool:
        """True when the call asks for a fork; see SubagentInput.is_fork."""
        return not (self.subagent_type or self.name or self.resume)


class SubagentTool(Tool[NamedSubagentInput]):
    """The Agent tool of the agent with this name."""

    name = "Agent"
    aliases = ("Task",)
    input_type = NamedSubagentInput

    def __init__(self, caller: str, subagents: Subagents, *, allow_names: bool = True) -> None:
        """Create the tool. `allow_names`: its sub-agents may have names; those of a sub-agent have only ids."""
        self._caller = caller
        self._agents = subagents
        self.hidden_parameters = subagents.settings.hidden_parameters(allow_names=allow_names)

    def makes_known_change(self, call: NamedSubagentInput) -> bool:
        """Return True for an agent that runs in the background: the same job again is no new work."""
        return starts_in_background(self._agents, call)

    def can_rerun(self, call: NamedSubagentInput) -> bool:
        """Return True: a call that was interrupted finds its sub-agent and resumes it."""
        return True

    def summary(self, call: NamedSubagentInput) -> str:
        """Return the description of the sub-agent."""
        return call.summary()

    def access(self, call: NamedSubagentInput, ctx: ToolContext) -> Access:
        """Return the access; see SubagentInput.access."""
        return call.access(ctx)

    def is_read_only(self, call: NamedSubagentInput) -> bool:
        """Return True: several agents of one answer start together."""
        return True

    async def run(self, call: NamedSubagentInput, ctx: ToolContext) -> ToolResult:
        """Return the sub-agent's answer with its id and usage, or the fact that it runs in the background."""
        spec = call.spec(member_name(call.name) if call.name else "")
        return await run_subagent(self._agents, call, spec, self._caller, ctx)


class ForkingSubagentTool(SubagentTool):
    """The same tool where a call without type and agent starts a fork."""

    input_type = ForkingSubagentInput


def _refuse_fork_parameters(call: SubagentInput) -> None:
    """Raise UsageError for parameters that a fork has from its caller."""
    parameters = [name for name in _FIXED_BY_CALLER if getattr(call, name) is not None]
    if parameters:
        raise UsageError(
            "usage",
            f"a fork has its caller's settings: {', '.join(parameters)} cannot be given",
            do=["Leave that out, or name a subagent_type."],
            note="nothing was started",
        )


async def run_subagent(
    subagents: Subagents, call: SubagentInput, spec: SpawnSpec, caller: str, ctx: ToolContext
) -> ToolResult:
    """Run a sub-agent to its end or in the background. Return the result for its caller's model.

    Raises TeamwrightError when it cannot start.
    """
    if not call.prompt.strip():
        return _type_described(subagents, call, spec)
    background = _wants_background(subagents, call)
    if (directory := call.find_directory(ctx)) is not None:
        spec = replace(spec, cwd=directory)
    elif spec.fork and not spec.wants_worktree:
        spec = replace(spec, cwd=ctx.workplace.cwd)
    if not call.resume:
        return await run_spec(subagents, spec, caller, ctx, background=background)
    origin = CallRef(ctx.tool_use_id, ctx.key, ctx.is_rerun)
    background = subagents.runs_in_background(background)
    run = await _find_interrupted(subagents, caller, origin)
    if run is None:
        run = await subagents.resume(
            _find_resumed(subagents, call, caller), call.prompt, caller, origin, background=background
        )
    return await _wait_or_report(subagents, run, call.prompt, ctx)


def _wants_background(subagents: Subagents, call: SubagentInput) -> bool:
    return bool(call.run_in_background) or subagents.settings.fork


def starts_in_background(subagents: Subagents, call: SubagentInput) -> bool:
    """Return True when the sub-agent of this call runs in the background: by the call, the settings or its type."""
    if subagents.runs_in_background(_wants_background(subagents, call)):
        return True
    if call.resume or not subagents.settings.background:
        return False
    try:
        definition = subagents.builder.resolve(call.spec()).definition
    except TeamwrightError:  # nothing starts
        return False
    return definition is not None and definition.background


def _type_described(agents: Subagents, call: SubagentInput, spec: SpawnSpec) -> ToolResult:
    """Return the whole description of the type that the call names. Raises UsageError when it names none."""
    named = call.subagent_type and "subagent_type" in call.model_fields_set and not call.resume
    kind = agents.builder.resolve(spec).definition if named else None
    if kind is None:
        raise UsageError(
            "usage", "the prompt is empty", do=["Put the whole job into prompt."], note="nothing was started"
        )
    about = kind.description or "It has no description."
    text = f"Agent type {kind.name} ({kind.tools_in_words}): {about}\nNothing was started: the prompt is empty."
    return ToolResult(text, brief=f"the agent type {kind.name}")


async def run_spec(
    subagents: Subagents, spec: SpawnSpec, caller: str, ctx: ToolContext, *, background: bool = False
) -> ToolResult:
    """Start a new sub-agent. Return the result for its caller's model. Raises TeamwrightError when it cannot start."""
    origin = CallRef(ctx.tool_use_id, ctx.key, ctx.is_rerun)
    background = subagents.runs_in_background(background)
    run = await _find_interrupted(subagents, caller, origin) or await subagents.start(
        spec, caller, origin, background=background
    )
    return await _wait_or_report(subagents, run, spec.prompt, ctx)


async def _wait_or_report(subagents: Subagents, run: SubagentRun, prompt: str, ctx: ToolContext) -> ToolResult:
    waits = not run.background
    if waits and await subagents.wait_in_foreground(run):
        return _final_result(run, prompt)
    can_read = ctx.may_call("Read", Access(reads=(run.output_file,)))
    return _started_result(run, prompt, was_foreground=waits, can_read=can_read)


async def _find_interrupted(subagents: Subagents, caller: str, call: CallRef) -> SubagentRun | None:
    """Return the sub-agent of a call that a kill interrupted, to resume it in the foreground; None without one."""
    run = subagents.find_by_call(call.key) if call.is_rerun else None
    if run is None or run.background or run.state != "killed":
        return run
    return await subagents.resume(run, "", caller, call, background=False)


def _find_resumed(subagents: Subagents, call: SubagentInput, caller: str) -> SubagentRun:
    """Return the sub-agent to resume. Raises UsageError, TeamRefused."""
    parameters = [name for name in _FIXED_AT_START if name in call.model_fields_set and getattr(call, name) is not None]
    if parameters:
        raise UsageError(
            "usage",
            f"a resumed agent keeps its settings: {', '.join(parameters)} cannot be given with resume",
            do=["Leave that out, or start a new one without resume."],
            note="nothing was started",
        )
    run = find_subagent(subagents, call.resume or "", caller)
    if run.is_running:
        raise is_running_error(run)
    return run


def _started_result(run: SubagentRun, prompt: str, *, was_foreground: bool, can_read: bool) -> ToolResult:
    how = "continues in the background" if was_foreground else "runs in the background"
    file, says = (f"output_file: {run.output_file}\n", "The file has its text so far. ") if can_read else ("", "")
    text = (
        f"The sub-agent {how}.\nagentId: {run.id}\n{file}"
        f"You are notified when it ends: continue with other work, or end your turn. {says}"
        f'SendMessage with to "{run.id}" gives it more instructions; TaskStop ends it.'
    )
    facts = background_facts(run, prompt, can_read=can_read)
    return ToolResult(text, brief=f"{run.id} in the background", facts=facts)


def _final_result(run: SubagentRun, prompt: str) -> ToolResult:
    if run.error is not None and not run.text:
        raise run.error
    about = f"agentId: {run.id}\n<usage>{usage_text(run)}</usage>"
    facts = result_facts(run, prompt)
    if run.state == "completed":
        return ToolResult([text_block(run.text or "(no text)"), text_block(about)], brief="answered", facts=facts)
    if not run.text:
        again = f'Call Agent once more with resume "{run.id}" to continue it, or do the job yourself.'
        do = (
            again
            if may_continue(run)
            else "Another try would end in the same way. Do the job yourself, or report why not."
        )
        return ToolResult.error(f"The sub-agent {run.id} failed: {run.failure_reason}.", do)
    note = f"The sub-agent did not finish: {run.failure_reason}. This is what it had said:"
    return ToolResult(
        [text_block(note), text_block(run.text), text_block(about)], brief=run.failure_reason, facts=facts
    )


_ALIASES = {"Agent": ("Task",)}
_REASONS = {
    "Agent": "A fork starts no agents",
    "SendMessage": "A fork sends no messages",
    "AskUserQuestion": "A fork asks no questions",
}


class AnyToolInput(ToolInput):
    """Any input; it is ignored."""

    model_config = ConfigDict(extra="allow")


class ForbiddenInFork(Tool[AnyToolInput]):
    """A tool that only the fork's caller has."""

    input_type = AnyToolInput

    def __init__(self, name: str) -> None:
        self.name = name
        self.aliases = _ALIASES.get(name, ())

    @property
    def description(self) -> str:
        """An empty description: the prefix has the caller's."""
        return ""

    def is_read_only(self, call: AnyToolInput) -> bool:
        """Return True: it does nothing."""
        return True

    async def run(self, call: AnyToolInput, ctx: ToolContext) -> ToolResult:
        """Return the refusal."""
        why = _REASONS.get(self.name, f"A fork does not have {self.name}")
        return ToolResult.error(
            f"{why}; nothing was done.", "Do your job yourself; what others should know or do goes into your report."
        )
