"""Resources of MCP servers that a person mentions in a prompt as `@server:uri`: read, and attached like files.

Depends on the servers of the session. A person names the resource, so its server is not asked about.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from teamwright.agent.tool import ToolContext
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import Block
from teamwright.protocol.time_limit import time_limit
from teamwright.session.options import ATTACHED_FILE
from teamwright.session.session import Session

if TYPE_CHECKING:
    from teamwright.mcp.server import McpServer

LISTING_S = 2.0
"""Seconds that a server may take to list its resources for a completion."""

_MENTION = re.compile(r"(?<![\w@/.])@([A-Za-z0-9_.-]+):([^\s\"'`<>|]+)")
_TAIL = ".,;:!?)]}…"


def find_mentions(session: Session, text: str) -> list[tuple[str, str]]:
    """Return server and URI of each resource that a prompt mentions, in their order. No server is started."""
    serving = session.agent_factory.toolset.serving
    names = {name for one in serving.configs for name in (one.name, one.key)}
    found = [(match[1], match[2].rstrip(_TAIL)) for match in _MENTION.finditer(text)]
    return list(dict.fromkeys((name, uri) for name, uri in found if name in names and uri))


async def read_mentions(session: Session, text: str) -> list[Block]:
    """Return the mentioned resources as attached files and images. Raises UsageError; then nothing was sent."""
    return [block for name, uri in find_mentions(session, text) for block in await _read(session, name, uri)]


async def _read(session: Session, name: str, uri: str) -> list[Block]:
    from teamwright.mcp.json_rpc import McpServerError
    from teamwright.tools.mcp_tool import to_tool_result
    from teamwright.tools.read_mcp_resource import resource_content

    server = _server(session, name)
    if server is None:
        return []
    try:
        result = await server.read_resource(uri)
    except McpServerError as problem:
        what = f'@{name}:{uri} cannot be attached: the MCP server "{server.name}" '
        raise UsageError("usage", what + server.config.mask_secrets(problem.what), note="nothing was sent") from None
    content = to_tool_result(resource_content(result), ToolContext(LEAD, session.lead.agent.toolbox.workplace)).content
    parts: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    address = f"{name}:{uri}"
    return [
        {"type": ATTACHED_FILE, "path": address, "text": part["text"]} if part["type"] == "text" else part
        for part in parts
    ]


async def complete_resource(session: Session, word: str) -> list[str]:
    """Return the resources, as `server:uri`, that begin with the text after an `@`. Only a running server is asked."""
    from teamwright.mcp.json_rpc import McpServerError

    name, colon, _ = word.partition(":")
    server = _server(session, name) if colon else None
    if server is None or server.state != "running":
        return []
    try:
        async with time_limit(LISTING_S):
            resources, _ = await server.list_resources()
    except (McpServerError, TimeoutError):
        return []
    uris = [cast("dict[str, Any]", one).get("uri") for one in resources if isinstance(one, dict)]
    return [f"{name}:{uri}" for uri in uris if isinstance(uri, str) and f"{name}:{uri}".startswith(word)]


def resource_servers(session: Session) -> list[str]:
    """Return the names of the servers that are known to have resources."""
    serving = session.agent_factory.toolset.serving
    if not serving.configs:
        return []
    return [one.name for one in serving.servers.shared if one.listing is not None and one.listing.has_resources]


def _server(session: Session, name: str) -> McpServer | None:
    serving = session.agent_factory.toolset.serving
    if not any(name in {one.name, one.key} for one in serving.configs):
        return None
    return serving.servers.find(name)
