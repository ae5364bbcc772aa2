"""A tool of an MCP server: the server's schema, permission rules by its name, and a call through the shared server."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ConfigDict

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.mcp.json_rpc import McpRequestError, McpServerError, plain_line
from teamwright.mcp.server import McpServer
from teamwright.mcp.tool_listing import ServedTool
from teamwright.permissions.verdict import Access
from teamwright.protocol.messages import Block, image_block, image_problem, image_type, text_block
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.tools.long_results import fit_result, save_content

MAX_IMAGES = 10
MAX_PARTS = 1_000

_FILE_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}")


def to_tool_result(result: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """Return the result of a call for the model."""
    texts: list[str] = []
    images: list[Block] = []
    content = result.get("content")
    parts = cast("list[object]", content)[:MAX_PARTS] if isinstance(content, list) else []
    for part in parts:
        _add_part(cast("Mapping[str, Any]", part) if isinstance(part, dict) else {}, texts, images, ctx)
    if not texts and not images and (structured_content := result.get("structuredContent")) is not None:
        texts.append(json.dumps(structured_content, ensure_ascii=False))
    text = fit_result(escape_tags("\n".join(texts)), ctx)
    is_error = result.get("isError") is True
    if not images:
        return ToolResult(text, is_error, brief=plain_line(text, 80) if is_error else "")
    return ToolResult([*([text_block(text)] if text else []), *images], is_error)


def _add_part(part: Mapping[str, Any], texts: list[str], images: list[Block], ctx: ToolContext) -> None:
    kind = part.get("type")
    if kind == "text":
        texts.append(str(part.get("text", "")))
    elif kind in {"image", "audio"}:
        _add_binary(part.get("data"), part.get("mimeType"), str(kind), texts, images, ctx)
    elif kind == "resource_link":
        about = plain_line(f"{part.get('name', '')} {part.get('description', '') or ''}")
        texts.append(f"[resource {plain_line(str(part.get('uri', '')))}] {about}".rstrip())
    elif kind == "resource" and isinstance(part.get("resource"), dict):
        inner = cast("Mapping[str, Any]", part["resource"])
        texts.append(f"[resource {plain_line(str(inner.get('uri', '')))}]")
        if isinstance(inner.get("text"), str):
            texts.append(inner["text"])
        else:
            _add_binary(inner.get("blob"), inner.get("mimeType"), "content", texts, images, ctx)
    else:
        texts.append(f"[something of the kind {plain_line(str(kind), 40)}, which is left out]")


def _add_binary(data: object, mime: object, what: str, texts: list[str], images: list[Block], ctx: ToolContext) -> None:
    kind = mime if isinstance(mime, str) else ""
    try:
        content = base64.b64decode(data, validate=False) if isinstance(data, str) else b""
    except (binascii.Error, ValueError):
        content = b""
    if not content:
        texts.append(f"[{what} that cannot be read, which is left out]")
        return
    image = image_type(content) if what == "image" or kind.startswith("image/") else None
    if image is not None and ctx.workplace.accepts_images and len(images) < MAX_IMAGES and not image_problem(content):
        images.append(image_block(image, base64.b64encode(content).decode()))
        return
    guessed = mimetypes.guess_extension(kind) or ".bin"
    ending = guessed if _FILE_SUFFIX.fullmatch(guessed) else ".bin"
    try:
        where = f"it is in {save_content(content, ending, ctx)}"
    except OSError as problem:
        where = f"it could not be kept: {problem.strerror}"
    texts.append(f"[{what} {plain_line(kind, 60)}, {len(content):,} bytes: {where}]")


_ANY_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {}}


class ServerToolInput(ToolInput):
    """Any input: the server checks it against its schema."""

    model_config = ConfigDict(extra="allow", defer_build=True)


class ServerTool(Tool[ServerToolInput]):
    """One tool of one server. `tool` is None before the server has sent its list; the call then finds it."""

    input_type = ServerToolInput

    def __init__(self, server: McpServer, name: str, tool: ServedTool | None) -> None:
        self.server = server
        self._tool = tool
        self._access = Access()
        self.name = name
        self.origin = f'the MCP server "{server.name}"'
        self.schema = _ANY_SCHEMA if tool is None else tool.schema

    @property
    def description(self) -> str:
        return escape_tags(self._tool.description) if self._tool is not None else ""

    def summary(self, call: ServerToolInput) -> str:
        """Return server, tool, and the arguments in short."""
        wire = self._tool.remote_name if self._tool is not None else self.name.rpartition("__")[2]
        return plain_line(f"{self.server.name}: {wire} {_json(call)}", 200)

    def preview(self, call: ServerToolInput, ctx: ToolContext) -> str:
        """Return the whole call, and the server that answers it."""
        return f"{self.summary(call)}\nserver {self.server.config.display_text}\n{_json(call, indent=2)}"

    def access(self, call: ServerToolInput, ctx: ToolContext) -> Access:
        """Return an unknown access: rules about the tool's name decide, else the mode.

        Hints of the server do not count.
        """
        return self._access

    async def run(self, call: ServerToolInput, ctx: ToolContext) -> ToolResult:
        """Call the tool. The server is started if it does not run."""
        name = self.server.name
        try:
            if (tool := self._tool) is None:
                await self.server.connect()
                tool = self.server.find_tool(self.name)
            if tool is None:
                names = [tool.remote_name for tool in self.server.tools or ()]
                return ToolResult.error(
                    f'The server "{name}" has no tool {self.name}.',
                    f"It has: {', '.join(names[:40])}." if names else "It has no tools.",
                )
            result = await self.server.call_tool(tool.remote_name, call.model_extra or {}, ctx.traceparent)
            return to_tool_result(result, ctx)
        except McpRequestError as problem:
            message = escape_tags(self.server.config.mask_secrets(problem.message))
            schema = json.dumps(self.schema, ensure_ascii=False)
            return ToolResult.error(
                fit_result(f'The server "{name}" refused the call: {message}', ctx),
                f"It takes: {schema}" if len(schema) < 4_000 else "Look at what its description says it takes.",
            )
        except McpServerError as problem:
            what = escape_tags(self.server.config.mask_secrets(problem.what))
            return ToolResult.error(f'The server "{name}" {what}.', _next_step(self.server, problem))


def _next_step(server: McpServer, problem: McpServerError) -> str:
    if not problem.is_dead:
        return "It is not known whether the call had an effect: check before you repeat it."
    if server.can_restart:
        return "If the call was underway, look what it did. The server is started again by your next call."
    return "Continue without it, and mention that in your answer."


def _json(call: ServerToolInput, indent: int | None = None) -> str:
    return json.dumps(call.model_extra or {}, ensure_ascii=False, indent=indent, default=str)
