"""The WebSearch tool: a search of the web by the way that the session has, with the addresses of the sources.

The text is data of the found pages. The session implements the search.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pydantic import Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.verdict import Access
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.long_results import fit_result

SearchWeb: TypeAlias = Callable[["WebSearchInput", ToolContext], Awaitable[str]]
"""Returns what a search found. Raises TeamwrightError."""


class WebSearchInput(ToolInput):
    """Parameters of WebSearch."""

    query: str = Field(min_length=2, max_length=1_000, description="What to search for.")
    allowed_domains: list[str] = Field([], max_length=20, description="Only pages of these domains.")
    blocked_domains: list[str] = Field([], max_length=20, description="No pages of these domains.")


class WebSearch(Tool[WebSearchInput]):
    """The tool. `search` is the session's way to search."""

    name = "WebSearch"
    input_type = WebSearchInput

    def __init__(self, search: SearchWeb) -> None:
        self._search = search

    def is_read_only(self, call: WebSearchInput) -> bool:
        """Return True: a search changes nothing."""
        return True

    def summary(self, call: WebSearchInput) -> str:
        """Return the words that are searched for."""
        return call.query[:200]

    def access(self, call: WebSearchInput, ctx: ToolContext) -> Access:
        """Return an access for `WebSearch` rules: the words leave the machine, so a rule or a person allows it."""
        return Access(subject=call.query)

    async def run(self, call: WebSearchInput, ctx: ToolContext) -> ToolResult:
        """Return what was found. Raises TeamwrightError when the search failed."""
        found = await self._search(call, ctx)
        return ToolResult(fit_result(escape_tags(found.strip()), ctx) or "Nothing was found.", brief=call.query[:80])
