"""Reading an event log, in the process that writes it and in any other: forward, on from a place, from the end.

Every 500 events the log holds a snapshot, so that whoever wants the present state reads a bounded piece of it
backward. Below it: `jsonl` and the words of `protocol.events`. Refuses to know what a snapshot means.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Any, cast

from teamwright.protocol.event_json import from_json
from teamwright.protocol.events import TeamEvent, ToolCalled
from teamwright.protocol.values import dataclass
from teamwright.storage.jsonl import read_backward, read_backward_with_offsets, read_lines
from teamwright.storage.lost_lines import LostLines, set_aside_damaged_lines

MAX_SEARCHED = 20_000
"""Events that are read backward at most: logs of an older version hold no snapshot."""

_BATCH = 64
_BLOCK = 1 << 16
_SNAPSHOT = b'"type":"snapshot"'
_SNAPSHOT_AT = re.compile(rb'"at":([0-9]{1,12}(?:\.[0-9]{1,9})?)')


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """The state after event number `n`, as its writer saw it. `closed`: the writer ended in order, right here."""

    number: int
    state: Mapping[str, Any]
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class RecentEvents:
    """The end of a log: the newest snapshot (None: there is none) and the events behind it, oldest first.

    `whole` is false when older events were left out: then what they told is not known.
    """

    snapshot: LogSnapshot | None = None
    events: list[tuple[int, TeamEvent]] = field(default_factory=list[tuple[int, TeamEvent]])
    is_complete: bool = True


def read_events(path: Path, after: int = 0) -> Iterator[tuple[int, TeamEvent]]:
    """The logged events behind number `after`, for other processes; kinds of newer versions are left out.

    Of the events up to `after` nothing is read.
    """
    for line in read_lines(path, find_event_end(path, after)):
        if (n := parse_number(line)) > after and (event := parse_event(line)) is not None:
            yield n, event


def read_newest(path: Path, *, since: float = 0.0, marks: tuple[bytes, ...] = ()) -> Iterator[tuple[int, TeamEvent]]:
    """The logged events from the newest back, as far as any may be of `since` (seconds since 1970) or later.

    With `marks` only lines that contain all of these bytes.
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
    """The byte behind the event of that number, looked for from the end; 0 where it is not found."""
    found = 0
    if number > 0:
        found = next((end for end, line in read_backward_with_offsets(path) if 0 < parse_number(line) <= number), 0)
    if found:
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            return found if os.pread(file.fileno(), 1, found - 1) == b"\n" else 0
    return 0


def read_recent(path: Path, most: int = MAX_SEARCHED) -> RecentEvents:
    """The newest snapshot and what came behind it; at most so many events."""
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
    """Replace damaged lines among the newest MOST_UNREAD ones; None when all are whole. Only for the log's writer."""
    return set_aside_damaged_lines(path, _is_whole, lambda _line: False, MAX_SEARCHED)


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def last_number(path: Path) -> int:
    """The number of the newest event, 0 when there is none."""
    return next((n for line in read_backward(path) if (n := parse_number(line))), 0) if os.path.exists(path) else 0


def find_call_number(path: Path, use: str) -> str:
    """The number (`c7`) of the call that a model gave this id, the newest of several; empty when the log has none."""
    wanted = b'"use":%s' % json.dumps(use).encode()
    lines = (line for line in read_backward(path) if wanted in line and b'"tool_called"' in line[:80])
    events = (event for line in lines if isinstance(event := parse_event(line), ToolCalled) and event.use == use)
    return next((event.call for event in events), "")


def last_call_number(path: Path) -> int:
    """The highest N among the tool calls `cN` of the log, 0 when there is none: a session that goes on counts on.

    Calls are logged as they end, so the highest is near the end: the newest 256 are looked at, backward.
    """
    calls = (event for line in read_backward(path) if b'"tool_called"' in line[:80] and (event := parse_event(line)))
    numbers = (event.call.removeprefix("c") for event in islice(calls, 256) if isinstance(event, ToolCalled))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


class LogTail:
    """Reads a log on from where it stopped, some events at a time. The file need not be there yet."""

    def __init__(self, path: Path, after: int) -> None:
        self.after = after
        """The number of the last event that was read."""
        self.closed = False
        """Whether the last line that was read says that its writer ended in order."""
        self._path = path
        self._offset: int = 0
        self._inode: int = 0

    @classmethod
    def at_end(cls, path: Path) -> LogTail:
        """One that begins behind the last whole line that is there now; set `after` to what is known already."""
        made = cls(path, 0)
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            stat = os.fstat(file.fileno())
            made._inode, start = stat.st_ino, stat.st_size
            while start > 0 and not made._offset:
                end, start = start, max(0, start - _BLOCK)
                made._offset = start + os.pread(file.fileno(), end - start, start).rfind(b"\n") + 1
                made._offset = made._offset if made._offset > start else 0
        return made

    @classmethod
    def after_event(cls, path: Path, after: int) -> LogTail:
        """One that begins behind the event of that number, of which nothing before is read."""
        made = cls(path, after)
        with contextlib.suppress(OSError):
            made._inode = os.stat(path).st_ino
            made._offset = find_event_end(path, after)
        return made

    def read(self) -> list[tuple[int, TeamEvent]]:
        """The next logged events behind `after`, at most a batch; empty at the end of the file."""
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
    """The number of a log line without parsing it all; 0 for what is no line of ours."""
    if not line.startswith(b'{"n":'):
        return 0
    digits = line[5 : line.find(b",", 5, 25)]
    return int(digits) if digits.isdigit() else 0


def parse_event(line: bytes) -> TeamEvent | None:
    """The event of a line; None for a snapshot, a kind that this version does not know, and what is no line."""
    try:
        value: object = json.loads(line)
        return from_json(cast("dict[str, Any]", value)) if isinstance(value, dict) else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def parse_snapshot_time(line: bytes) -> float | None:
    """When a snapshot was written, in seconds since 1970, without parsing it all; None for any other line."""
    found = _SNAPSHOT_AT.search(line, 0, 96) if _SNAPSHOT in line[:64] else None
    return float(found[1]) if found is not None else None


def parse_snapshot(line: bytes) -> LogSnapshot | None:
    """The snapshot of a line; None for any other line, and for one that is damaged."""
    if _SNAPSHOT not in line[:64]:
        return None
    try:
        value = cast("dict[str, Any]", json.loads(line))
        state: Any = value["state"]
        known = isinstance(state, dict)
        return LogSnapshot(int(value["n"]), cast("dict[str, Any]", state), bool(value.get("closed"))) if known else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
