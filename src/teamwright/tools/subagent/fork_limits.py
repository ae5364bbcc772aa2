"""Tools that a fork cannot use: its prefix, which is its caller's, names them, and it does not have them."""

from __future__ import annotations

from pydantic import ConfigDict

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput

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
