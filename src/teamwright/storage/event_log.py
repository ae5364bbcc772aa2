"""The event log of a session: numbered events, for attached clients and for clients that attach later.

One process writes it, any process may read it (`event_log_reader`). Depends on `jsonl` and `protocol.events`. The state
files, not the log, are authoritative, so a log that cannot be written never stops a team.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from teamwright.protocol.errors import StorageError
from teamwright.protocol.event_json import SCHEMA, to_json
from teamwright.protocol.events import LIVE, Notice, RequestOpened, TeamEvent, ToolCalled
from teamwright.protocol.messages import encode
from teamwright.storage.event_log_reader import LogTail, last_number, set_aside_lost_events
from teamwright.storage.jsonl import Journal

Subscriber = Callable[[int, TeamEvent], None]

MAX_WAITING = 1_000
"""Events that wait in memory for one slow reader. Beyond them the reader reads the file, and live events are dropped.
"""

SNAPSHOT_EVERY = 500
"""Logged events between two snapshots: the most that a reader of the current state reads backward."""

_ENCODED_AT_ONCE = (ToolCalled, RequestOpened)
"""Events that contain objects of other modules (a tool's input), which may change later: they are encoded immediately.
"""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_logger = logging.getLogger(__name__)


class SnapshotState(Protocol):
    """The state that results from the events, as snapshots contain it."""

    def apply(self, number: int, event: TeamEvent, /) -> None:
        """Apply a logged event."""
        ...

    def as_json(self) -> Mapping[str, Any]:
        """Return the state as the snapshot contains it."""
        ...


class EventLog:
    """The one writer of a session's log. Opening it continues the numbering. Raises StorageError.

    `state` is the state of the events so far. It receives each logged event before any subscriber does; without a state
    no snapshots are written.
    """

    def __init__(self, path: Path, state: SnapshotState | None = None) -> None:
        self.path = path
        self.state = state
        self.lost_lines = set_aside_lost_events(path)
        """Damaged lines that were set aside when the log was opened."""
        self._journal: Journal | None = Journal.open(path)
        self._n = last_number(path)
        self._snapshot_at = self._n + (1 if self._n else SNAPSHOT_EVERY)
        self._lines: list[bytes | tuple[int, TeamEvent]] = []
        self._subscribers: tuple[Subscriber, ...] = ()
        self._live: tuple[Subscriber, ...] = ()
        self._followers: tuple[Callable[[bool], None], ...] = ()
        self._feeds: list[_Feed] = []
        self._warned = False
        if self.lost_lines is not None:
            self.emit(Notice(member="system", text=str(self.lost_lines), level="warning"))

    @property
    def last_number(self) -> int:
        """The number of the newest logged event, 0 when there is none."""
        return self._n

    def emit(self, event: TeamEvent) -> None:
        """Number the event, log it and pass it to all subscribers; never blocks, never raises.

        Live events are only passed on, under the number of the last logged event.
        """
        if not isinstance(event, LIVE):
            self._n += 1
            first = not self._lines
            # Other events are encoded when they are written, so that emitting an event does not wait for the encoder (8
            # µs each).
            self._lines.append(_line(self._n, event) if isinstance(event, _ENCODED_AT_ONCE) else (self._n, event))
            if self.state is not None:
                self._update_state(self.state, event)
            if isinstance(event, ToolCalled):
                self.flush()  # before the conversation has the result: every result there has its number here
            elif first:
                self._flush_soon()
            for subscriber in self._subscribers:
                _call_subscriber(subscriber, self._n, event)
        else:
            for subscriber in self._live:
                _call_subscriber(subscriber, self._n, event)

    def _update_state(self, state: SnapshotState, event: TeamEvent) -> None:
        _call_subscriber(state.apply, self._n, event)
        if self._n >= self._snapshot_at:
            self._snapshot_at = self._n + SNAPSHOT_EVERY
            self._lines += _snapshot_lines(self._n, state, closed=False)

    def has_listeners(self) -> bool:
        """Return True when a subscriber wants live events."""
        return bool(self._live)

    def follow_listeners(self, follower: Callable[[bool], None]) -> None:
        """Call `follower` with True when the first subscriber wants live events, and with False after the last one."""
        self._followers = (*self._followers, follower)

    def subscribe(self, callback: Subscriber, *, live: bool = True) -> Callable[[], None]:
        """Call `callback(number, event)` at each later event, until the returned function is called.

        Without `live` only at logged events: live events are not constructed while no subscriber wants them.
        """
        self._subscribers = (*self._subscribers, callback)
        if live:
            self._set_live((*self._live, callback))

        def unsubscribe() -> None:
            self._subscribers = tuple(one for one in self._subscribers if one is not callback)
            self._set_live(tuple(one for one in self._live if one is not callback))

        return unsubscribe

    def _set_live(self, live: tuple[Subscriber, ...]) -> None:
        before, self._live = self.has_listeners(), live
        if before is not self.has_listeners():
            for follower in self._followers:
                follower(not before)

    async def follow(self, after: int = 0) -> AsyncGenerator[tuple[int, TeamEvent], None]:
        """Yield all logged events after number `after`, then every new event, until the log is closed.

        A slow reader never blocks the team: it reads from the file.
        """
        feed = _Feed()
        unsubscribe = self.subscribe(feed.put)
        self._feeds.append(feed)
        tail = LogTail.after_event(self.path, after)
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

    async def _catch_up(self, feed: _Feed, tail: LogTail) -> AsyncIterator[tuple[int, TeamEvent]]:
        feed.restart()
        self.flush()
        while batch := tail.read():
            for item in batch:
                yield item
            await asyncio.sleep(0)

    def flush(self) -> None:
        """Write the waiting events. The first refusal of the disk is reported as a notice; the events of that moment
        are lost."""
        waiting, self._lines = self._lines, []
        if not waiting or self._journal is None:
            return
        lines = [one if isinstance(one, bytes) else _line(*one) for one in waiting]
        try:
            self._journal.append(*lines)
        except StorageError as problem:
            if not self._warned:
                self._warned = True
                text = f"the event log has gaps from now on: {problem.what}"
                notice = Notice(member="system", text=text, level="warning")
                for subscriber in self._subscribers:
                    _call_subscriber(subscriber, self._n, notice)

    def close(self) -> None:
        """Write the waiting events and a last snapshot, and end the readers; harmless when closed."""
        if self._journal is not None and self.state is not None:
            self._lines += _snapshot_lines(self._n, self.state, closed=True)
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


class _Feed:
    """The events that wait for one reader."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, TeamEvent]] = deque()
        self._has_events = asyncio.Event()
        self._ended = False
        self.overflowed = False

    def put(self, n: int, event: TeamEvent) -> None:
        if self.overflowed:
            return
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append((n, event))
        elif not isinstance(event, LIVE):
            self.overflowed = True
        self._has_events.set()

    def restart(self) -> None:
        """Drop the waiting events: the reader finds the logged ones in the file."""
        self._waiting.clear()
        self.overflowed = False

    def end(self) -> None:
        self._ended = True
        self._has_events.set()

    async def events(self, tail: LogTail, *, closed: bool) -> AsyncIterator[tuple[int, TeamEvent]]:
        """Yield waiting and new events, until the log is closed or the reader was too slow."""
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
            self._has_events.clear()
            await self._has_events.wait()


def _call_subscriber(subscriber: Subscriber, n: int, event: TeamEvent) -> None:
    try:
        subscriber(n, event)
    except Exception:  # a subscriber that fails must not stop the others, or the team
        _logger.exception("a subscriber of the event log failed")


def _snapshot_lines(n: int, state: SnapshotState, *, closed: bool) -> list[bytes]:
    """Return the line of a snapshot, which follows the event with its number; empty when it cannot be encoded."""
    head = b'{"n":%d,"v":%d,"type":"snapshot",' % (n, SCHEMA)
    try:
        return [head + encode({"at": round(time.time(), 3), "closed": closed, "state": dict(state.as_json())})[1:]]
    except Exception:  # a bug here must not stop the team: the events are logged anyway
        _logger.exception("no snapshot could be made of the event log")
        return []


def _line(n: int, event: TeamEvent) -> bytes:
    head = b'{"n":%d,"v":%d,' % (n, SCHEMA)
    body = to_json(event)
    try:
        return head + encode(body)[1:]
    except (TypeError, ValueError, RecursionError):  # a tool's input contains an object that is no JSON
        return head + _as_text(body, event)


def _as_text(body: dict[str, Any], event: TeamEvent) -> bytes:
    """Return the line with objects that are no JSON as text; when that fails too, a line that reports it."""
    try:
        return _encode(body)[1:].encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError):  # for example an object that contains itself
        rest = {"type": event.KIND, "at": event.at, "member": event.member, "unwritable": True}
        return _encode(rest)[1:].encode("utf-8", "replace")
