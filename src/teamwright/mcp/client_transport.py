"""Transport to an MCP server inside the client program that drives this one: messages go through the client.

The client answers each message with one message. Depends on the JSON-RPC peer; leaves the connection to the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from teamwright.mcp.json_rpc import JsonRpcPeer, McpServerError, Message

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
        """Implement `Transport.send`."""
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
        """Implement `Transport.cancel`."""
        if (task := self._running.get(request)) is not None:
            task.cancel()

    async def close(self) -> None:
        """Implement `Transport.close`."""
        running = [*self._running.values(), *self._notifications]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
