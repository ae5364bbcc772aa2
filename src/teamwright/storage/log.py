"""The event log: what happened in a session, numbered, for surfaces that are attached and for those that come later.

One process writes it, any may read it. Below it: `jsonl` and the words of `protocol.events`. The log tells what
changed; the files are the truth, so a log that cannot be written never stops a team.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

from teamwright.protocol.blocks import encode
from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import LIVE, SCHEMA, Notice, TeamEvent, ToolCalled, from_json, to_json
from teamwright.storage.jsonl import Journal, read_backward, read_lines

Subscriber = Callable[[int, TeamEvent], None]

MOST_WAITING = 1_000
"""Events that wait in memory for one slow reader; beyond them it reads the file, and live ones are dropped."""

_BATCH = 64
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_logger = logging.getLogger(__name__)


class EventLog:
    """The one writer of a session's log. Opening it continues the numbering. Raises StorageError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal: Journal | None = Journal.open(path)
        self._n = _last_number(path)
        self._lines: list[bytes] = []
        self._subscribers: tuple[Subscriber, ...] = ()
        self._live: tuple[Subscriber, ...] = ()
        self._feeds: list[_Feed] = []
        self._warned = False

    @property
    def last(self) -> int:
        """The number of the newest logged event, 0 when there is none."""
        return self._n

    def emit(self, event: TeamEvent) -> None:
        """Number the event, log it and show it to all who are attached; never blocks, never raises.

        Live events are shown only, under the number of the last logged one.
        """
        if not isinstance(event, LIVE):
            self._n += 1
            self._lines.append(_line(self._n, event))
            if len(self._lines) == 1:
                self._flush_soon()
            for subscriber in self._subscribers:
                _show(subscriber, self._n, event)
        else:
            for subscriber in self._live:
                _show(subscriber, self._n, event)

    def attended(self) -> bool:
        """Whether anybody would be shown a live event."""
        return bool(self._live)

    def subscribe(self, callback: Subscriber, *, live: bool = True) -> Callable[[], None]:
        """Call `callback(number, event)` at each event from now on, until the returned function is called.

        Without `live` only at logged events: live ones are not even made while nobody wants them.
        """
        self._subscribers = (*self._subscribers, callback)
        if live:
            self._live = (*self._live, callback)

        def unsubscribe() -> None:
            self._subscribers = tuple(one for one in self._subscribers if one is not callback)
            self._live = tuple(one for one in self._live if one is not callback)

        return unsubscribe

    async def follow(self, after: int = 0) -> AsyncGenerator[tuple[int, TeamEvent], None]:
        """All logged events behind number `after`, then every event as it comes, until the log is closed.

        A reader that is slow never holds up the team: it is served from the file.
        """
        feed = _Feed()
        unsubscribe = self.subscribe(feed.put)
        self._feeds.append(feed)
        tail = _Tail(self.path, after)
        try:
            while True:
                async for item in self._catch_up(feed, tail):
                    yield item
                async for item in feed.events(tail, closed=self._journal is None):
                    yield item
                if not feed.overflowed:
                    return
        finally:
            unsubscribe()
            self._feeds.remove(feed)

    async def _catch_up(self, feed: _Feed, tail: _Tail) -> AsyncIterator[tuple[int, TeamEvent]]:
        feed.restart()
        self.flush()
        while batch := tail.read():
            for item in batch:
                yield item
            await asyncio.sleep(0)

    def flush(self) -> None:
        """Write what waits. A disk that refuses is told once, as a notice; the events of that moment are lost."""
        lines, self._lines = self._lines, []
        if not lines or self._journal is None:
            return
        try:
            self._journal.append(*lines)
        except StorageError as problem:
            if not self._warned:
                self._warned = True
                text = f"the event log has gaps from now on: {problem.what}"
                notice = Notice(member="system", text=text, level="warning")
                for subscriber in self._subscribers:
                    _show(subscriber, self._n, notice)

    def close(self) -> None:
        """Write what waits and let the readers end; harmless when closed."""
        self.flush()
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        for feed in self._feeds:
            feed.end()

    def _flush_soon(self) -> None:
        try:
            asyncio.get_running_loop().call_soon(self.flush)
        except RuntimeError:
            self.flush()


def read_events(path: Path, after: int = 0) -> Iterator[tuple[int, TeamEvent]]:
    """The logged events behind number `after`, for other processes; kinds of newer versions are left out."""
    for line in read_lines(path):
        if (n := _number(line)) > after and (event := _parsed(line)) is not None:
            yield n, event


def last_call(path: Path) -> int:
    """The highest N among the tool calls `cN` of the log, 0 when there is none: a session that goes on counts on.

    Calls are logged as they end, so the highest is near the end: the newest 256 are looked at, backward.
    """
    calls = (event for line in read_backward(path) if b'"tool_called"' in line[:80] and (event := _parsed(line)))
    numbers = (event.call.removeprefix("c") for event in islice(calls, 256) if isinstance(event, ToolCalled))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


class _Feed:
    """What waits for one reader."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, TeamEvent]] = deque()
        self._some = asyncio.Event()
        self._ended = False
        self.overflowed = False

    def put(self, n: int, event: TeamEvent) -> None:
        if self.overflowed:
            return
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append((n, event))
        elif not isinstance(event, LIVE):
            self.overflowed = True
        self._some.set()

    def restart(self) -> None:
        """Begin anew: what waits is in the file, but for the newest."""
        self._waiting.clear()
        self.overflowed = False

    def end(self) -> None:
        self._ended = True
        self._some.set()

    async def events(self, tail: _Tail, *, closed: bool) -> AsyncIterator[tuple[int, TeamEvent]]:
        """What waits and what comes, until the log is closed or the reader was too slow."""
        while True:
            while self._waiting:
                n, event = self._waiting.popleft()
                if isinstance(event, LIVE):
                    yield n, event
                elif n > tail.after:
                    tail.after = n
                    yield n, event
            if self.overflowed or self._ended or closed:
                return
            self._some.clear()
            await self._some.wait()


class _Tail:
    """Reads a log on from where it stopped, some events at a time."""

    def __init__(self, path: Path, after: int) -> None:
        self._path = path
        self._offset = 0
        self.after = after

    def read(self) -> list[tuple[int, TeamEvent]]:
        """The next logged events behind `after`, at most a batch; empty at the end of the file."""
        found: list[tuple[int, TeamEvent]] = []
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            while len(found) < _BATCH and (line := file.readline())[-1:] == b"\n":
                self._offset += len(line)
                n = _number(line)
                if n > self.after and (event := _parsed(line)) is not None:
                    self.after = n
                    found.append((n, event))
        return found


def _show(subscriber: Subscriber, n: int, event: TeamEvent) -> None:
    try:
        subscriber(n, event)
    except Exception:  # one bad surface is no reason to stop the others, or the team
        _logger.exception("a subscriber of the event log failed")


def _line(n: int, event: TeamEvent) -> bytes:
    head = b'{"n":%d,"v":%d,' % (n, SCHEMA)
    body = to_json(event)
    try:
        return head + encode(body)[1:]
    except (TypeError, ValueError, RecursionError):  # something in a tool's input that is no JSON
        return head + _as_text(body, event)


def _as_text(body: dict[str, Any], event: TeamEvent) -> bytes:
    """The line with what is no JSON as its text; or, when that cannot be, a line that says so."""
    try:
        return _encode(body)[1:].encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError):  # an object that holds itself, for one
        rest = {"type": event.KIND, "at": event.at, "member": event.member, "unwritable": True}
        return _encode(rest)[1:].encode("utf-8", "replace")


def _number(line: bytes) -> int:
    """The number of a log line without parsing it all; 0 for what is no line of ours."""
    if not line.startswith(b'{"n":'):
        return 0
    digits = line[5 : line.find(b",", 5, 25)]
    return int(digits) if digits.isdigit() else 0


def _parsed(line: bytes) -> TeamEvent | None:
    try:
        value: object = json.loads(line)
        return from_json(cast("dict[str, Any]", value)) if isinstance(value, dict) else None
    except (ValueError, TypeError, KeyError):
        return None


def _last_number(path: Path) -> int:
    if not os.path.exists(path):
        return 0
    return next((n for line in read_backward(path) if (n := _number(line))), 0)
