"""Tool calls as tasks of the protocol: the server answers at once, and the client polls until the result is there.

A task lives longer than the connection of one request, so a lost poll is repeated. Depends on the JSON-RPC peer.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import cast

from teamwright.mcp.json_rpc import CallDeadline, JsonRpcPeer, McpRequestError, McpServerError, Message, plain_line

POLL_S, MIN_POLL_S, MAX_POLL_S = 1.0, 0.1, 10.0
"""Seconds between two polls: without an interval of the server, and the bounds of its interval."""

MAX_LOST_POLLS = 3
"""The most polls in a row that may fail before the call fails."""

CANCEL_S = 5.0
"""Seconds that a server may take to cancel a task."""


async def wait_for_task(peer: JsonRpcPeer, created: Message, deadline: CallDeadline) -> Message:
    """Return the result of a call whose first answer created a task; any other first answer is the result.

    A report of the server that the task is at work counts as progress: the task may take `max_total_s`. A cancelled
    wait cancels the task. Raises McpServerError, McpRequestError.
    """
    task = _object(created.get("task"))
    id = task.get("taskId")
    if not isinstance(id, str) or not id:
        return created
    try:
        async with asyncio.timeout(deadline.max_total_s):
            return await _poll(peer, id, task, deadline)
    except TimeoutError:
        _start_cancel(peer, id)
        raise McpServerError(f"did not end its task in {deadline.max_total_s:g} s") from None
    except asyncio.CancelledError:
        _start_cancel(peer, id)
        raise


async def _poll(peer: JsonRpcPeer, id: str, task: Message, deadline: CallDeadline) -> Message:
    lost = 0
    while (status := task.get("status")) in {"working", "submitted"}:
        await asyncio.sleep(_interval_s(task.get("pollInterval")))
        try:
            task, lost = await peer.request("tasks/get", {"taskId": id}, _of_poll(deadline)), 0
        except McpRequestError:
            raise
        except McpServerError as problem:
            lost += 1
            if problem.is_dead or lost >= MAX_LOST_POLLS:
                raise
    if status == "cancelled":
        raise McpServerError("cancelled the task" + _reason(task))
    try:
        # A task that needs input asks for it while its result is awaited.
        return await peer.request("tasks/result", {"taskId": id}, deadline, progress=True)
    except McpRequestError as problem:
        if status != "failed":
            raise
        raise McpServerError(f"failed the task{_reason(task) or f': {problem.message}'}") from None


def _of_poll(deadline: CallDeadline) -> CallDeadline:
    return CallDeadline(deadline.max_silence_s, deadline.max_silence_s)


def _interval_s(said: object) -> float:
    """Return the seconds until the next poll, of the server's milliseconds."""
    is_number = isinstance(said, int | float) and not isinstance(said, bool)
    return min(max(float(cast("float", said)) / 1_000, MIN_POLL_S), MAX_POLL_S) if is_number else POLL_S


def _reason(task: Message) -> str:
    said = task.get("statusMessage")
    return f": {plain_line(said)}" if isinstance(said, str) and said else ""


def _start_cancel(peer: JsonRpcPeer, id: str) -> None:
    """Ask the server to cancel the task, without waiting for its answer."""

    async def cancel() -> None:
        with suppress(McpServerError):
            await peer.request("tasks/cancel", {"taskId": id}, CallDeadline(CANCEL_S, CANCEL_S))

    running = asyncio.create_task(cancel(), name="cancel of an MCP task")
    _cancelling.add(running)
    running.add_done_callback(_cancelling.discard)


_cancelling: set[asyncio.Task[None]] = set()
"""The requests that cancel tasks: the event loop has weak references alone."""


def _object(value: object) -> Message:
    return cast("Message", value) if isinstance(value, dict) else Message()
