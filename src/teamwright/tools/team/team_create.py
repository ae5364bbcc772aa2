"""The TeamCreate tool: the lead creates a team."""

from __future__ import annotations

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.protocol.errors import TeamRefused
from teamwright.teams.team_creation import create_team
from teamwright.tools.caller import Caller, json_result


class TeamCreateInput(ToolInput):
    """Parameters as observed."""

    team_name: str = Field(description="Short name, e.g. release-review.")
    description: str | None = Field(None, description="Purpose of the team.")
    agent_type: str | None = Field(None, description="Your role.")


class TeamCreate(Tool[TeamCreateInput]):
    """The TeamCreate tool of this session's lead."""

    name = "TeamCreate"
    input_type = TeamCreateInput

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def makes_known_change(self, call: TeamCreateInput) -> bool:
        """Return True: a team of that name is there."""
        return True

    def can_rerun(self, call: TeamCreateInput) -> bool:
        """Return True: a repeated call returns the team that exists."""
        return True

    def summary(self, call: TeamCreateInput) -> str:
        """Return the team's name."""
        return f"create team {call.team_name}"

    async def run(self, call: TeamCreateInput, ctx: ToolContext) -> ToolResult:
        """Create the team. The result has the keys of the other product."""
        team = self._caller.team
        before = team.directory
        try:
            config = await create_team(team, call.team_name, call.description, call.agent_type)
        except TeamRefused:
            if not team.directory or team.implicit:
                raise
            config = await team.roster.read()  # a session has one team: the call returns it under its name
        body = {
            "team_name": config.name,
            "team_file_path": team.roster.document.place,
            "lead_agent_id": config.lead_agent_id,
        }
        moved = [task.id for task in await team.tasks.all() if task.status != "completed"]
        if before == team.directory and not ctx.is_rerun:
            body["note"] = f'You lead the team "{config.name}" already: use it. Nothing was created.'
        elif moved:
            body["note"] = "The session's open tasks are on the team's list now: " + ", ".join(f"#{i}" for i in moved)
        return json_result(body, f"team {config.name}")
