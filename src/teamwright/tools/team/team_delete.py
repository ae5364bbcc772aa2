"""The TeamDelete tool: the lead ends its team; requests, mail and tasks go to the archive."""

from __future__ import annotations

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import NoInput
from teamwright.protocol.errors import TeamRefused
from teamwright.teams.shutdown import delete_team, finish_delete
from teamwright.tools.caller import Caller, json_result


class TeamDelete(Tool[NoInput]):
    """The TeamDelete tool. It refuses while a member runs or a task is open."""

    name = "TeamDelete"
    input_type = NoInput

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def makes_known_change(self, call: NoInput) -> bool:
        """Return True: the team is gone."""
        return True

    def can_rerun(self, call: NoInput) -> bool:
        """Return True: deleting a deleted team changes nothing."""
        return True

    def summary(self, call: NoInput) -> str:
        """Return the line for people."""
        return f"delete team {self._caller.team.name}"

    async def run(self, call: NoInput, ctx: ToolContext) -> ToolResult:
        """Delete the team, or name the members or tasks that prevent it."""
        team = self._caller.team
        if not team.exists and ctx.is_rerun and (name := await finish_delete(team)):
            return _deleted_result(name)
        if not team.exists:
            return json_result({"success": True, "message": "There is no team, so nothing to remove."}, "no team")
        name = team.name
        try:
            await delete_team(team)
        except TeamRefused as problem:
            refused = json_result({"success": False, "message": problem.for_model(), "team_name": name}, problem.what)
            return ToolResult(refused.content, is_error=True, brief=problem.what, facts=refused.facts)
        return _deleted_result(name)


def _deleted_result(name: str) -> ToolResult:
    message = f'The team "{name}" is gone; its mail and tasks are in the archive.'
    return json_result({"success": True, "message": message, "team_name": name}, f"team {name} deleted")
