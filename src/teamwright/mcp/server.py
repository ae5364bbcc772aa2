"""One server over a session: started at its first use, shared, started again a bounded number of times, ended once.

Whoever starts it, the start belongs to the server: a caller that is cancelled ends nothing but its own wait. What
goes wrong is reported once; callers get it as ServerTrouble. Knows no tool of ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from teamwright.mcp.client import Client
from teamwright.mcp.config import ServerConfig
from teamwright.mcp.listing import Listings, ServedTool, read_tools
from teamwright.mcp.peer import Clock, Message, Peer
from teamwright.mcp.stdio import Stdio, Surroundings
from teamwright.mcp.trouble import Refused, ServerTrouble
from teamwright.protocol.values import dataclass

Report: TypeAlias = Callable[[str, str], None]
"""Told what a person should know of a server: a sentence and `info` or `warning`."""

MOST_IN_A_ROW = 3
"""Starts that came to nothing, or were not followed by an answer to a call, after which it is not started again."""

MOST_STARTS = 20
"""Starts of one server in one session, whatever it does."""

LONGEST_CALL = 6
"""A call that shows progress may last so many times as long as one that is silent."""

MOST_RELISTED = 20


async def at_once() -> None:
    """The default for `Around.before`: nothing has to happen first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: for a start with greeting and list, for a call without a sign of it."""

    start_s: float = 30.0
    call_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Around:
    """What all servers of a session share. `before` is waited for before anything is started.

    `changed` is called when the state of a server is another one.
    """

    surroundings: Surroundings
    listings: Listings
    report: Report
    version: str
    limits: Limits = field(default_factory=Limits)
    before: Callable[[], Awaitable[object]] = at_once
    changed: Callable[[], None] = lambda: None


class Server:
    """One server. `state` is asleep, starting, running, failed or closed; `problem` says why it failed.

    `tools` is its list as known now, None when nobody knows it yet.
    """

    def __init__(self, config: ServerConfig, around: Around) -> None:
        self.config = config
        self.tools = around.listings.load(config.digest, config.key)
        self.state = "asleep"
        self.problem = ""
        self.pid = 0
        self.begun = 0.0
        """When its last start began, of the loop's clock; 0.0 before the first."""
        self._around = around
        self._client: Client | None = None
        self._starting: asyncio.Task[Client | ServerTrouble] | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self._relisting: asyncio.Task[None] | None = None
        self._reported: set[str] = set()
        self._starts = self._in_a_row = self._relisted = 0

    @property
    def name(self) -> str:
        """As its configuration calls it."""
        return self.config.name

    def find(self, full_name: str) -> ServedTool | None:
        """The tool of that full name, if its list is known and has it."""
        return next((tool for tool in self.tools or () if tool.name == full_name), None)

    @property
    def begin_again(self) -> bool:
        """Whether a call may start it once more."""
        return not self._refusal()

    def begin(self) -> asyncio.Task[Client | ServerTrouble] | None:
        """Start it, if that has not begun; the start that runs, None when it is running or must not be started."""
        if self._client is None and self._starting is None and not self._refusal():
            self.begun = asyncio.get_running_loop().time()
            self._starting = asyncio.create_task(self._start(), name=f"start of mcp {self.config.key}")
        return self._starting

    async def ready(self) -> Client:
        """The conversation with it, started if need be. Raises ServerTrouble."""
        if self._client is not None:
            return self._client
        starting = self.begin()
        if starting is None:
            raise ServerTrouble(self._refusal(), dead=True)
        made = await asyncio.shield(starting)
        if isinstance(made, ServerTrouble):
            raise made
        return made

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Message:
        """The result of a call as the server gave it. Raises ServerTrouble, Refused.

        A call that a dying server had is not made again: nobody knows how far it came.
        """
        client = await self.ready()
        limit = self.config.call_s or self._around.limits.call_s
        try:
            result = await client.call(tool, arguments, Clock(limit, LONGEST_CALL * limit))
        except Refused:
            self._in_a_row = 0
            raise
        self._in_a_row = 0
        return result

    async def close(self) -> None:
        """End it for good. Cancelled, it is killed."""
        self._become("closed")
        client, self._client = self._client, None
        running = [task for task in (self._starting, self._relisting) if task is not None]
        for task in running:
            task.cancel()
        if client is not None and client.peer.transport is not None:
            await client.peer.transport.close()
        if waited := [*running, *self._endings]:
            await asyncio.wait(waited)

    # ── starting ──────────────────────────────────────────────────────────────────────────────────────────────

    def _refusal(self) -> str:
        if self.state == "closed":
            return "is closed with the session"
        if self._in_a_row >= MOST_IN_A_ROW or self._starts >= MOST_STARTS:
            return f"failed {self._in_a_row or self._starts} times and is not started again in this session: " + (
                self.problem or "it gave no answer"
            )
        return ""

    async def _start(self) -> Client | ServerTrouble:
        self._starts += 1
        self._in_a_row += 1
        self._become("starting")
        peer = Peer(self._heard, self._broken)
        trouble: ServerTrouble
        try:
            await self._around.before()
            async with asyncio.timeout(self._around.limits.start_s):
                client = await self._connected(peer)
            if peer.broken:
                raise ServerTrouble(peer.broken, dead=True)
            self._client = client
            self._become("running")
            return client
        except TimeoutError:
            trouble = ServerTrouble(f"was not ready in {self._around.limits.start_s:g} s", dead=True)
        except ServerTrouble as problem:
            trouble = problem
        finally:
            self._starting = None
            if self._client is None:
                await self._ended(peer)
        self._failed(trouble.what)
        return trouble

    async def _connected(self, peer: Peer) -> Client:
        whole = Clock(self._around.limits.start_s, self._around.limits.start_s)
        if self.config.kind == "stdio":
            process = Stdio.start(self.config, self._around.surroundings, peer, self._garbage)
            self.pid = process.pid
        else:
            from teamwright.mcp.http import Http

            Http(self.config, peer)
        client = Client(peer, self._around.version)
        await client.greet(whole)
        self._listed(await client.tools(whole))
        return client

    def _listed(self, entries: list[object]) -> None:
        tools, refused = read_tools(self.config.key, entries)
        if refused:
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            self._report("tools", f"cannot offer {self.config.masked(refused[0])}{more}", "warning")
        if tools != self.tools:
            self._around.listings.keep(self.config.digest, self.name, tools)
        self.tools = tools

    # ── what comes by itself ──────────────────────────────────────────────────────────────────────────────────

    def _heard(self, method: str, params: Mapping[str, Any]) -> None:
        if method != "notifications/tools/list_changed" or self._client is None or self._relisted >= MOST_RELISTED:
            return
        if self._relisting is None:
            self._relisted += 1
            self._relisting = asyncio.create_task(self._relist(self._client), name=f"list of mcp {self.config.key}")

    async def _relist(self, client: Client) -> None:
        """Agents that are born from now on see the new list; prefixes that are there stay as they are."""
        try:
            self._listed(await client.tools(Clock(self._around.limits.start_s, self._around.limits.start_s)))
        except ServerTrouble as problem:
            self._report("list", f"has a new list of tools that it did not give: {problem.what}", "warning")
        finally:
            self._relisting = None

    def _broken(self, why: str) -> None:
        """The transport is of no use any more; who was waiting was told by the peer."""
        client, self._client = self._client, None
        if client is None or self.state == "closed":
            return  # the start that runs sees it, or nobody needs it any more
        ending = asyncio.create_task(self._ended(client.peer), name=f"end of mcp {self.config.key}")
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        self._failed(why)

    async def _ended(self, peer: Peer) -> None:
        self.pid = 0
        if peer.transport is not None:
            await peer.transport.close()

    def _garbage(self, line: str) -> None:
        text = f"prints what is no message to its stdout, which is left out: {self.config.masked(line)}"
        self._report("garbage", text, "info")

    def _failed(self, why: str) -> None:
        self.problem = self.config.masked(why)
        if self.state != "closed":
            self._become("failed")
            self._report(why, self.problem, "warning")

    def _report(self, what: str, text: str, level: str) -> None:
        """Once for each thing that can be said, however often it happens."""
        if what not in self._reported and len(self._reported) < MOST_STARTS:
            self._reported.add(what)
            self._around.report(f'the MCP server "{self.name}" {text}', level)

    def _become(self, state: str) -> None:
        if self.state != "closed" and self.state != state:
            self.state = state
            self._around.changed()
