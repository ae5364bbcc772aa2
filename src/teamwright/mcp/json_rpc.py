"""JSON-RPC with one server: requests, their answers and the errors of servers, over any transport.

McpServerError       the server failed: late, gone, over a bound; `is_dead`: it cannot be used any more
└── McpRequestError  the server answered with an error of the protocol; it stays usable

Every request ends: with its answer, its timeout, the caller's cancellation, or a transport error. Requests of the
server go to `answer_request`, and no timeout runs until they are answered. Its other messages go to a listener or are
dropped. Texts of errors are one line, without values that the server was given as secrets.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from msgspec import Struct, field

from teamwright.protocol.time_limit import time_limit

UNSUPPORTED_VERSION = -32022
"""The code of a server that supports other versions of the protocol."""

METHOD_NOT_FOUND = -32601

INTERNAL_ERROR = -32603


class McpServerError(Exception):
    """A server failed. `what` is one line that continues a sentence about it ("db <what>")."""

    def __init__(self, what: str, *, dead: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.is_dead = dead


class McpRequestError(McpServerError):
    """The server answered a request with an error: its code and its text, bounded."""

    def __init__(self, code: int, message: str) -> None:
        message = plain_line(message, 2_000) or "nothing more"
        super().__init__(f"answered with error {code}: {message}")
        self.code = code
        self.message = message


def plain_line(text: str, most: int = 300) -> str:
    """Return text of another program on one bounded line, without line ends and control characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def last_words(text: str) -> str:
    """Return the end of another program's output on one bounded line: its last line mostly has the cause."""
    most = 300
    line = plain_line(text[-4 * most :], 4 * most)
    return line if len(line) <= most else "…" + line[1 - most :]


def plain_text(text: str, most: int) -> str:
    """Return bounded text of another program without control characters; line ends and tabs stay."""
    plain = "".join(c for c in text[: 2 * most] if c.isprintable() or c in "\n\t").strip()
    return plain if len(plain) <= most else plain[: most - 1] + "…"


Message: TypeAlias = dict[str, Any]
OnNotification: TypeAlias = Callable[[str, Mapping[str, Any]], None]
"""Called with method and parameters of every notification."""

AnswerRequest: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Message]]
"""Returns the result of a server's request with this method and these parameters. Raises McpRequestError."""

MAX_BATCH = 1_000

MAX_ANSWERING = 8
"""The most requests of a server that are answered at the same time."""

_LARGEST = 1e18
"""Larger progress numbers are useless to people, and may exceed a float."""


class Transport(Protocol):
    """A carrier of messages. Received messages go to `JsonRpcPeer.deliver`, transport errors to `JsonRpcPeer.fail`."""

    def send(self, message: Message) -> None:
        """Send a message, without waiting. Never raises: the peer receives errors."""

    def cancel(self, request: int) -> None:
        """Cancel the wait for the answer of this request."""

    async def close(self) -> None:
        """Close the transport and everything it uses. May be called twice."""


class CallDeadline(Struct):
    """Time limits of an answer, in seconds: between two signs of progress, and in all. `last_progress` is the last
    reported number."""

    max_silence_s: float
    max_total_s: float
    last_progress: str = ""
    _timeout: asyncio.Timeout | None = None
    _end: float = 0.0
    _paused_at: float = 0.0

    @asynccontextmanager
    async def limit_wait(self) -> AsyncGenerator[None]:
        """Limit the block, which waits for the answer. Raises TimeoutError."""
        self._end = asyncio.get_running_loop().time() + self.max_total_s
        async with time_limit(min(self.max_silence_s, self.max_total_s)) as self._timeout:
            yield

    def note_progress(self, params: Mapping[str, Any]) -> None:
        """Extend the timeout after a progress notification."""
        done = params.get("progress")
        total = params.get("total")
        message = params.get("message")
        parts = [f"{done:g}" if _number(done) else "", f" of {total:g}" if _number(total) else ""]
        text = f": {message}" if isinstance(message, str) and message else ""
        self.last_progress = plain_line("".join(parts) + text, 200)
        if not self._paused_at:
            self._restart(asyncio.get_running_loop().time())

    def pause(self) -> None:
        """Stop the time, because a person may have to answer the server first."""
        if self._timeout is not None and not self._paused_at and not self._timeout.expired():
            self._paused_at = asyncio.get_running_loop().time()
            self._timeout.reschedule(None)

    def resume(self) -> None:
        """Continue the time after a pause."""
        if self._paused_at:
            now = asyncio.get_running_loop().time()
            self._end = self._end + now - self._paused_at
            self._paused_at = 0.0
            self._restart(now)

    def _restart(self, now: float) -> None:
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(min(now + self.max_silence_s, self._end))


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST


class JsonRpcPeer(Struct):
    """One connection. `transport` is set before the first request; `on_broken` is called once.

    `mask` masks the secrets of a login in what arrives: messages, and the reasons of failures.
    """

    on_notification: OnNotification
    on_broken: Callable[[str], None]
    mask: Callable[[object], object]
    transport: Transport | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Metadata of every request, for servers without a handshake."""
    broken_reason: str = ""
    answer_request: AnswerRequest | None = None
    """Answers requests of the server; None: they are refused."""
    _answering: dict[int | str, asyncio.Task[None]] = field(default_factory=dict[int | str, "asyncio.Task[None]"])
    _waiting: dict[int, tuple[asyncio.Future[Message], CallDeadline]] = field(
        default_factory=dict[int, "tuple[asyncio.Future[Message], CallDeadline]"]
    )
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _unawaited: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])
    """The requests whose answers nothing waits for."""

    async def request(
        self, method: str, params: Mapping[str, Any], deadline: CallDeadline, *, progress: bool = False
    ) -> Message:
        """Return the result of a request. Raises McpServerError, McpRequestError; notifies the server when
        cancelled.
        """
        if self.broken_reason or self.transport is None:
            raise McpServerError(self.broken_reason or "is not connected", dead=True)
        number = next(self._numbers)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (answer, deadline)
        meta = {**self.meta, **({"progressToken": number} if progress else {})}
        message: Message = {"jsonrpc": "2.0", "id": number, "method": method}
        message["params"] = {**params, "_meta": {**meta, **params.get("_meta", {})}} if meta else dict(params)
        try:
            self.transport.send(message)
            async with deadline.limit_wait():
                return await answer
        except TimeoutError:
            self._cancel(number, method, "it took too long")
            at = f"; it was at {deadline.last_progress}" if deadline.last_progress else ""
            raise McpServerError(
                f"gave no answer in {min(deadline.max_silence_s, deadline.max_total_s):g} s{at}"
            ) from None
        except asyncio.CancelledError:
            self._cancel(number, method, "it is not wanted any more")
            raise
        finally:
            self._waiting.pop(number, None)

    def send_request(self, method: str, params: Mapping[str, Any], timeout_s: float) -> None:
        """Send a request whose answer has no effect. `close` waits for it, at most until its timeout."""

        async def send() -> None:
            with suppress(McpServerError):
                await self.request(method, params, CallDeadline(timeout_s, timeout_s))

        task = asyncio.create_task(send(), name=method)
        self._unawaited.add(task)
        task.add_done_callback(self._unawaited.discard)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        if self.transport is not None and not self.broken_reason:
            self.transport.send({"jsonrpc": "2.0", "method": method, "params": dict(params)})

    def deliver(self, message: object) -> bool:
        """Handle a received message; return True when it answers a request. Never raises for its content."""
        return self._deliver(self.mask(message))

    def _deliver(self, message: object) -> bool:
        if isinstance(message, list):
            batch = cast("list[object]", message)[:MAX_BATCH]
            answers = [self._deliver(part) for part in batch if not isinstance(part, list)]
            return any(answers)
        if not isinstance(message, dict):
            return False
        fields = cast("Message", message)
        method = fields.get("method")
        number = fields.get("id")
        if isinstance(method, str):
            self._take_unrequested(method, fields)
            return False
        # Some servers return a number as text.
        number = int(number) if isinstance(number, str) and number.isdecimal() and len(number) < 18 else number
        if isinstance(number, bool) or not isinstance(number, int) or number not in self._waiting:
            return False
        self._answer(number, fields)
        return True

    def fail(self, why: str, number: int | None = None) -> None:
        """Fail this request, or, without a number, all requests, because of a transport error."""
        why = str(self.mask(why))
        if number is not None:
            self._fail(number, McpServerError(why))
            return
        if self.broken_reason:
            return
        self.broken_reason = why
        for one in list(self._waiting):
            self._fail(one, McpServerError(why, dead=True))
        self.on_broken(why)

    def _answer(self, number: int, message: Message) -> None:
        error = message.get("error")
        result = message.get("result")
        if isinstance(error, dict):
            failure = cast("Message", error)
            code = failure.get("code")
            self._fail(number, McpRequestError(code if isinstance(code, int) else 0, str(failure.get("message", ""))))
        elif isinstance(result, dict):
            answer, _ = self._waiting[number]
            if not answer.done():
                answer.set_result(cast("Message", result))
        else:
            self._fail(number, McpServerError("gave an answer that is none"))

    def _fail(self, number: int, problem: McpServerError) -> None:
        answer, _ = self._waiting.get(number, (None, None))
        if answer is not None and not answer.done():
            answer.set_exception(problem)

    def _take_unrequested(self, method: str, message: Message) -> None:
        params = message.get("params")
        fields = cast("Message", params) if isinstance(params, dict) else Message()
        number = message.get("id")
        if isinstance(number, int | str):
            self._take_request(method, number, fields)
        elif number is not None:
            return
        elif method == "notifications/cancelled":
            request_id = fields.get("requestId")
            if isinstance(request_id, int | str) and (task := self._answering.get(request_id)) is not None:
                task.cancel()
        elif method == "notifications/progress":
            token = fields.get("progressToken")
            _, deadline = self._waiting.get(token, (None, None)) if isinstance(token, int) else (None, None)
            if deadline is not None:
                deadline.note_progress(fields)
        else:
            self.on_notification(method, fields)

    def _take_request(self, method: str, number: int | str, params: Message) -> None:
        """Answer a request of the server. A ping is answered at once."""
        if method == "ping":
            self._reply(number, {"result": {}})
        elif self.answer_request is None or number in self._answering or len(self._answering) >= MAX_ANSWERING:
            self._reply(number, _error(METHOD_NOT_FOUND, "this client does not do that"))
        else:
            for _, deadline in self._waiting.values():
                deadline.pause()
            answering = self._answer_server(self.answer_request, method, number, params)
            self._answering[number] = task = asyncio.create_task(answering, name=f"answer to {method}")
            # A task that is cancelled before its first step executes no code, not even its `finally`.
            task.add_done_callback(partial(self._end_answer, number))

    async def _answer_server(self, answer: AnswerRequest, method: str, number: int | str, params: Message) -> None:
        try:
            self._reply(number, {"result": await answer(method, params)})
        except McpRequestError as problem:
            self._reply(number, _error(problem.code, problem.message))
        except Exception as problem:
            # Every request of a server gets a reply. The text of an unknown error may contain anything.
            self._reply(number, _error(INTERNAL_ERROR, f"this client failed: {type(problem).__name__}"))

    def _end_answer(self, number: int | str, _task: asyncio.Task[None]) -> None:
        del self._answering[number]
        for _, deadline in self._waiting.values() if not self._answering else ():
            deadline.resume()

    def _reply(self, number: int | str, reply: Message) -> None:
        if self.transport is not None and not self.broken_reason:
            self.transport.send({"jsonrpc": "2.0", "id": number, **reply})

    async def close(self) -> None:
        """Send what still must reach the server, then cancel the answers to its requests, and close the transport."""
        try:
            if self._unawaited:
                await asyncio.wait(set(self._unawaited))
            tasks = list(self._answering.values())
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
        finally:
            if self.transport is not None:
                await self.transport.close()

    def _cancel(self, number: int, method: str, why: str) -> None:
        if self.transport is not None:
            self.transport.cancel(number)
        if method != "initialize":
            self.notify("notifications/cancelled", {"requestId": number, "reason": why})


def _error(code: int, message: str) -> Message:
    return {"error": {"code": code, "message": message}}
