"""All MCP servers of a session, by name, with bounded waits and one close for all.

Selects the tools that fit into an agent's prefix.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.mcp.server import McpServer, ServerContext
from teamwright.mcp.server_config import ServerConfig
from teamwright.mcp.tool_listing import ServedTool, parse_server_key

WAIT_S = 3.0
"""Seconds that the first agent waits for servers without a stored tool list."""

REQUIRED_S = 30.0
"""Seconds that an agent waits for servers that it requires."""


class PrefixRoom(Struct, frozen=True):
    """The room for server tools in a prefix: their number, and their bytes. Other tools are searched."""

    tools: int = 40
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
            namesake = self._by_key.get(config.key)
            if namesake is None:
                self._by_key[config.key] = McpServer(config, self.context)
            else:
                text = f"{config.source}: the MCP server {config.name!r} is left out: its tools would be called as"
                refused.append(f"{text} those of {namesake.name!r} of {namesake.config.source}")
        return refused

    async def replace_all(self, configs: Sequence[ServerConfig]) -> list[str]:
        """Replace the servers for every agent: unchanged ones keep running, missing ones are closed.

        Return lines about those with the same name in tools.
        """
        new_configs = {config.key: config for config in reversed(configs)}
        ended_servers = [server for key, server in self._by_key.items() if new_configs.get(key) != server.config]
        for server in ended_servers:
            del self._by_key[server.config.key]
        await asyncio.gather(*(server.close() for server in ended_servers))
        digests = {config.digest for config in configs}
        await self._close_own(lambda config: config.worktree is not None and config.digest not in digests)
        refused = self.add([config for config in configs if self._same(config) is None])
        self._by_key = {key: self._by_key[key] for key in dict.fromkeys(config.key for config in configs)}
        return refused

    def _same(self, config: ServerConfig) -> McpServer | None:
        known = self._by_key.get(config.key)
        return known if known is not None and known.config == config else None

    def own_server(self, config: ServerConfig) -> McpServer:
        """Return the server of an agent type: one process for all equal configurations."""
        same = self._by_key.get(config.key)
        if same is not None and same.config.digest == config.digest and config.worktree is None:
            return same
        key = f"{config.key}{config.digest}{config.worktree or ''}"
        found = self._own_servers.get(key)
        if found is None or found.state == "closed":
            found = self._own_servers[key] = McpServer(config, self.context)
        return found

    async def close_worktree(self, worktree: Path) -> None:
        """Close the processes in a worktree whose agent has ended."""
        await self._close_own(lambda config: config.worktree == worktree)

    async def _close_own(self, chosen: Callable[[ServerConfig], bool]) -> None:
        chosen_servers = {key: server for key, server in self._own_servers.items() if chosen(server.config)}
        for key in chosen_servers:
            del self._own_servers[key]
        await asyncio.gather(*(server.close() for server in chosen_servers.values()))

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
    """Select the tools of a prefix: all tools of a server or none, the servers with the fewest tools first.

    They are sorted, because a server may list them in another order each time it starts, and the prefix stays the same.
    The tools of the other servers are found by a search.
    """
    candidates = [(server, [tool for tool in server.tools or () if allowed(tool.name)]) for server in servers]
    left = room
    inside = set[int]()
    for at, (_, tools) in sorted(enumerate(candidates), key=lambda one: len(one[1][1])):
        rest = PrefixRoom(left.tools - len(tools), left.size - sum(tool.size for tool in tools))
        if rest.tools >= 0 and rest.size >= 0:
            left = rest
            inside.add(at)
    chosen = [(server, tool) for at, (server, tools) in enumerate(candidates) if at in inside for tool in tools]
    return sorted(chosen, key=lambda one: one[1].name)
