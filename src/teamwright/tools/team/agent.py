"""The Agent tool (alias Task): starts a sub-agent that answers once or, with a name, a teammate.

Both ways share one specification and one resolver. An unavailable parameter is not in the schema, so that passing it is
an error.
"""

from __future__ import annotations

from msgspec.structs import replace
from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.backends.choice import TMUX
from teamwright.permissions.verdict import Access
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.members import IN_PROCESS
from teamwright.subagents.registry import Subagents
from teamwright.team_records.spawn_spec import REMOTE, SpawnSpec
from teamwright.teams.backend import ShownLocation
from teamwright.teams.spawn import spawn
from teamwright.teams.team_creation import ensure_team
from teamwright.tools.caller import Caller
from teamwright.tools.subagent.agent_without_team import TYPE_OR_FORK, SubagentInput, run_subagent, starts_in_background


class AgentInput(SubagentInput):
    """Parameters for sub-agents and teammates."""

    name: str | None = Field(None, description="Name of a new teammate.")
    team_name: str | None = None

    def summary(self) -> str:
        """Return what starts; see SubagentInput.summary."""
        if not self.name:
            return super().summary()
        return f"starts {self.name}: {self.description}{'' if self.cwd is None else f' (in {self.cwd})'}"

    def access(self, ctx: ToolContext) -> Access:
        """Return the access; see SubagentInput.access. It says whether a teammate starts."""
        return replace(super().access(ctx), starts_teammate=bool(self.name))


class ForkingAgentInput(AgentInput):
    """The same parameters where a call without type and agent starts a fork."""

    subagent_type: str | None = Field(None, description=TYPE_OR_FORK)

    @property
    def is_fork(self) -> bool:
        """True when the call asks for a fork; see SubagentInput.is_fork."""
        return not (self.subagent_type or self.name or self.resume)


class AgentTool(Tool[AgentInput]):
    """The Agent tool of its caller."""

    name = "Agent"
    aliases = ("Task",)
    input_type = AgentInput

    def __init__(self, caller: Caller, subagents: Subagents) -> None:
        self._caller = caller
        self._agents = subagents
        self.hidden_parameters = subagents.settings.hidden_parameters()

    def summary(self, call: AgentInput) -> str:
        """Return the line for people."""
        return call.summary()

    def access(self, call: AgentInput, ctx: ToolContext) -> Access:
        """Return the access; see AgentInput.access."""
        return call.access(ctx)

    def is_read_only(self, call: AgentInput) -> bool:
        """Return True: several agents of one answer start together."""
        return True

    def makes_known_change(self, call: AgentInput) -> bool:
        """Return True for an agent that runs in the background: the same job again is no new work."""
        return bool(call.name) or starts_in_background(self._agents, call)

    def can_rerun(self, call: AgentInput) -> bool:
        """Return True: a call starts a teammate once, and resumes its sub-agent."""
        return True

    async def run(self, call: AgentInput, ctx: ToolContext) -> ToolResult:
        """Return the teammate's id, or the sub-agent's answer with its id and usage."""
        if call.name:
            _refuse_subagent_parameters(call)
            spec = replace(call.spec(call.name), call=ctx.key, cwd=call.find_directory(ctx))
            return await self._start_teammate(spec, call.team_name)
        if call.team_name:
            raise UsageError(
                "usage",
                "team_name is for a teammate, and a teammate needs a name",
                do=["Give it a name, or leave team_name out for a sub-agent."],
                note="nothing was started",
            )
        return await run_subagent(self._agents, call, call.spec(), self._caller.name, ctx)

    async def _start_teammate(self, spec: SpawnSpec, team_name: str | None) -> ToolResult:
        team = self._caller.team
        if team_name and team_name not in {team.name, team.directory}:
            if self._caller.is_lead:
                await ensure_team(team, team_name)
            if team_name != team.name:
                raise TeamRefused(
                    "team-refused",
                    f"your team is {team.name!r}, not {team_name!r}",
                    do=["Leave team_name out."],
                    note="nothing was started",
                )
        teammate = await spawn(team, spec, self._caller.name)
        facts = {
            "status": "remote_launched" if teammate.shown_location.backend.startswith(REMOTE) else "teammate_spawned",
            "prompt": spec.prompt,
            "teammate_id": f"{teammate.name}@{team.name}",
            "agent_id": f"{teammate.name}@{team.name}",
            "agent_type": spec.agent_type,
            "model": teammate.model,
            "name": teammate.name,
            "color": teammate.color,
            "team_name": team.name,
            **_location_facts(teammate.shown_location),
        }
        back = f"{_RESUMED_TEXT.format(crash=teammate.crash_cause)}\n" if teammate.crash_cause else ""
        text = (
            f"{teammate.name} is running.\n{back}agent_id: {teammate.name}@{team.name}\n"
            f"name: {teammate.name}\nteam_name: {team.name}\n"
            f"model: {teammate.model}\n{_location_line(teammate.shown_location)}"
            "It has your prompt. You are notified when it reports."
        )
        return ToolResult(text, facts=facts)


class ForkingAgentTool(AgentTool):
    """The same tool where a call without type and agent starts a fork."""

    input_type = ForkingAgentInput


_RESUMED_TEXT = (
    "It had ended ({crash}) and continues its conversation, with the type, model and mode that it had. Its tasks were "
    "handed back: give it again what it is to do."
)
"""The text for the model when the call resumed a member that had crashed."""


def _location_facts(location: ShownLocation) -> dict[str, str]:
    """Return the member's backend and the reason for it; in tmux also the id of its pane."""
    facts = {
        "backend": location.backend,
        "place": str(location),
        "place_note": location.note,
        "place_why": location.why,
    }
    if location.backend.startswith(REMOTE):
        return facts | {"worker": location.id}
    return facts | ({"tmux_pane_id": location.id} if location.backend == TMUX else {})


def _location_line(location: ShownLocation) -> str:
    """Return the backend as a line for the model, when it is not in-process."""
    if location.backend == IN_PROCESS:
        return ""
    details = "; ".join(
        part for part in (location.note, f"auto chose it: {location.why}" if location.why else "") if part
    )
    return f"place: {location}" + (f" ({details})" if details else "") + "\n"


def _refuse_subagent_parameters(call: AgentInput) -> None:
    """Raise UsageError for parameters that only a sub-agent takes."""
    if call.resume:
        raise UsageError(
            "usage",
            "resume is for a sub-agent, and name makes a teammate",
            do=["Leave name out. A teammate that has ended comes back with a new Agent of its name."],
            note="nothing was started",
        )
    if call.run_in_background is False:
        raise UsageError(
            "usage",
            "a call never waits for a teammate: it works beside you",
            do=["Leave run_in_background out, or leave name out for a sub-agent."],
            note="nothing was started",
        )
