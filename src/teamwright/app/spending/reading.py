"""What a log tells of spending: the lines that matter are picked out by their kind, the others are not even parsed.

Knows the log's form; keeps no books.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from teamwright.protocol.events import TeamEvent
from teamwright.storage.jsonl import read_lines
from teamwright.storage.log_reader import event_of, number_of

_KINDS = (b'"round_ended"', b'"team_changed"', b'"member_changed"', b'"task_changed"')
_HEAD = 60
"""Bytes of a line in which its kind stands."""


def spending(path: Path, last: int | None = None) -> Iterator[TeamEvent]:
    """Rounds, and what says whose they were, oldest first; up to the event of that number."""
    for line in read_lines(path):
        if last is not None and number_of(line) > last:
            return
        if any(kind in line[:_HEAD] for kind in _KINDS) and (event := event_of(line)) is not None:
            yield event
