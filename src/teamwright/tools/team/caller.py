"""What the tools of a team share: who is calling, and the team it belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from teamwright.agent.tool import ToolResult
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.teams.team import Team


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a tool acts for: set by the runtime when the agent is made, never by the model."""

    name: str
    team: Team

    @property
    def is_lead(self) -> bool:
        """Whether the lead calls."""
        return self.name == LEAD


def json_result(body: Mapping[str, Any], brief: str) -> ToolResult:
    """A result as 2-space JSON (as observed), with a line for people."""
    return ToolResult(json.dumps(body, indent=2, ensure_ascii=False), brief=brief, facts=body)
