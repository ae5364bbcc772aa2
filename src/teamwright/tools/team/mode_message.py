"""The message type set_mode: the lead sets the permission mode of a member."""

from __future__ import annotations

from teamwright.agent.tool import ToolResult
from teamwright.permissions.decide import parse_mode
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.ids import LEAD
from teamwright.teams.permission_mode_change import set_mode
from teamwright.tools.caller import Caller, json_result


async def set_member_mode(caller: Caller, to: str, mode: str) -> ToolResult:
    """Set a member's mode. Raises TeamRefused for another caller than the lead, UsageError for all members at once."""
    if not caller.is_lead:
        raise TeamRefused("team-refused", "only the lead sets the mode of a member", note="nothing was changed")
    if to.strip() == "*":
        raise UsageError(
            "usage",
            "a mode is set for one member at a time",
            do=["Send one set_mode to each."],
            note="nothing was changed",
        )
    change = await set_mode(caller.team, to, parse_mode(mode, "set_mode"), LEAD)
    body = {"success": True, "message": f"{change}.", "target": change.member, "mode": str(change.mode)}
    return json_result(body, f"mode {change.mode} → {change.member}")
