"""The event log of a session: numbered events, for attached clients and for clients that attach later.

One process writes it, any process may read it: forward, from a position, or from the end. It contains a snapshot every
500 events, so that a reader of the current state reads a bounded part of it backward. The state files, not the log, are
authoritative, so a log that cannot be written never stops a team.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, cast

from msgspec import Struct, field

from teamwright.protocol.errors import StorageError
from teamwright.protocol.event_json import SCHEMA, from_json
from teamwright.protocol.events import LIVE, ModelCallEnded, Notice, RequestOpened, TeamEvent, ToolCalled
from teamwright.protocol.messages import encode
from teamwright.storage.json_lines import (
    Journal,
    LostLines,
    read_backward,
    read_backward_with_offsets,
    read_lines,
    set_aside_damaged_lines,
)

Subscriber = Callable[[int, TeamEvent], None]
Kinds = tuple[type[TeamEvent], ...]
"""The kinds of events that a subscriber wants; none: all."""

MAX_WAITING = 1_000
"""Events that wait in memory for one slow reader. Beyond them the reader reads the file, and live events are dropped.
"""

SNAPSHOT_EVERY = 500
"""Logged events between two snapshots: the most that a reader of the current state reads backward."""

MAX_SEARCHED = 20_000
"""Maximum number of events that are read backward: logs of an older version contain no snapshot."""

LOG_NAME = "events.jsonl"
"""Name of an event log in the directory of a session or of a member process."""

_ENCODED_AT_ONCE = (ToolCalled, RequestOpened)
"""Events that contain objects of other modules (a tool's input), which may change later: they are encoded immediately.
"""

_WRITTEN_AT_ONCE = (ToolCalled, ModelCallEnded)
"""Events that are in the file before the work continues: every result in a conversation has its number here, and a kill
loses no money that was spent."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_logger = logging.getLogger(__name__)


class SnapshotState(Protocol):
    """The state that results from the events, as snapshots contain it."""

    def apply(self, number: int, event: TeamEvent, /) -> None:
        """Apply a logged event."""

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
        self._subscribers: tuple[tuple[Subscriber, Kinds], ...] = ()
        self._by_kind: dict[type[TeamEvent], tuple[Subscriber, ...]] = {}
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
            if isinstance(event, _WRITTEN_AT_ONCE):
                self.flush()
            elif first:
                self._flush_soon()
            self._pass_on(event)
        else:
            for subscriber in self._live:
                _call_subscriber(subscriber, self._n, event)

    def _pass_on(self, event: TeamEvent) -> None:
        """Call the subscribers that want events of this kind."""
        kind = type(event)
        if (wanting := self._by_kind.get(kind)) is None:
            wanting = tuple(one for one, kinds in self._subscribers if not kinds or kind in kinds)
            self._by_kind[kind] = wanting
        for subscriber in wanting:
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

    def subscribe(self, callback: Subscriber, *, live: bool = True, kinds: Kinds = ()) -> Callable[[], None]:
        """Call `callback(number, event)` at each later event, until the returned function is called.

        Without `live` only at logged events: live events are not constructed while no subscriber wants them. With
        `kinds` only at logged events of these kinds.
        """
        self._subscribers = (*self._subscribers, (callback, kinds))
        self._by_kind = {}
        if live and not kinds:
            self._set_live((*self._live, callback))

        def unsubscribe() -> None:
            self._subscribers = tuple(one for one in self._subscribers if one[0] is not callback)
            self._by_kind = {}
            self._set_live(tuple(one for one in self._live if one is not callback))

        return unsubscribe

    def _set_live(self, live: tuple[Subscriber, ...]) -> None:
        before = self.has_listeners()
        self._live = live
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
        waiting = self._lines
        self._lines = []
        if not waiting or self._journal is None:
            return
        lines = [one if isinstance(one, bytes) else _line(*one) for one in waiting]
        try:
            self._journal.append(*lines)
        except StorageError as problem:
            if not self._warned:
                self._warned = True
                text = f"the event log has gaps from now on: {problem.what}"
                self._pass_on(Notice(member="system", text=text, level="warning"))

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
    body = event.as_json()
    try:
        return head + encode(body)[1:]
    except (TypeError, ValueError, RecursionError):  # a tool's input contains an object that is no JSON
        return head + _line_as_text(body, event)


def _line_as_text(body: dict[str, Any], event: TeamEvent) -> bytes:
    """Return the line with objects that are no JSON as text; when that fails too, a line that reports it."""
    try:
        return _encode(body)[1:].encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError):  # for example an object that contains itself
        rest = {"type": event.KIND, "at": event.at, "member": event.member, "unwritable": True}
        return _encode(rest)[1:].encode("utf-8", "replace")


_BATCH = 64
_BLOCK = 1 << 16
_SNAPSHOT = b'"type":"snapshot"'
_SNAPSHOT_AT = re.compile(rb'"at":([0-9]{1,12}(?:\.[0-9]{1,9})?)')


def log_path(directory: Path) -> Path:
    """Return the event log in the directory of a session or of a member process."""
    return directory / LOG_NAME


def newest_log(parents: Iterable[Path]) -> Path | None:
    """Return the event log of the directories in `parents` that was written last; None without one."""
    found = [path for parent in parents for path in parent.glob(f"*/{LOG_NAME}") if path.is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


class LogSnapshot(Struct, frozen=True):
    """The state after event `number`, as its writer saw it. `is_closed`: the writer ended in order after this event."""

    number: int
    state: Mapping[str, Any]
    is_closed: bool = False


class RecentEvents(Struct, frozen=True):
    """The end of a log: the newest snapshot (None: there is none) and the events after it, oldest first.

    `is_complete` is False when older events were left out: the state that they would give is then unknown.
    """

    snapshot: LogSnapshot | None = None
    events: list[tuple[int, TeamEvent]] = field(default_factory=list[tuple[int, TeamEvent]])
    is_complete: bool = True


def read_events(path: Path, after: int = 0) -> Iterator[tuple[int, TeamEvent]]:
    """Yield the logged events after number `after`, for other processes; kinds of newer versions are left out.

    The events up to `after` are not read.
    """
    for line in read_lines(path, find_event_end(path, after)):
        if (n := parse_number(line)) > after and (event := parse_event(line)) is not None:
            yield n, event


def read_newest(path: Path, *, since: float = 0.0, marks: tuple[bytes, ...] = ()) -> Iterator[tuple[int, TeamEvent]]:
    """Yield the logged events, newest first, back to the newest snapshot that is older than `since`.

    `since` is in seconds since 1970; the last events may be older than that. With `marks` only lines that contain all
    of these bytes are parsed.
    """
    for line in read_backward(path):
        if (at := parse_snapshot_time(line)) is not None:
            if at < since:
                return  # an event is logged after it happened: all before are older
        elif (
            all(mark in line for mark in marks)
            and (n := parse_number(line))
            and (event := parse_event(line)) is not None
        ):
            yield n, event


def find_event_end(path: Path, number: int) -> int:
    """Return the byte offset after the event of that number, or after the newest line with a lower number.

    Searches from the end. Returns 0 when there is no such line.
    """
    found = 0
    if number > 0:
        found = next((end for end, line in read_backward_with_offsets(path) if 0 < parse_number(line) <= number), 0)
    if found:
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            return found if os.pread(file.fileno(), 1, found - 1) == b"\n" else 0
    return 0


def read_recent(path: Path, most: int = MAX_SEARCHED) -> RecentEvents:
    """Return the newest snapshot and the events after it; at most `most` events."""
    events: list[tuple[int, TeamEvent]] = []
    snapshot: LogSnapshot | None = None
    whole = True
    for line in read_backward(path):
        if len(events) >= most:
            whole = False
            break
        if (snapshot := parse_snapshot(line)) is not None:
            break
        if (n := parse_number(line)) and (event := parse_event(line)) is not None:
            events.append((n, event))
    events.reverse()
    return RecentEvents(snapshot, events, whole)


def set_aside_lost_events(path: Path) -> LostLines | None:
    """Replace damaged lines among the newest MAX_SEARCHED ones; return None when all are whole. Only for the log's
    writer."""
    return set_aside_damaged_lines(path, _is_whole, lambda _line: False, MAX_SEARCHED)


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def last_number(path: Path) -> int:
    """Return the number of the newest event, 0 when there is none."""
    return next((n for line in read_backward(path) if (n := parse_number(line))), 0) if os.path.exists(path) else 0


def find_call_number(path: Path, use: str) -> str:
    """Return the number (`c7`) of the newest call to which a model gave this id; empty when the log has none."""
    pattern = b'"use":%s' % json.dumps(use).encode()
    lines = (line for line in read_backward(path) if pattern in line and b'"tool_called"' in line[:80])
    events = (event for line in lines if isinstance(event := parse_event(line), ToolCalled) and event.use == use)
    return next((event.call for event in events), "")


def last_call_number(path: Path) -> int:
    """Return the highest N among the tool calls `cN` of the log, 0 when there is none: a resumed session continues from
    it.

    Calls are logged when they end, so the highest is near the end: the newest 256 are searched, backward.
    """
    calls = (event for line in read_backward(path) if b'"tool_called"' in line[:80] and (event := parse_event(line)))
    numbers = (event.call.removeprefix("c") for event in islice(calls, 256) if isinstance(event, ToolCalled))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


class LogTail:
    """A reader that continues where it stopped, some events at a time. The file may be missing at first."""

    def __init__(self, path: Path, after: int) -> None:
        self.after = after
        """The number of the last event that was read."""
        self.closed = False
        """True when the last line that was read reports that its writer ended in order."""
        self._path = path
        self._offset: int = 0
        self._inode: int = 0

    @classmethod
    def at_end(cls, path: Path) -> LogTail:
        """Return a reader that begins after the last whole line of the file; `skip_to` names its event."""
        tail = cls(path, 0)
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            tail._inode = stat.st_ino
            start = stat.st_size
            while start > 0 and not tail._offset:
                end = start
                start = max(0, start - _BLOCK)
                tail._offset = start + os.pread(file.fileno(), end - start, start).rfind(b"\n") + 1
                tail._offset = tail._offset if tail._offset > start else 0
        return tail

    @classmethod
    def after_event(cls, path: Path, after: int) -> LogTail:
        """Return a reader that begins after the event of that number and reads nothing before it."""
        tail = cls(path, after)
        with contextlib.suppress(OSError):
            tail._inode = os.stat(path).st_ino
            tail._offset = find_event_end(path, after)
        return tail

    def skip_to(self, number: int, *, closed: bool) -> None:
        """Skip the events up to this number. `closed`: the last of them reports that its writer ended in order."""
        self.after = number
        self.closed = closed

    def read(self) -> list[tuple[int, TeamEvent]]:
        """Return the next logged events after `after`, at most a batch; empty at the end of the file."""
        found: list[tuple[int, TeamEvent]] = []
        with contextlib.suppress(FileNotFoundError), open(self._path, "rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            if inode != self._inode:
                self._inode = inode
                self._offset = 0
            file.seek(self._offset)
            while len(found) < _BATCH and (line := file.readline())[-1:] == b"\n":
                self._offset += len(line)
                self._take(line, found)
        return found

    def _take(self, line: bytes, found: list[tuple[int, TeamEvent]]) -> None:
        n = parse_number(line)
        if n > self.after:
            self.closed = False
            if (event := parse_event(line)) is not None:
                self.after = n
                found.append((n, event))
        elif n and (snapshot := parse_snapshot(line)) is not None:
            self.closed = snapshot.is_closed


def parse_number(line: bytes) -> int:
    """Return the event number of a log line without parsing all of it; 0 for any other line."""
    if not line.startswith(b'{"n":'):
        return 0
    digits = line[5 : line.find(b",", 5, 25)]
    return int(digits) if digits.isdigit() else 0


def parse_event(line: bytes) -> TeamEvent | None:
    """Return the event of a line; None for a snapshot, an unknown kind, and a line that is no event."""
    try:
        value: object = json.loads(line)
        return from_json(cast("dict[str, Any]", value)) if isinstance(value, dict) else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def parse_snapshot_time(line: bytes) -> float | None:
    """Return when a snapshot was written, in seconds since 1970, without parsing all of it; None for any other line."""
    found = _SNAPSHOT_AT.search(line, 0, 96) if _SNAPSHOT in line[:64] else None
    return float(found[1]) if found is not None else None


def parse_snapshot(line: bytes) -> LogSnapshot | None:
    """Return the snapshot of a line; None for any other line, and for a damaged one."""
    if _SNAPSHOT not in line[:64]:
        return None
    try:
        value = cast("dict[str, Any]", json.loads(line))
        state: Any = value["state"]
        known = isinstance(state, dict)
        return LogSnapshot(int(value["n"]), cast("dict[str, Any]", state), bool(value.get("closed"))) if known else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
