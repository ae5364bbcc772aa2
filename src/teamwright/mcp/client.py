"""The protocol with an MCP server: initialization, the lists of its parts, tool calls, resources and prompts.

Supports the versions with a handshake, and the later one without it for servers that support nothing else. Declares
the capabilities that it is given; the peer's `answer_request` answers a server's requests. A tool call may run as a
task of the server, which is polled until its result is there: a task lives longer than the connection of one request.
`ClientTransport` goes through the client program that drives this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from teamwright.mcp.http_transport import HttpTransport
from teamwright.mcp.json_rpc import (
    MAX_ANSWERING,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    CallDeadline,
    JsonRpcPeer,
    McpRequestError,
    McpServerError,
    Message,
    plain_line,
    plain_text,
)
from teamwright.mcp.tool_listing import MAX_TOOLS
from teamwright.protocol.time_limit import time_limit

NEWEST_VERSION = "2025-11-25"

HANDSHAKE_VERSIONS = (NEWEST_VERSION, "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions that begin with a handshake, the newest first."""

VERSION_WITHOUT_HANDSHAKE = "2026-07-28"

MAX_INSTRUCTIONS = 2_000
"""The most characters of a server's instructions."""

MAX_ROUNDS = 10
"""The most times that a server may ask for more input in one request."""

_MAX_PAGES = 50

_META = "io.modelcontextprotocol/"


class McpClient(Struct):
    """A connected server. `server_info` is its description of itself."""

    peer: JsonRpcPeer
    own_version: str
    own_capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The capabilities that are declared to the server."""
    version: str = ""
    server_info: str = ""
    instructions: str = ""
    """The server's text about its use, bounded."""
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The capabilities that the server declares."""

    async def initialize(self, deadline: CallDeadline) -> None:
        """Negotiate a version. Raises McpServerError."""
        hello: Message = {
            "protocolVersion": NEWEST_VERSION,
            "capabilities": dict(self.own_capabilities),
            "clientInfo": self._info,
        }
        try:
            result = await self.peer.request("initialize", hello, deadline)
        except McpRequestError as problem:
            if problem.code not in {UNSUPPORTED_VERSION, METHOD_NOT_FOUND}:
                raise
            await self._discover(deadline)
            return
        version = result.get("protocolVersion")
        if version not in HANDSHAKE_VERSIONS:
            raise McpServerError(f"speaks another version of the protocol ({plain_line(str(version), 40)})", dead=True)
        self._agree(str(version), result)
        self.peer.notify("notifications/initialized", {})

    def has(self, part: str, flag: str = "") -> bool:
        """Return True when the server declares that it has this part, and this flag of it."""
        declared = self.capabilities.get(part)
        return isinstance(declared, dict) and (not flag or cast("Message", declared).get(flag) is True)

    async def list_tools(self, deadline: CallDeadline) -> list[object]:
        """Return the entries of its tool list, page by page, unparsed. Raises McpServerError."""
        return await self._list("tools", deadline)

    async def list_prompts(self, deadline: CallDeadline) -> list[object]:
        """Return the entries of its list of prompts, unparsed. Raises McpServerError."""
        return await self._list("prompts", deadline)

    async def list_resources(self, deadline: CallDeadline) -> list[object]:
        """Return the entries of its list of resources, unparsed. Raises McpServerError."""
        return await self._list("resources", deadline)

    async def list_templates(self, deadline: CallDeadline) -> list[object]:
        """Return the entries of its list of resource templates, unparsed. Raises McpServerError."""
        return await self._list("resources", deadline, "resources/templates/list", "resourceTemplates")

    async def _list(self, part: str, deadline: CallDeadline, method: str = "", key: str = "") -> list[object]:
        found: list[object] = []
        cursor: object = None
        for _ in range(_MAX_PAGES if self.has(part) else 0):
            try:
                page = await self.peer.request(method or f"{part}/list", {"cursor": cursor} if cursor else {}, deadline)
            except McpRequestError as problem:
                if problem.code == METHOD_NOT_FOUND:  # it declares a part of which it has nothing
                    break
                raise
            listed = page.get(key or part)
            found += cast("list[object]", listed) if isinstance(listed, list) else []
            before = cursor
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or cursor == before or len(found) >= MAX_TOOLS:
                break
        return found[:MAX_TOOLS]

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        deadline: CallDeadline,
        *,
        as_task: bool = False,
        traceparent: str = "",
    ) -> Message:
        """Return the raw result of a call. `as_task`: the server runs it as a task, if it can.

        `traceparent` is the span of the call; a server may continue its trace.

        Raises McpServerError, McpRequestError; notifies the server when cancelled.
        """
        params: Message = {"name": tool, "arguments": dict(arguments)}
        if traceparent:
            params["_meta"] = {"traceparent": traceparent}
        if not as_task or not self.runs_tasks:
            return await self._request("tools/call", params, deadline)
        params["task"] = {"ttl": int(deadline.max_total_s * 1_000)}
        created = await self._request("tools/call", params, deadline)
        return await wait_for_task(self.peer, created, deadline)

    @property
    def runs_tasks(self) -> bool:
        """True when the server can run a tool call as a task."""
        requests = _object(_object(self.capabilities.get("tasks")).get("requests"))
        return isinstance(_object(requests.get("tools")).get("call"), dict)

    async def read_resource(self, uri: str, deadline: CallDeadline) -> Message:
        """Return the raw contents of a resource. Raises McpServerError, McpRequestError."""
        return await self._request("resources/read", {"uri": uri}, deadline)

    async def get_prompt(self, name: str, arguments: Mapping[str, str], deadline: CallDeadline) -> Message:
        """Return the raw messages of a prompt. Raises McpServerError, McpRequestError."""
        return await self._request("prompts/get", {"name": name, "arguments": dict(arguments)}, deadline)

    async def complete(self, prompt: str, argument: str, value: str, deadline: CallDeadline) -> list[str]:
        """Return values for the beginning of a prompt's argument. Raises McpServerError, McpRequestError."""
        ref = {"type": "ref/prompt", "name": prompt}
        params = {"ref": ref, "argument": {"name": argument, "value": value}}
        result = await self.peer.request("completion/complete", params, deadline)
        values = _object(result.get("completion")).get("values")
        return [one for one in cast("list[object]", values) if isinstance(one, str)] if isinstance(values, list) else []

    async def subscribe(self, uri: str, deadline: CallDeadline) -> None:
        """Ask for notifications about changes of a resource. Raises McpServerError, McpRequestError."""
        await self.peer.request("resources/subscribe", {"uri": uri}, deadline)

    async def set_log_level(self, level: str, deadline: CallDeadline) -> None:
        """Ask for log messages from this level on, where the server has them. Raises McpServerError."""
        if self.has("logging") and self.version in HANDSHAKE_VERSIONS:
            with suppress(McpRequestError):  # its messages are not needed
                await self.peer.request("logging/setLevel", {"level": level}, deadline)

    async def _request(self, method: str, params: Message, deadline: CallDeadline) -> Message:
        """Return a complete result. A server without a handshake may ask for input first, in its results."""
        round_params = params
        for _ in range(MAX_ROUNDS):
            result = await self.peer.request(method, round_params, deadline, progress=True)
            if (kind := result.get("resultType", "complete")) == "complete":
                return result
            if kind != "input_required":
                break
            round_params = {**params, "inputResponses": await self._collect_input(result.get("inputRequests"))}
            if (state := result.get("requestState")) is not None:
                round_params["requestState"] = state
        raise McpServerError("wants more input in the middle of a call than is supported")

    async def _collect_input(self, requests: object) -> Message:
        """Return the answers to the requests in a result, by the server's keys. Raises McpServerError."""
        answers: Message = {}
        for key, request in _object(requests).items():
            message = _object(request)
            if self.peer.answer_request is None or len(answers) >= MAX_ANSWERING:
                raise McpServerError("wants input in the middle of a call, which is not supported")
            method = str(message.get("method", ""))
            answers[key] = await self.peer.answer_request(method, _object(message.get("params")))
        return answers

    async def _discover(self, deadline: CallDeadline) -> None:
        self.peer.meta = {
            f"{_META}protocolVersion": VERSION_WITHOUT_HANDSHAKE,
            f"{_META}clientInfo": self._info,
            f"{_META}clientCapabilities": dict(self.own_capabilities),
        }
        if isinstance(self.peer.transport, HttpTransport):
            self.peer.transport.without_handshake = True
            self.peer.transport.version = VERSION_WITHOUT_HANDSHAKE
        result = await self.peer.request("server/discover", {}, deadline)
        versions = result.get("supportedVersions")
        if not isinstance(versions, list) or VERSION_WITHOUT_HANDSHAKE not in versions:
            raise McpServerError("speaks no version of the protocol that we know", dead=True)
        self._agree(VERSION_WITHOUT_HANDSHAKE, result)

    def _agree(self, version: str, result: Message) -> None:
        self.version = version
        if isinstance(self.peer.transport, HttpTransport):
            self.peer.transport.version = version
        self.capabilities = _object(result.get("capabilities"))
        if isinstance(instructions := result.get("instructions"), str):
            self.instructions = plain_text(instructions, MAX_INSTRUCTIONS)
        if server := _object(result.get("serverInfo")):
            self.server_info = plain_line(f"{server.get('name', '')} {server.get('version', '')}", 80)

    @property
    def _info(self) -> Mapping[str, str]:
        return {"name": "teamwright", "version": self.own_version}


POLL_S = 1.0
"""Seconds between two polls, for a server that names no interval."""

MIN_POLL_S = 0.1
MAX_POLL_S = 10.0
"""The bounds of a server's interval."""

MAX_LOST_POLLS = 3
"""The most polls in a row that may fail before the call fails."""

CANCEL_S = 5.0
"""Seconds that a server may take to cancel a task."""

_ENDED = ("completed", "failed", "cancelled")
"""The states of a task that does not run any more."""


async def wait_for_task(peer: JsonRpcPeer, created: Message, deadline: CallDeadline) -> Message:
    """Return the result of a call whose first answer created a task; any other first answer is the result.

    A report of the server that the task is at work counts as progress: the task may take `max_total_s`. A task that
    still runs when the wait fails or is cancelled is cancelled at the server. Raises McpServerError, McpRequestError.
    """
    state = _object(created.get("task"))
    id: object = state.get("taskId")
    if not isinstance(id, str) or not id:
        return created
    task = _RunningTask(peer, id, deadline, state)
    try:
        async with time_limit(deadline.max_total_s):
            return await task.wait()
    except BaseException as problem:
        if task.status not in _ENDED:
            peer.send_request("tasks/cancel", {"taskId": id}, CANCEL_S)
        if isinstance(problem, TimeoutError):
            raise McpServerError(f"did not end its task in {deadline.max_total_s:g} s") from None
        raise


class _RunningTask(Struct):
    """One task of a server, with its last known state."""

    peer: JsonRpcPeer
    id: str
    deadline: CallDeadline
    state: Message

    @property
    def status(self) -> str:
        """The status in the last state; empty for one that is no text."""
        status = self.state.get("status")
        return status if isinstance(status, str) else ""

    async def wait(self) -> Message:
        """Return the result. Raises McpServerError, McpRequestError."""
        await self._poll()
        if self.status == "cancelled":
            raise McpServerError("cancelled the task" + self._reason)
        try:
            # A task that needs input asks for it while its result is awaited.
            return await self.peer.request("tasks/result", {"taskId": self.id}, self.deadline, progress=True)
        except McpRequestError as problem:
            if self.status != "failed":
                raise
            raise McpServerError(f"failed the task{self._reason or f': {problem.message}'}") from None

    async def _poll(self) -> None:
        """Follow the state as long as the server reports that the task is at work."""
        lost = 0
        one_poll = CallDeadline(self.deadline.max_silence_s, self.deadline.max_silence_s)
        while self.status in {"working", "submitted"}:
            await asyncio.sleep(_interval_s(self.state.get("pollInterval")))
            try:
                self.state = await self.peer.request("tasks/get", {"taskId": self.id}, one_poll)
                lost = 0
            except McpRequestError:
                raise
            except McpServerError as problem:
                lost += 1
                if problem.is_dead or lost >= MAX_LOST_POLLS:
                    raise

    @property
    def _reason(self) -> str:
        message = self.state.get("statusMessage")
        return f": {plain_line(message)}" if isinstance(message, str) and message else ""


def _interval_s(ms: object) -> float:
    """Return the seconds until the next poll, of the server's milliseconds."""
    if isinstance(ms, bool) or not isinstance(ms, int | float) or ms != ms:  # JSON of some servers has NaN
        return POLL_S
    return min(max(ms, MIN_POLL_S * 1_000), MAX_POLL_S * 1_000) / 1_000


ExchangeMessage: TypeAlias = Callable[[str, Message], Awaitable[Message]]
"""Sends a message to the client's server of that name and returns its answer. Raises McpServerError."""


class ClientTransport:
    """The transport to one server of the client. It starts no process, and ends with the session."""

    def __init__(self, name: str, peer: JsonRpcPeer, exchange: ExchangeMessage) -> None:
        self._name = name
        self._peer = peer
        self._exchange = exchange
        self._running: dict[int, asyncio.Task[None]] = {}
        self._notifications: set[asyncio.Task[None]] = set()
        peer.transport = self

    def send(self, message: Message) -> None:
        number = message.get("id")
        task = asyncio.ensure_future(self._send(message, number if isinstance(number, int) else None))
        if isinstance(number, int):
            self._running[number] = task
            task.add_done_callback(lambda _: self._running.pop(number, None))
        else:
            self._notifications.add(task)
            task.add_done_callback(self._notifications.discard)

    async def _send(self, message: Message, number: int | None) -> None:
        try:
            answer = await self._exchange(self._name, message)
        except McpServerError as problem:
            self._peer.fail(problem.what, number)
            return
        if number is not None:
            self._peer.deliver(answer)

    def cancel(self, request: int) -> None:
        if (task := self._running.get(request)) is not None:
            task.cancel()

    async def close(self) -> None:
        running = [*self._running.values(), *self._notifications]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)


def _object(value: object) -> Message:
    """Return an object of a message; an empty one for anything else."""
    return cast("Message", value) if isinstance(value, dict) else Message()
