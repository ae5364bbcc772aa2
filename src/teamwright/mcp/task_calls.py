"""Tool calls as tasks of the protocol: the server answers at once, and the client polls until the result is there.

A task lives longer than the connection of one request, so a lost poll is repeated. Depends on the JSON-RPC peer.
"""

from __future__ import annotations

import asyncio
from typing import cast

from msgspec import Struct

from teamwright.mcp.json_rpc import CallDeadline, JsonRpcPeer, McpRequestError, McpServerError, Message, plain_line
from teamwright.protocol.time_limit import time_limit

POLL_S, MIN_POLL_S, MAX_POLL_S = 1.0, 0.1, 10.0
"""Seconds between two polls: without an interval of the server, and the bounds of its interval."""

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
    id = state.get("taskId")
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
        lost, one_poll = 0, CallDeadline(self.deadline.max_silence_s, self.deadline.max_silence_s)
        while self.status in {"working", "submitted"}:
            await asyncio.sleep(_interval_s(self.state.get("pollInterval")))
            try:
                self.state, lost = await self.peer.request("tasks/get", {"taskId": self.id}, one_poll), 0
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


def _object(value: object) -> Message:
    return cast("Message", value) if isinstance(value, dict) else Message()
