"""JSON-RPC with one server: requests and their answers, whatever carries them.

Every request ends: with its answer, by its clock, by the caller's cancellation, or when the transport breaks. What
the server sends that nobody asked for is told to a listener or dropped. Knows no transport and no method but `ping`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol, TypeAlias, cast

from teamwright.mcp.trouble import METHOD_UNKNOWN, Refused, ServerTrouble, plain_line
from teamwright.protocol.values import dataclass

Message: TypeAlias = dict[str, Any]
Heard: TypeAlias = Callable[[str, Mapping[str, Any]], None]
"""Told of every notification: method and parameters."""

MOST_IN_A_BATCH = 1_000

_LARGEST = 1e18
"""Progress beyond it is no number that people read, and may be more than a float holds."""


class Transport(Protocol):
    """Carries messages. What arrives goes to `Peer.deliver`, what breaks to `Peer.broke`."""

    def send(self, message: Message) -> None:
        """Send a message, without waiting. Never raises: what goes wrong is told to the peer."""
        ...

    def drop(self, request: int) -> None:
        """Nobody waits for the answer of this request any more."""
        ...

    async def close(self) -> None:
        """End it and everything behind it. May be called twice."""
        ...


@dataclass(slots=True)
class Clock:
    """How long an answer may take, in seconds: between signs of it, and in all. `told` is the last progress."""

    silent_s: float
    longest_s: float
    told: str = ""
    _timeout: asyncio.Timeout | None = None
    _end: float = 0.0

    def start(self) -> asyncio.Timeout:
        """The timeout around the wait."""
        now = asyncio.get_running_loop().time()
        self._end = now + self.longest_s
        self._timeout = asyncio.timeout_at(min(now + self.silent_s, self._end))
        return self._timeout

    def progressed(self, params: Mapping[str, Any]) -> None:
        """The server is still at it."""
        done, total, message = params.get("progress"), params.get("total"), params.get("message")
        parts = [f"{done:g}" if _number(done) else "", f" of {total:g}" if _number(total) else ""]
        text = f": {message}" if isinstance(message, str) and message else ""
        self.told = plain_line("".join(parts) + text, 200)
        if self._timeout is not None and not self._timeout.expired():
            now = asyncio.get_running_loop().time()
            self._timeout.reschedule(min(now + self.silent_s, self._end))


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST


@dataclass(slots=True)
class Peer:
    """One conversation. `transport` is set before the first request; `on_broken` is told once."""

    heard: Heard
    on_broken: Callable[[str], None]
    transport: Transport | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What goes with every request, for servers without a handshake."""
    broken: str = ""
    _waiting: dict[int, tuple[asyncio.Future[Message], Clock]] = field(
        default_factory=dict[int, "tuple[asyncio.Future[Message], Clock]"]
    )
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def ask(self, method: str, params: Mapping[str, Any], clock: Clock, *, progress: bool = False) -> Message:
        """The result of a request. Raises ServerTrouble, Refused; cancelled, the server is told."""
        if self.broken or self.transport is None:
            raise ServerTrouble(self.broken or "is not connected", dead=True)
        number = next(self._numbers)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (answer, clock)
        meta = {**self.meta, **({"progressToken": number} if progress else {})}
        message: Message = {"jsonrpc": "2.0", "id": number, "method": method}
        message["params"] = {**params, "_meta": meta} if meta else dict(params)
        try:
            self.transport.send(message)
            async with clock.start():
                return await answer
        except TimeoutError:
            self._give_up(number, method, "it took too long")
            at = f"; it was at {clock.told}" if clock.told else ""
            raise ServerTrouble(f"gave no answer in {min(clock.silent_s, clock.longest_s):g} s{at}") from None
        except asyncio.CancelledError:
            self._give_up(number, method, "it is not wanted any more")
            raise
        finally:
            self._waiting.pop(number, None)

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        if self.transport is not None and not self.broken:
            self.transport.send({"jsonrpc": "2.0", "method": method, "params": dict(params)})

    def deliver(self, message: object) -> bool:
        """Take what arrived; whether somebody had asked for it. Never raises for what it holds."""
        if isinstance(message, list):
            batch = cast("list[object]", message)[:MOST_IN_A_BATCH]
            answers = [self.deliver(part) for part in batch if not isinstance(part, list)]
            return any(answers)
        if not isinstance(message, dict):
            return False
        said = cast("Message", message)
        method, number = said.get("method"), said.get("id")
        if isinstance(method, str):
            self._asked(method, said)
            return False
        # Some servers give a number back as text.
        number = int(number) if isinstance(number, str) and number.isdecimal() and len(number) < 18 else number
        if isinstance(number, bool) or not isinstance(number, int) or number not in self._waiting:
            return False
        self._answer(number, said)
        return True

    def broke(self, why: str, number: int | None = None) -> None:
        """The transport can do no more for this request, or, without a number, at all."""
        if number is not None:
            self._fail(number, ServerTrouble(why))
            return
        if self.broken:
            return
        self.broken = why
        for one in list(self._waiting):
            self._fail(one, ServerTrouble(why, dead=True))
        self.on_broken(why)

    def _answer(self, number: int, said: Message) -> None:
        error, result = said.get("error"), said.get("result")
        if isinstance(error, dict):
            told = cast("Message", error)
            code = told.get("code")
            self._fail(number, Refused(code if isinstance(code, int) else 0, str(told.get("message", ""))))
        elif isinstance(result, dict):
            answer, _ = self._waiting[number]
            if not answer.done():
                answer.set_result(cast("Message", result))
        else:
            self._fail(number, ServerTrouble("gave an answer that is none"))

    def _fail(self, number: int, problem: ServerTrouble) -> None:
        answer, _ = self._waiting.get(number, (None, None))
        if answer is not None and not answer.done():
            answer.set_exception(problem)

    def _asked(self, method: str, said: Message) -> None:
        params = said.get("params")
        given = cast("Message", params) if isinstance(params, dict) else Message()
        number = said.get("id")
        if number is not None:
            self._reply(method, number)
        elif method == "notifications/progress":
            token = given.get("progressToken")
            _, clock = self._waiting.get(token, (None, None)) if isinstance(token, int) else (None, None)
            if clock is not None:
                clock.progressed(given)
        else:
            self.heard(method, given)

    def _reply(self, method: str, number: object) -> None:
        if self.transport is None or self.broken or not isinstance(number, int | str):
            return
        reply: Message = {"jsonrpc": "2.0", "id": number}
        if method == "ping":
            reply["result"] = {}
        else:
            reply["error"] = {"code": METHOD_UNKNOWN, "message": "this client does not do that"}
        self.transport.send(reply)

    def _give_up(self, number: int, method: str, why: str) -> None:
        if self.transport is not None:
            self.transport.drop(number)
        if method != "initialize":
            self.tell("notifications/cancelled", {"requestId": number, "reason": why})
