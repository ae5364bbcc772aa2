"""All MCP servers of a session, by name, with bounded waits and one close for all.

Selects the tools that fit into an agent's prefix.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from teamwright.mcp.server import McpServer, ServerContext
from teamwright.mcp.server_config import ServerConfig
from teamwright.mcp.tool_listing import ServedTool, parse_server_key

WAIT_S = 3.0
"""Seconds that the first agent waits for servers without a stored tool list."""

REQUIRED_S = 30.0
"""Seconds that an agent waits for servers that it requires."""


class PrefixRoom(Struct, frozen=True):
    """The room for server tools in a prefix: their number, and their bytes. Other tools are called by name."""

    tools: int = 60
    size: int = 24_000


class McpServerPool:
    """The servers of one session. `add` refuses a second one of the same name in tools."""

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        self._by_key: dict[str, McpServer] = {}
        self._own_servers: dict[str, McpServer] = {}
        self._closed = False

    @property
    def shared(self) -> tuple[McpServer, ...]:
        """The servers that every agent may use."""
        return tuple(self._by_key.values())

    @property
    def all(self) -> tuple[McpServer, ...]:
        """All servers, including those of single agent types."""
        return (*self._by_key.values(), *self._own_servers.values())

    def add(self, configs: Iterable[ServerConfig]) -> list[str]:
        """Add servers for every agent; return lines about those with the same name in tools."""
        refused: list[str] = []
        for config in configs:
            taken = self._by_key.get(config.key)
            if taken is None:
                self._by_key[config.key] = McpServer(config, self.context)
            else:
                text = f"{config.source}: the MCP server {config.name!r} is left out: its tools would be called as"
                refused.append(f"{text} those of {taken.name!r} of {taken.config.source}")
        return refused

    async def replace_all(self, configs: Sequence[ServerConfig]) -> list[str]:
        """Replace the servers for every agent: unchanged ones keep running, missing ones are closed.

        Return lines about those with the same name in tools.
        """
        wanted = {config.key: config for config in reversed(configs)}
        gone = [server for key, server in self._by_key.items() if wanted.get(key) != server.config]
        for server in gone:
            del self._by_key[server.config.key]
        await asyncio.gather(*(server.close() for server in gone))
        refused = self.add([config for config in configs if self._same(config) is None])
        self._by_key = {key: self._by_key[key] for key in dict.fromkeys(config.key for config in configs)}
        return refused

    def _same(self, config: ServerConfig) -> McpServer | None:
        known = self._by_key.get(config.key)
        return known if known is not None and known.config == config else None

    def own_server(self, config: ServerConfig) -> McpServer:
        """Return the server of an agent type: one process for all equal configurations."""
        same = self._by_key.get(config.key)
        if same is not None and same.config.digest == config.digest:
            return same
        found = self._own_servers.get(config.key + config.digest)
        if found is None:
            found = self._own_servers[config.key + config.digest] = McpServer(config, self.context)
        return found

    def find(self, name: str) -> McpServer | None:
        """Return the shared server of that name; None when there is none."""
        return next((server for server in self._by_key.values() if name in {server.name, server.config.key}), None)

    async def wait_for_tools(self, servers: Iterable[McpServer], wait_s: float = WAIT_S) -> None:
        """Wait until the tools of these servers are known, at most `wait_s` seconds from each one's start."""
        now = asyncio.get_running_loop().time
        waited: set[asyncio.Task[object]] = set()
        until = now()
        for server in servers:
            if server.tools is None and not self._closed and (starting := server.start()) is not None:
                waited.add(starting)
                until = max(until, server.started_at + wait_s)
        if waited and until > now():
            await asyncio.wait(waited, timeout=until - now())

    async def close(self) -> None:
        """Close all of them together. May be called twice."""
        self._closed = True
        closing = [server.close() for server in self.all if server.state != "closed"]
        for problem in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(problem, BaseException):
                raise problem


def find_server(servers: Sequence[McpServer], full_name: str) -> McpServer | None:
    """Return the server to which a full name of a tool belongs."""
    key = parse_server_key(full_name)
    return next((server for server in servers if server.config.key == key), None) if key else None


def select_for_prefix(
    servers: Sequence[McpServer], allowed: Callable[[str], bool], room: PrefixRoom
) -> list[tuple[McpServer, ServedTool]]:
    """Select the tools of a prefix: each server gets an equal share first, then the rest in their order."""
    wanted = [(s, [tool for tool in s.tools or () if allowed(tool.name)]) for s in servers]
    wanted = [(server, tools) for server, tools in wanted if tools]
    if not wanted:
        return []
    share = PrefixRoom(room.tools // len(wanted), room.size // len(wanted))
    taken = {tool.name for _, tools in wanted for tool in _select_first(tools, share)}
    every = [(server, tool) for server, tools in wanted for tool in tools]
    inside = [tool for _, tool in every if tool.name in taken]
    left = PrefixRoom(room.tools - len(inside), room.size - sum(tool.size for tool in inside))
    taken |= {tool.name for tool in _select_first([tool for _, tool in every if tool.name not in taken], left)}
    return [(server, tool) for server, tool in every if tool.name in taken]


def _select_first(tools: Iterable[ServedTool], room: PrefixRoom) -> list[ServedTool]:
    found: list[ServedTool] = []
    size = 0
    for tool in tools:
        if len(found) < room.tools and size + tool.size <= room.size:
            found.append(tool)
            size += tool.size
    return found
