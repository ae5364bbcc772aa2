"""Reading an event log, in the writing process or in any other: forward, from a position, or from the end.

A log contains a snapshot every 500 events, so that a reader of the current state reads a bounded part of it backward.
Depends on `jsonl` and `protocol.events`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.protocol.event_json import from_json
from teamwright.protocol.events import TeamEvent, ToolCalled
from teamwright.storage.jsonl import (
    LostLines,
    read_backward,
    read_backward_with_offsets,
    read_lines,
    set_aside_damaged_lines,
)

MAX_SEARCHED = 20_000
"""Maximum number of events that are read backward: logs of an older version contain no snapshot."""

LOG_NAME = "events.jsonl"
"""Name of an event log in the directory of a session or of a member process."""

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
            tail._inode, start = stat.st_ino, stat.st_size
            while start > 0 and not tail._offset:
                end, start = start, max(0, start - _BLOCK)
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
        self.after, self.closed = number, closed

    def read(self) -> list[tuple[int, TeamEvent]]:
        """Return the next logged events after `after`, at most a batch; empty at the end of the file."""
        found: list[tuple[int, TeamEvent]] = []
        with contextlib.suppress(FileNotFoundError), open(self._path, "rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            if inode != self._inode:
                self._inode, self._offset = inode, 0
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
