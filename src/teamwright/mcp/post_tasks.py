"""The running POSTs of a transport over HTTP, each with the number of its request.

Depends on JSON-RPC messages only; the transports send and read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from teamwright.mcp.json_rpc import Message

ORDER_S = 5.0
"""Maximum wait of a request for earlier notifications, in seconds."""


def request_number(message: Message) -> int | None:
    """Return the number of a request; None for an answer or a notification."""
    return message["id"] if "method" in message and "id" in message else None


class PostTasks:
    """The tasks that send messages. `name` is the name of the tasks, for debugging."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: dict[int | None, set[asyncio.Task[None]]] = {}

    def start(self, number: int | None, post: Coroutine[None, None, None]) -> None:
        """Start a POST. Its failure is the business of `post`."""
        task = asyncio.create_task(post, name=self._name)
        self._running.setdefault(number, set()).add(task)
        task.add_done_callback(lambda done: self._remove(number, done))

    async def wait_for_notifications(self, number: int | None) -> None:
        """Wait until earlier notifications were sent, if this is a request: they must arrive first."""
        if number is not None and (before := self._running.get(None)):
            await asyncio.wait(set(before), timeout=ORDER_S)

    def cancel(self, number: int) -> None:
        """Cancel the POST of a request."""
        for task in self._running.get(number, ()):
            task.cancel()

    def cancel_all(self) -> list[asyncio.Task[None]]:
        """Cancel all POSTs, and return them."""
        tasks = [task for group in self._running.values() for task in group]
        for task in tasks:
            task.cancel()
        return tasks

    def _remove(self, number: int | None, task: asyncio.Task[None]) -> None:
        group = self._running.get(number, set())
        group.discard(task)
        if not group:
            self._running.pop(number, None)
