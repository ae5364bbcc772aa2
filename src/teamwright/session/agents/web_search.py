"""The web search of a session: by the service of the model, by a command of the person, or by a tool of an MCP server.

A search by the service is a separate model request, booked for the agent that searches with the service's price of a
search. Depends on settings, models and budgets.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.budgets.budget_tracker import BudgetTracker
from teamwright.budgets.usage_meter import ask_beside
from teamwright.config.settings.settings import WebSearchSettings
from teamwright.models.endpoint import Endpoint
from teamwright.models.model import Model, Prefix, Reply, Request
from teamwright.protocol.errors import TeamRefused, UsageError
from teamwright.protocol.events import Emit
from teamwright.protocol.messages import Block, encode, message_text, text_block

if TYPE_CHECKING:
    from teamwright.agent.tool import AnyTool, ToolContext
    from teamwright.tools.web_search import WebSearchInput

USD_PER_SEARCH = 0.01
"""The price of one search by the service. https://platform.claude.com/docs/en/about-claude/pricing (2026-08)"""

SERVICE_TOOL = "web_search_20250305"
"""The search tool of the Messages API, in the version that all its models support."""

MAX_SEARCHES, MAX_TOKENS = 3, 4_096
COMMAND_TIMEOUT_S = 60.0
MAX_OUTPUT = 200_000

_PROVIDER, _ADDRESS = "anthropic", "https://api.anthropic.com"


class SessionSearch(Struct):
    """The search of one session. `model` is the model that searches, set when the first agent is built.

    `env` and `shell` are those of the person's command, which runs in `cwd`.
    """

    settings: WebSearchSettings
    budget_tracker: BudgetTracker
    emit: Emit
    cwd: Path
    env: Mapping[str, str]
    shell: str
    server_tools: Callable[[], Awaitable[Sequence[AnyTool]]]
    """Returns the tools of the session's MCP servers."""
    model: Model | None = None

    @property
    def uses_service(self) -> bool:
        """True when the service of the model searches."""
        endpoint: Endpoint | None = getattr(self.model, "endpoint", None)
        if endpoint is None or endpoint.provider != _PROVIDER or self.settings.service == "off":
            return False
        # Another address may be a gateway without the service's own tools.
        return self.settings.service == "on" or endpoint.base_url.startswith(_ADDRESS)

    @property
    def is_available(self) -> bool:
        """True when there is a way to search."""
        return bool(self.uses_service or self.settings.command or self.settings.tool)

    async def search(self, call: WebSearchInput, ctx: ToolContext) -> str:
        """Return what a search found. Raises TeamwrightError."""
        if self.uses_service and self.model is not None:
            return await self._ask_service(self.model, call, ctx.member)
        return await (self._run_command(call) if self.settings.command else self._call_tool(call, ctx))

    async def _ask_service(self, model: Model, call: WebSearchInput, member: str) -> str:
        prompt = f"Search the web for: {call.query}\n\nReport what the pages say, with facts, dates and numbers."
        message = encode({"role": "user", "content": [text_block(prompt)]})
        request = Request(_prefix(model, call), (message,), member, "search")
        try:
            answer = await ask_beside(model, request, self.budget_tracker, self.emit, _with_search_price)
        except TeamRefused as problem:
            what = f"the search failed: {problem.what}"
            raise TeamRefused("model-failed", what, note="nothing was found") from None
        return _report(answer.content)

    async def _run_command(self, call: WebSearchInput) -> str:
        from teamwright.processes.commands import ProcessCommand, ProcessOutput, run_command

        content = json.dumps(
            {"query": call.query, "allowed_domains": call.allowed_domains, "blocked_domains": call.blocked_domains},
            ensure_ascii=False,
        ).encode()
        command = ProcessCommand((self.shell, "-c", self.settings.command), self.cwd, self.env, input=content)
        output = ProcessOutput(MAX_OUTPUT)
        errors = ProcessOutput(MAX_OUTPUT)
        done = await run_command(command, output, errors, timeout_s=COMMAND_TIMEOUT_S)
        if done.timed_out or done.exit_code:
            why = "it took too long" if done.timed_out else f"exit code {done.exit_code}: {done.errors.strip()[-200:]}"
            raise UsageError("usage", f"the command of web_search.command failed: {why}", note="nothing was found")
        return done.output

    async def _call_tool(self, call: WebSearchInput, ctx: ToolContext) -> str:
        tool = next((one for one in await self.server_tools() if one.name == self.settings.tool), None)
        if tool is None:
            what = f"no MCP server has the tool {self.settings.tool!r} of web_search.tool"
            raise UsageError("usage", what, do=["teamwright check"], note="nothing was found")
        result = await tool.run(tool.input_type.model_validate({"query": call.query}), ctx)
        text = result.content if isinstance(result.content, str) else message_text(result.content)
        if result.is_error:
            raise UsageError("usage", f"the search failed: {text[:300]}", note="nothing was found")
        return text


def _prefix(model: Model, call: WebSearchInput) -> Prefix:
    tool: dict[str, Any] = {"type": SERVICE_TOOL, "name": "web_search", "max_uses": MAX_SEARCHES}
    for name in ("allowed_domains", "blocked_domains"):
        if domains := getattr(call, name):
            tool[name] = domains
            break  # the service takes one of the two
    return Prefix.build({"model": model.card.wire, "max_tokens": MAX_TOKENS, "tools": [tool]})


def _with_search_price(reply: Reply) -> Reply:
    """Return the reply with the price of its searches in its usage."""
    count = sum(block.get("type") == "server_tool_use" for block in reply.content)
    usd = None if reply.usage.usd is None else reply.usage.usd + count * USD_PER_SEARCH
    return replace(reply, usage=replace(reply.usage, usd=usd))


def _report(content: list[Block]) -> str:
    """Return the texts of an answer and its sources, each once."""
    sources: dict[str, str] = {}
    problems: list[str] = []
    for block in content:
        found: Any = block.get("content") if block.get("type") == "web_search_tool_result" else []
        if isinstance(found, dict):
            problems.append(str(cast("dict[str, Any]", found).get("error_code", "unknown error")))
        for row in cast("list[Any]", found) if isinstance(found, list) else []:
            page = cast("dict[str, Any]", row) if isinstance(row, dict) else dict[str, Any]()
            if url := str(page.get("url", "")):
                sources.setdefault(url, str(page.get("title", "")))
    lines = [message_text([block for block in content if block.get("type") == "text"])]
    lines += [f"[a search failed: {problem}]" for problem in problems]
    if sources:
        lines += ["Sources:", *(f"- {title}: {url}" for url, title in sources.items())]
    return "\n".join(lines)
