"""The MCP servers of a session: the tools that an agent gets, and the servers that must run before.

The package `mcp` is imported with the first server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from teamwright.agent.agent_type import AgentType, covers
from teamwright.agent.tool import AnyTool
from teamwright.agent.toolbox import Toolbox
from teamwright.config.settings.settings import McpSettings
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.ids import nearest
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings
from teamwright.session.process_state import ServerStatus, write_servers

if TYPE_CHECKING:
    from teamwright.mcp.server import McpServer
    from teamwright.mcp.server_config import ConfigSource, ServerConfig
    from teamwright.mcp.session_servers import McpServerPool
    from teamwright.session.agents.agent_workspace import AgentWorkspace


CALL = "McpCall"


class SessionMcpServers(Struct):
    """The servers of one session. `make_pool` creates their pool when the first one is needed.

    `read` returns the configured servers, and lines about those left out. `source` returns the rules for reading the
    servers of an agent type.
    """

    settings: McpSettings
    directory: Path
    make_pool: Callable[[SessionMcpServers], McpServerPool]
    read: Callable[[], tuple[list[ServerConfig], list[str]]]
    source: Callable[[AgentType], ConfigSource]
    warn: Callable[[str], None]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    configs: Sequence[ServerConfig] = ()
    _servers: McpServerPool | None = None
    _reported_lines: set[str] = field(default_factory=set[str])

    def load(self) -> list[str]:
        """Read the configured servers, once the directory in which agents work is known. Return lines about those left
        out. Raises UsageError for a flag.
        """
        self.configs, left_out = self.read()
        return left_out

    @property
    def servers(self) -> McpServerPool:
        """The pool of servers."""
        if self._servers is None:
            self._servers = self.make_pool(self)
            for line in self._servers.add(self.configs):
                self.warn(line)
        return self._servers

    async def tools_of(
        self,
        kind: AgentType | None,
        allowed: Callable[[str], bool],
        place: AgentWorkspace | None = None,
        bounds: SandboxSettings = UNBOUNDED,
        *,
        compact: bool = False,
    ) -> list[AnyTool]:
        """Return the servers' tools for a new agent; `allowed` says which names it may have, `place` is its worktree.

        `bounds` are those of its commands in the sandbox, and of the servers that its type defines. `compact`: for the
        compact prompt.

        Servers whose tools are unknown are waited for, a few seconds. Raises UsageError, CannotStart for servers that
        the agent type needs.
        """
        if not self.configs and (kind is None or not (kind.mcp_servers or kind.required_mcp_servers)):
            return []
        servers = [server for server in self._of(kind, place, bounds) if self._visible(server, kind, allowed)]
        if kind is not None and kind.required_mcp_servers:
            await self.require(kind.required_mcp_servers, servers)
        await self.servers.wait_for_tools(servers, self.settings.wait_s)
        servers = [server for server in servers if self._visible(server, kind, allowed)]
        no_call = covers(() if kind is None else kind.disallowed_tools, CALL)
        return self._make_tools(servers, allowed, no_call=no_call, compact=compact)

    async def require(self, names: Iterable[str], among: Sequence[McpServer] = ()) -> None:
        """Wait until these servers run. Raises UsageError for an unknown server, CannotStart for one that fails."""
        from teamwright.mcp.json_rpc import McpServerError
        from teamwright.mcp.session_servers import REQUIRED_S

        every = among or self.servers.shared
        required: list[McpServer] = []
        for name in names:
            found = next((one for one in every if name in {one.name, one.config.key}), None)
            if found is None:
                raise _missing(name, [one.name for one in every])
            required.append(found)
        await self.servers.wait_for_tools(required, REQUIRED_S)
        for server in required:
            if server.tools is None and server.state == "starting":
                raise _failed(server, f"was not ready in {REQUIRED_S:g} s")
            try:
                await server.connect()
            except McpServerError as problem:
                raise _failed(server, problem.what) from None

    def _of(self, kind: AgentType | None, place: AgentWorkspace | None, bounds: SandboxSettings) -> list[McpServer]:
        """Return the shared servers, and the agent type's own in place of shared ones of the same name.

        Those that run in the agent's worktree have a process there.
        """
        from teamwright.mcp.server_config import parse_servers

        servers = {server.config.key: server for server in self.servers.shared}
        if kind is None or not kind.mcp_servers:
            return [self._in_place(server, place) for server in servers.values()]
        defined = {name: entry for name, entry in kind.mcp_servers.items() if entry}
        configs, problems = parse_servers(defined, self.source(kind))
        for name, entry in kind.mcp_servers.items():
            if not entry and self.servers.find(name) is None:
                problems.append(f"an agent's definition names the MCP server {name!r}: there is none")
        for line in problems:
            if line not in self._reported_lines:
                self._reported_lines.add(line)
                self.warn(line)
        for config in configs:
            servers[config.key] = self.servers.own_server(config.narrow_to(bounds))
        return [self._in_place(server, place) for server in servers.values()]

    def find(self, name: str, place: AgentWorkspace | None) -> McpServer | None:
        """Return the shared server of that name, as an agent in that worktree has it; None when there is none."""
        if not self.configs or (server := self.servers.find(name)) is None:
            return None
        return self._in_place(server, place)

    def _in_place(self, server: McpServer, place: AgentWorkspace | None) -> McpServer:
        """Return the server, or its process in the worktree of an agent if it runs there."""
        if place is None or not server.config.is_per_worktree:
            return server
        return self.servers.own_server(server.config.move_to(place.scope.tree, place.cwd))

    async def leave_worktree(self, worktree: Path) -> None:
        """Close the processes in a worktree whose agent has ended."""
        if self._servers is not None:
            await self._servers.close_worktree(worktree)

    def _visible(self, server: McpServer, kind: AgentType | None, allowed: Callable[[str], bool]) -> bool:
        """Return True when an agent may have any of its tools, as far as they are known."""
        if server.tools:
            return any(allowed(tool.name) for tool in server.tools)
        begins = f"mcp__{server.config.key}"
        named = kind.tools or () if kind is not None else ()
        return allowed(f"{begins}__any") or any(name.startswith(begins) for name in named)

    def _make_tools(
        self, servers: Sequence[McpServer], allowed: Callable[[str], bool], *, no_call: bool, compact: bool
    ) -> list[AnyTool]:
        if not servers:
            return []
        from teamwright.session.wiring.server_tools import ServerToolSet  # loads the tools of servers

        return ServerToolSet(servers, allowed, lambda: self.settings, has_call=not no_call).tools(compact)

    async def exchange(self, configs: Sequence[ServerConfig], settings: McpSettings) -> None:
        """Change the servers: agents get new tools with their next prefix, and lose those of removed servers at
        once.
        """
        self.configs = configs
        self.settings = settings
        if self._servers is not None:
            for line in await self._servers.replace_all(configs):
                self.warn(line)
        self.note()

    def note(self) -> None:
        """Save the state of the servers, for other processes."""
        write_servers(self.directory, self.views())

    def views(self) -> list[ServerStatus]:
        """Return the state of the servers, without starting or importing anything."""
        if self._servers is None:
            return [ServerStatus(one.name, one.kind, "asleep", source=one.source) for one in self.configs]
        return [
            ServerStatus(
                server.name,
                server.config.kind,
                server.state,
                len(server.tools) if server.tools is not None else None,
                server.pid,
                server.problem,
                server.config.source,
            )
            for server in self._servers.all
        ]

    async def close(self) -> None:
        """End all servers. May be called twice."""
        if self._servers is not None:
            await self._servers.close()


OTHER_TOOLS = frozenset({"ListMcpResources", "ReadMcpResource"})
"""Tools about servers whose names are not those of server tools."""


def renew_mcp_tools(toolbox: Toolbox, *, compact: bool) -> None:
    """Give the agent the tools that its servers list now, at a new prefix, full or compact."""
    again = next((getattr(tool, "rebuild", None) for tool in toolbox.tools if tool.name == CALL), None)
    if again is not None:
        toolbox.set_tools(
            [*(tool for tool in toolbox.tools if tool.name != CALL and not is_mcp_tool(tool)), *again(compact)]
        )


def is_mcp_tool(tool: AnyTool) -> bool:
    """Return True for a tool of a server, or one about servers."""
    return is_mcp_tool_name(tool.name) or tool.name in OTHER_TOOLS


def is_mcp_tool_name(name: str) -> bool:
    """Return True for the name of a server's tool."""
    return name.startswith("mcp__")


def _missing(name: str, known: Sequence[str]) -> UsageError:
    close = nearest(name, known)
    looked_at = [("servers", ", ".join(known) or "none")]
    do = [f"did you mean {close}?" if close else "name it in mcpServers of your settings, or give --mcp-config"]
    return UsageError(
        "usage", f"there is no MCP server {name!r}", looked_at=looked_at, do=do, note="nothing was started"
    )


def _failed(server: McpServer, why: str) -> CannotStart:
    what = f'the MCP server "{server.name}" {server.config.mask_secrets(why)}'
    looked_at = [("runs", server.config.display_text), ("set in", server.config.source)]
    return CannotStart("mcp-failed", what, looked_at=looked_at, note="nothing was started")
