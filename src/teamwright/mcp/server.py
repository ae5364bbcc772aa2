"""One MCP server during a session: started at its first use, shared, restarted a bounded number of times, closed once.

The start belongs to the server: a caller that is cancelled ends only its own wait. A failure is reported once; callers
get it as McpServerError. `ServerContext` has what all servers of a session share, `ServerLog` the messages of one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from teamwright.mcp.client import ClientTransport, McpClient
from teamwright.mcp.http_transport import HttpTransport, SseTransport
from teamwright.mcp.json_rpc import CallDeadline, JsonRpcPeer, McpRequestError, McpServerError, Message, plain_line
from teamwright.mcp.listing_store import ListingStore, ServerListing, parse_prompts
from teamwright.mcp.login_store import LoginMask, LoginStore
from teamwright.mcp.server_config import ServerConfig
from teamwright.mcp.stdio_transport import ServerEnvironment, StdioTransport
from teamwright.mcp.tool_listing import ServedTool, parse_tools
from teamwright.protocol.program_log import log_fact
from teamwright.protocol.time_limit import time_limit

if TYPE_CHECKING:
    from httpx2 import Auth


MAX_FAILED_STARTS = 3
"""Starts that failed, or that no answer to a call followed, after which it is not started again."""

MAX_STARTS = 20
"""Maximum number of starts of one server in one session."""

MAX_CALL_FACTOR = 6
"""A call with progress may last this many times as long as one without."""

MAX_RELISTED = 20
"""The most times that the lists of one server are read again in one session."""

MAX_WATCHED = 100
"""The most resources of one server whose changes are followed."""

_NAMED_TOOLS = 10
"""The most tools that cannot be offered and are named, each with its reason."""

LIST_CHANGES = frozenset({"notifications/tools/list_changed", "notifications/prompts/list_changed"})
"""Notifications after which the lists are read again."""

LOG_LEVEL = "warning"
"""The least level of log messages that servers are asked for."""

T = TypeVar("T")


class McpServer:
    """One server. `state` is asleep, starting, running, failed or closed; `problem` says why it failed.

    `listing` has its current lists, None while they are unknown.
    """

    def __init__(self, config: ServerConfig, context: ServerContext) -> None:
        self.config = config
        self.listing = context.listings.load(config.digest, config.key) if config.kind != "sdk" else None
        self.state = "asleep"
        self.problem = ""
        self.pid = 0
        self.started_at = 0.0
        """The time of its last start, in seconds of the loop's clock; 0.0 before the first."""
        self._context = context
        self._client: McpClient | None = None
        self._starting: asyncio.Task[McpClient | McpServerError] | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self._relisting: asyncio.Task[None] | None = None
        self._finishing: asyncio.Task[None] | None = None
        self._reported: set[str] = set()
        self._changes: dict[str, int] = {}
        self._roots: tuple[str, ...] | None = None
        self._log = ServerLog(context.environment.logs / f"{config.log_name}-messages.log")
        self._login_mask: LoginMask | None = None
        self._starts = 0
        self._failed_starts = 0
        self._relisted = 0

    @property
    def name(self) -> str:
        """The name in its configuration."""
        return self.config.name

    @property
    def tools(self) -> tuple[ServedTool, ...] | None:
        """Its current tools, None while they are unknown."""
        return None if self.listing is None else self.listing.tools

    def find_tool(self, full_name: str) -> ServedTool | None:
        """Return the tool of that full name, if its list is known and contains it."""
        return next((tool for tool in self.tools or () if tool.name == full_name), None)

    @property
    def can_restart(self) -> bool:
        """True when a call may start it once more."""
        return not self._refusal()

    def start(self) -> asyncio.Task[McpClient | McpServerError] | None:
        """Start it, unless a start runs already; return the running start, None when it is running or must not be
        started."""
        if self._client is None and self._starting is None and not self._refusal():
            self.started_at = asyncio.get_running_loop().time()
            self._starting = asyncio.create_task(self._run_start(), name=f"start of mcp {self.config.key}")
        return self._starting

    async def connect(self) -> McpClient:
        """Return the client, after a start if needed. Raises McpServerError."""
        if self._client is not None:
            return self._client
        starting = self.start()
        if starting is None:
            raise McpServerError(self._refusal(), dead=True)
        result = await asyncio.shield(starting)
        if isinstance(result, McpServerError):
            raise result
        return result

    async def call_tool(self, tool: str, arguments: Mapping[str, Any], traceparent: str = "") -> Message:
        """Return the raw result of a call. `traceparent` is its span. Raises McpServerError, McpRequestError.

        A call that failed with its server is not repeated: it may have had effects.
        """
        as_task = any(one.remote_name == tool and one.as_task for one in self.tools or ())
        return await self._ask(
            lambda client, deadline: client.call_tool(
                tool, arguments, deadline, as_task=as_task, traceparent=traceparent
            )
        )

    async def read_resource(self, uri: str) -> Message:
        """Return the raw contents of a resource, and subscribe to its changes where the server offers that.

        Raises McpServerError, McpRequestError.
        """

        async def read(client: McpClient, deadline: CallDeadline) -> Message:
            if uri not in self._changes and client.has("resources", "subscribe") and len(self._changes) < MAX_WATCHED:
                await client.subscribe(uri, deadline)
                self._changes[uri] = 0
            return await client.read_resource(uri, deadline)

        return await self._ask(read)

    def resource_changes(self, uri: str) -> int:
        """Return how often the server has reported a change of a resource in this session."""
        return self._changes.get(uri, 0)

    async def list_resources(self) -> tuple[list[object], list[object]]:
        """Return the unparsed entries of its resources and of its templates. Raises McpServerError."""

        async def both(client: McpClient, deadline: CallDeadline) -> tuple[list[object], list[object]]:
            resources = await client.list_resources(deadline)
            try:
                return resources, await client.list_templates(deadline)
            except McpRequestError:  # many servers have no templates
                return resources, []

        return await self._ask(both)

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Message:
        """Return the raw messages of a prompt. Raises McpServerError, McpRequestError."""
        return await self._ask(lambda client, deadline: client.get_prompt(name, arguments, deadline))

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        """Return values for an argument of a prompt; none when the server has no completion. Raises
        McpServerError.
        """

        async def values(client: McpClient, deadline: CallDeadline) -> list[str]:
            return await client.complete(prompt, argument, value, deadline) if client.has("completions") else []

        return await self._ask(values)

    async def _ask(self, ask: Callable[[McpClient, CallDeadline], Awaitable[T]]) -> T:
        """Return the answer of the running server to one request."""
        client = await self.connect()
        self._announce_roots(client)
        limit = self.config.call_timeout_s or self._context.limits.call_s
        try:
            result = await ask(client, CallDeadline(limit, MAX_CALL_FACTOR * limit))
        except McpRequestError:
            self._failed_starts = 0
            raise
        self._failed_starts = 0
        return result

    def _announce_roots(self, client: McpClient) -> None:
        """Notify the server before a request when the session's directories changed since the last one."""
        if self._context.requests is None:
            return
        former = self._roots
        self._roots = self._context.requests.roots
        if former not in {None, self._roots}:
            client.peer.notify("notifications/roots/list_changed", {})

    async def close(self) -> None:
        """Close it permanently. When cancelled, kill it."""
        self._set_state("closed")
        log_fact("mcp", "%s: closed", self.config.name)
        client = self._client
        self._client = None
        running = [task for task in (self._starting, self._relisting, self._finishing) if task is not None]
        for task in running:
            task.cancel()
        if client is not None:
            await self._close_peer(client.peer)
        if waited := [*running, *self._endings]:
            await asyncio.wait(waited)

    # ── starting ──────────────────────────────────────────────────────────────────────────────────────────────

    def _refusal(self) -> str:
        if self.state == "closed":
            return "is closed with the session"
        if self._failed_starts >= MAX_FAILED_STARTS or self._starts >= MAX_STARTS:
            return f"failed {self._failed_starts or self._starts} times and is not started again in this session: " + (
                self.problem or "it gave no answer"
            )
        return ""

    async def _run_start(self) -> McpClient | McpServerError:
        self._starts += 1
        self._failed_starts += 1
        self._set_state("starting")
        requests = self._context.requests
        answer = None if requests is None else partial(requests.answer, self.config)
        peer = JsonRpcPeer(self._take_notification, self._transport_failed, self._mask_login, answer_request=answer)
        trouble: McpServerError
        try:
            await self._context.before_start(self.config)
            async with time_limit(self._context.limits.start_s):
                client = await self._connect_peer(peer)
            if peer.broken_reason:
                raise McpServerError(peer.broken_reason, dead=True)
            self._client = client
            self._set_state("running")
            self._finishing = asyncio.create_task(self._finish_start(client), name=f"start of mcp {self.config.key}")
            return client
        except TimeoutError:
            trouble = McpServerError(f"was not ready in {self._context.limits.start_s:g} s", dead=True)
        except McpServerError as problem:
            trouble = problem
        finally:
            self._starting = None
            if self._client is None:
                await self._close_peer(peer)
        self._fail(trouble.what)
        log_fact("mcp", "%s: failed: %s", self.config.name, trouble.what)
        return trouble

    async def _connect_peer(self, peer: JsonRpcPeer) -> McpClient:
        whole = CallDeadline(self._context.limits.start_s, self._context.limits.start_s)
        if self.config.kind == "stdio":
            process = StdioTransport.start(self.config, self._context.environment, peer, self._report_garbage)
            self.pid = process.pid
        elif self.config.kind == "sdk":
            if self._context.exchange is None:
                raise McpServerError("is part of a client program, and none drives this process", dead=True)
            ClientTransport(self.config.name, peer, self._context.exchange)
        elif self.config.kind == "sse":
            SseTransport(self.config, peer, self._auth())
        else:
            HttpTransport(self.config, peer, self._auth())
        requests = self._context.requests
        client = McpClient(peer, self._context.version, {} if requests is None else requests.capabilities)
        await client.initialize(whole)
        await self._read_lists(client, whole)
        log_fact("mcp", "%s: connected by %s", self.config.name, self.config.kind)
        return client

    async def _finish_start(self, client: McpClient) -> None:
        """Make the requests that no call waits for: the level of log messages, and the subscriptions before a restart.

        A resource that the server does not know any more is not followed.
        """
        deadline = CallDeadline(self._context.limits.start_s, self._context.limits.start_s)
        with suppress(McpServerError):
            await client.set_log_level(LOG_LEVEL, deadline)
        for uri in list(self._changes) if client.has("resources", "subscribe") else ():
            try:
                await client.subscribe(uri, deadline)
            except McpRequestError:
                self._changes.pop(uri, None)
            except McpServerError:
                return

    def _auth(self) -> Auth | None:
        """Return the stored login of the server, whose secrets are masked from now on; None without one, or when its
        entry has an authorization header.
        """
        logins = self._context.logins
        if logins is None or any(name.lower() == "authorization" for name in self.config.headers):
            return None
        if logins.load(self.config) is None:
            return None
        from teamwright.mcp.oauth import LoginAuth

        auth = LoginAuth(self.config, logins)
        self._login_mask = LoginMask(lambda: auth.login)
        return auth

    def _mask_login(self, message: object) -> object:
        return message if self._login_mask is None else self._login_mask(message)

    async def _read_lists(self, client: McpClient, deadline: CallDeadline) -> None:
        """Read the lists of the server's parts. Raises McpServerError when it does not list its tools."""
        tools, refused = parse_tools(self.config.key, await client.list_tools(deadline))
        if refused:
            more = f"; and {len(refused) - _NAMED_TOOLS} more" if len(refused) > _NAMED_TOOLS else ""
            text = self.config.mask_secrets("; ".join(refused[:_NAMED_TOOLS]))
            self._report("tools", f"cannot offer {text}{more}", "warning")
        try:
            prompts = parse_prompts(await client.list_prompts(deadline))
        except McpRequestError as problem:
            prompts = ()
            self._report("prompts", f"does not list its prompts: {self.config.mask_secrets(problem.what)}", "info")
        listing = ServerListing(tools, client.instructions, prompts, client.has("resources"))
        if listing != self.listing and self.config.kind != "sdk":  # another client has other tools under the same name
            self._context.listings.save(self.config.digest, self.name, listing)
        self.listing = listing

    # ── notifications ────────────────────────────────────────────────────────────────────────────────────────

    def _take_notification(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/message" and (text := self._log.add(params, self.config.mask_secrets)):
            self._context.report(f'the MCP server "{self.name}" reports an error: {text}', "warning")
        if method == "notifications/resources/updated" and (uri := str(params.get("uri", ""))) in self._changes:
            self._changes[uri] += 1
        if method not in LIST_CHANGES or self._client is None or self._relisted >= MAX_RELISTED:
            return
        if self._relisting is None:
            self._relisted += 1
            self._relisting = asyncio.create_task(self._relist(self._client), name=f"list of mcp {self.config.key}")

    async def _relist(self, client: McpClient) -> None:
        """Read the lists again. Agents that start later see the new tools; existing prefixes stay unchanged."""
        try:
            await self._read_lists(client, CallDeadline(self._context.limits.start_s, self._context.limits.start_s))
        except McpServerError as problem:
            self._report("list", f"has a new list of tools that it did not give: {problem.what}", "warning")
        finally:
            self._relisting = None

    def _transport_failed(self, why: str) -> None:
        """Handle a transport error; the peer has failed the waiting calls."""
        client = self._client
        self._client = None
        if client is None or self.state == "closed":
            return  # the running start sees it, or it is not needed any more
        ending = asyncio.create_task(self._close_peer(client.peer), name=f"end of mcp {self.config.key}")
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        self._fail(why)

    async def _close_peer(self, peer: JsonRpcPeer) -> None:
        self.pid = 0
        await peer.close()

    def _report_garbage(self, line: str) -> None:
        text = f"prints what is no message to its stdout, which is left out: {self.config.mask_secrets(line)}"
        self._report("garbage", text, "info")

    def _fail(self, why: str) -> None:
        self.problem = self.config.mask_secrets(why)
        if self.state != "closed":
            self._set_state("failed")
            self._report(why, self.problem, "warning")

    def _report(self, what: str, text: str, level: str) -> None:
        """Report each problem once, however often it happens."""
        if what not in self._reported and len(self._reported) < MAX_STARTS:
            self._reported.add(what)
            self._context.report(f'the MCP server "{self.name}" {text}', level)

    def _set_state(self, state: str) -> None:
        if self.state != "closed" and self.state != state:
            self.state = state
            self._context.on_change()


ReportProblem: TypeAlias = Callable[[str, str], None]
"""Called with a sentence that a person should read about a server, and `info` or `warning`."""


async def wait_for_nothing(_config: ServerConfig) -> None:
    """Return immediately: the default of `ServerContext.before_start`."""


class ServerTimeouts(Struct, frozen=True):
    """Timeouts in seconds: for a start with handshake and tool list, and for a call without progress."""

    start_s: float = 30.0
    call_s: float = 600.0


class AnswerServers(Protocol):
    """The answers to requests of servers: directories, input of the user, a model's answer."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The capabilities that are declared to servers."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """The addresses of the session's directories, which a server may list."""
        ...

    async def answer(self, server: ServerConfig, method: str, params: Mapping[str, Any]) -> Message:
        """Return the result of a server's request. Raises McpRequestError."""
        ...


class ServerContext(Struct, frozen=True):
    """The state that all servers of a session share. `before_start` is awaited before a server is started.

    `on_change` is called when the state of a server changes.
    """

    environment: ServerEnvironment
    listings: ListingStore
    report: ReportProblem
    version: str
    limits: ServerTimeouts = field(default_factory=ServerTimeouts)
    before_start: Callable[[ServerConfig], Awaitable[object]] = wait_for_nothing
    on_change: Callable[[], None] = lambda: None
    exchange: Callable[[str, Message], Awaitable[Message]] | None = None
    """Sends a message to a server inside the client program; None without a client."""
    logins: LoginStore | None = None
    """Stored logins at servers with an address."""
    requests: AnswerServers | None = None
    """Answers requests of servers; None: they are refused."""


MAX_LOG_BYTES = 1_000_000
"""The most bytes of a log file; later messages are dropped."""

MAX_SHOWN_ERRORS = 10
"""The most different errors of one server that a person reads."""

_SERIOUS = frozenset({"error", "critical", "alert", "emergency"})


class ServerLog:
    """The log messages of one server, in a file that is created with the first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size: int | None = None
        self._reported: set[str] = set()

    def add(self, params: Mapping[str, Any], mask: Callable[[str], str]) -> str:
        """Store a message. Return its text when a person should read it: an error, the first time; else nothing."""
        data = params.get("data")
        level = plain_line(str(params.get("level", "")), 20)
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
        line = plain_line(mask(text), 2_000)
        self._store(f"{level}: {line}\n".encode("utf-8", "replace"))
        notice = plain_line(line, 300)
        if level not in _SERIOUS or notice in self._reported or len(self._reported) >= MAX_SHOWN_ERRORS:
            return ""
        self._reported.add(notice)
        return notice

    def _store(self, content: bytes) -> None:
        """Append to the file, which a server of an earlier process may have begun."""
        with suppress(OSError):
            if self._size is None:
                self._size = self._path.stat().st_size if self._path.exists() else 0
            if self._size + len(content) <= MAX_LOG_BYTES:
                self._size += len(content)
                with self._path.open("ab") as file:
                    file.write(content)
