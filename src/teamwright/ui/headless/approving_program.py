"""The answers that a program gives to permission requests: a client of this process, or a tool of an MCP server.

It answers with the JSON of similar programs: `{"behavior": "allow", "updatedInput": {…}}` or `{"behavior": "deny",
"message": "…"}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from teamwright.mcp.json_rpc import McpServerError
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import RequestOpened
from teamwright.protocol.ids import LEAD
from teamwright.session.session import Session


class McpApprover:
    """The approver of `--permission-prompt-tool mcp__server__tool`. The session is set when it is open."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self._session: Session | None = None

    async def set_session(self, session: Session) -> None:
        """Set the session whose server has the tool, after starting that server. Raises UsageError without it."""
        self._session = session
        serving = session.agent_factory.toolset.serving
        servers = serving.servers.all if serving.configs else ()
        for server in servers:
            if self.tool.startswith(f"mcp__{server.config.key}__"):
                try:
                    await server.connect()
                except McpServerError as problem:
                    raise self._missing(f'the MCP server "{server.name}" {problem.what}') from None
        if self._find() is None:
            raise self._missing("no MCP server of this run has it")

    def _missing(self, why: str) -> UsageError:
        return UsageError(
            "usage",
            f"there is no tool {self.tool[:80]} for --permission-prompt-tool: {why}",
            do=["--permission-prompt-tool mcp__SERVER__TOOL --mcp-config FILE", "--permission-prompt-tool stdio"],
            note="nothing was sent",
        )

    def _find(self) -> tuple[Any, Any] | None:
        serving = self._session.agent_factory.toolset.serving if self._session is not None else None
        for server in serving.servers.all if serving is not None and serving.configs else ():
            if (tool := server.find_tool(self.tool)) is not None:
                return server, tool
        return None

    async def ask(self, event: RequestOpened) -> bool:
        """Ask the tool about a request, and give its answer."""
        found = self._find()
        if found is None:
            return await event.deny(f"{self.tool} is not there any more")
        server, tool = found
        try:
            result = await server.call_tool(tool.remote_name, request_fields(event))
            text = "".join(str(part.get("text", "")) for part in result.get("content") or ())
            answer = json.loads(text)
        except (McpServerError, ValueError, TypeError, AttributeError) as problem:
            return await event.deny(f"{self.tool} gave no answer: {problem}")
        return await answer_request(event, cast("dict[str, Any]", answer) if isinstance(answer, dict) else {})


def request_fields(event: RequestOpened) -> dict[str, Any]:
    """Return the tool, its input and its id, as an approving program reads them."""
    tool_input = {"questions": [dict(event.input)]} if event.kind == "question" else dict(event.input)
    fields: dict[str, Any] = {"tool_name": event.tool, "input": tool_input, "tool_use_id": event.tool_use_id}
    return fields if event.owner in ("", LEAD) else {**fields, "agent_id": event.owner}


async def answer_request(event: RequestOpened, answer: Mapping[str, Any]) -> bool:
    """Give a program's answer to the request. Anything but a clear yes is a no."""
    if answer.get("behavior") != "allow":
        known = answer.get("behavior") == "deny"
        return await event.deny(str(answer.get("message") or "") if known else "the approver gave no clear answer")
    changed = answer.get("updatedInput")
    tool_input: Mapping[str, Any] = cast("dict[str, Any]", changed) if isinstance(changed, dict) else {}
    if event.kind == "question":
        return await _answer_question(event, tool_input)
    updates: Any = answer.get("updatedPermissions") or ()
    return await event.allow(
        input=tool_input if tool_input and tool_input != dict(event.input) else None, updates=tuple(updates)
    )


async def _answer_question(event: RequestOpened, tool_input: Mapping[str, Any]) -> bool:
    answers = tool_input.get("answers")
    text = cast("dict[str, Any]", answers).get(str(event.input.get("question"))) if isinstance(answers, dict) else None
    if text is None:
        return await event.deny("the question was not answered")
    return await event.answer(", ".join(map(str, cast("list[Any]", text))) if isinstance(text, list) else str(text))
