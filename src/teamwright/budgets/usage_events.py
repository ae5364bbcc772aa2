"""Usage events of a log: relevant lines are selected by their kind before they are parsed.

Depends on the format of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from teamwright.protocol.events import TeamEvent
from teamwright.storage.event_log_reader import (
    find_event_end,
    parse_event,
    parse_number,
    parse_snapshot,
    parse_snapshot_time,
)
from teamwright.storage.jsonl import read_backward, read_lines

_KINDS = (b'"model_call_ended"', b'"round_ended"', b'"team_changed"', b'"member_changed"', b'"task_changed"')
_HEAD = 60
"""Length of a line's beginning, in bytes, that contains its kind."""


def usage_events(path: Path, last: int | None = None, after: int = 0) -> Iterator[TeamEvent]:
    """Yield model calls, and the events that attribute them, oldest first, after event number `after` and up to
    `last`.
    """
    for line in read_lines(path, find_event_end(path, after)):
        number = parse_number(line)
        if last is not None and number > last:
            return
        if number > after and _matters(line) and (event := parse_event(line)) is not None:
            yield event


def usage_events_since(path: Path, since: float) -> tuple[str, list[TeamEvent]]:
    """Return the usage events since a time, read from the end of the log, and the directory of the team led before
    it.
    """
    events: list[TeamEvent] = []
    for line in read_backward(path):
        if (at := parse_snapshot_time(line)) is not None and at < since:
            snapshot = parse_snapshot(line)
            return str(snapshot.state.get("directory") or "") if snapshot is not None else "", events[::-1]
        if _matters(line) and (event := parse_event(line)) is not None:
            events.append(event)
    return "", events[::-1]


def _matters(line: bytes) -> bool:
    return any(kind in line[:_HEAD] for kind in _KINDS)
