"""The caller of a team tool, and the JSON form of these tools' results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from teamwright.agent.tool import ToolResult
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.teams.team import SessionTeam

_NAME = re.compile(rf"(?<![^@]){LEAD}(?=@|$)")
"""The lead's name in a value that is a name, an id (`team-lead@crew`) or a target (`@team-lead`)."""


class Caller(Struct, frozen=True):
    """The agent for which a tool acts: set by the runtime when the agent is created, never by the model."""

    name: str
    team: SessionTeam

    @property
    def is_lead(self) -> bool:
        """True when the lead calls."""
        return self.name == LEAD


def json_result(body: Mapping[str, Any], brief: str) -> ToolResult:
    """Return a result as 2-space JSON (as observed), with a line for people.

    The model reads `lead`; on the wire, and so in the facts for programs, the name is `team-lead`.
    """
    return ToolResult(json.dumps(_with_alias(body), indent=2, ensure_ascii=False), brief=brief, facts=body)


def _with_alias(value: Any) -> Any:
    match value:
        case dict():
            return {
                _NAME.sub(LEAD_ALIAS, key): _with_alias(part) for key, part in cast("dict[str, Any]", value).items()
            }
        case list():
            return [_with_alias(part) for part in cast("list[Any]", value)]
        case str():
            return _NAME.sub(LEAD_ALIAS, value)
        case _:
            return value
