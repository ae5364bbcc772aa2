"""ListAgents: who is there, in what state, waiting for what."""

from __future__ import annotations

from teamwright.agent.tool import NoInput, Tool, ToolContext, ToolResult
from teamwright.protocol.clock import now_ms
from teamwright.protocol.ids import LEAD
from teamwright.tools.team.caller import Caller, json_result


class ListAgents(Tool[NoInput]):
    """The members of the team with their state."""

    name = "ListAgents"

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def read_only(self, call: NoInput) -> bool:
        """It only looks."""
        return True

    async def run(self, call: NoInput, ctx: ToolContext) -> ToolResult:
        """One object a member: state, what it waits for, seconds since its last step, open tasks, model, tokens."""
        team = self._caller.team
        if not team.exists:
            return json_result({"members": []}, "no team")
        tasks = await team.tasks.all()
        members: list[dict[str, object]] = [{"name": LEAD, "type": "lead", "you": self._caller.is_lead}]
        for mate in team.live:
            one = {
                "name": mate.name,
                "type": mate.agent_type,
                "state": str(mate.state),
                "waiting_for": mate.waiting_on or None,
                "last_step_s_ago": max(0, now_ms() - mate.last_active_ms) // 1000,
                "open_tasks": [t.id for t in tasks if t.owner == mate.name and t.status != "completed"],
                "model": mate.model,
                "tokens": mate.usage.tokens,
                "you": mate.name == self._caller.name,
            }
            members.append({key: value for key, value in one.items() if value not in (None, [], False)})
        return json_result({"team_name": team.name, "members": members}, f"{len(members)} members")
