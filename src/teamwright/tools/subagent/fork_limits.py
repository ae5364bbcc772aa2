"""What a fork cannot do: tools of its caller that its prefix names, for it is the same one, and that it does not have.

Knows names. Whether an agent is a fork is known above.
"""

from __future__ import annotations

from pydantic import ConfigDict

from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult

_ALIASES = {"Agent": ("Task",)}
_REASONS = {
    "Agent": "A fork starts no agents",
    "SendMessage": "A fork sends no messages",
    "AskUserQuestion": "A fork asks no questions",
}


class AnyToolInput(ToolInput):
    """Whatever was given: nothing is done with it."""

    model_config = ConfigDict(extra="allow")


class ForbiddenInFork(Tool[AnyToolInput]):
    """A tool of a fork's caller."""

    input_type = AnyToolInput

    def __init__(self, name: str) -> None:
        self.name = name
        self.aliases = _ALIASES.get(name, ())

    @property
    def description(self) -> str:
        """The prefix has the caller's."""
        return ""

    def is_read_only(self, call: AnyToolInput) -> bool:
        """It does nothing."""
        return True

    async def run(self, call: AnyToolInput, ctx: ToolContext) -> ToolResult:
        """The refusal."""
        why = _REASONS.get(self.name, f"A fork does not have {self.name}")
        return ToolResult.error(
            f"{why}; nothing was done.", "Do your job yourself; what others should know or do goes into your report."
        )
