"""Evidence from the event logs of a team's sessions: gaps in numbers, and records of mail, tasks and requests.

Depends on the format of the log. The other files are needed too, because a killed process loses its last events.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec import Struct, field

from teamwright.storage.event_log_reader import log_path
from teamwright.storage.jsonl import read_lines
from teamwright.views.audit.team_location import TeamLocation
from teamwright.views.audit.transcript_evidence import reader_of

_MOST_PROBLEMS = 5


class SentMessage(NamedTuple):
    """A sent message, as the log records it."""

    sender: str
    to: str
    wire: str
    summary: str
    number: int


class LoggedTaskChange(NamedTuple):
    """One change of a task."""

    id: str
    change: str
    status: str
    owner: str
    blocked_by: tuple[str, ...]
    by: str
    at: float


class LogEvidence(Struct):
    """All logs together. `sent` by message id, `steps` in their order, `closed` counts the answers of a request.

    `drivers` are the ids of the processes that ran the sessions.
    """

    events: int = 0
    sent: dict[str, SentMessage] = field(default_factory=dict[str, SentMessage])
    steps: list[LoggedTaskChange] = field(default_factory=list[LoggedTaskChange])
    closed: Counter[str] = field(default_factory=Counter[str])
    drivers: set[int] = field(default_factory=set[int])
    problems: list[str] = field(default_factory=list[str])

    def take(self, data: dict[str, Any], place: TeamLocation) -> None:
        """Add one event, if it belongs to the team's time."""
        at, pid = data.get("at"), data.get("pid")
        if data.get("type") == "session_opened" and isinstance(pid, int):
            self.drivers.add(pid)
        if not isinstance(at, int | float) or not place.within(at * 1000):
            return
        kind, member = data.get("type"), str(data.get("member", ""))
        if kind == "message_sent":
            to, wire = reader_of(str(data.get("to", ""))), str(data.get("wire", ""))
            number = len(self.sent)
            self.sent[str(data.get("message_id"))] = SentMessage(member, to, wire, str(data.get("summary", "")), number)
        elif kind == "task_changed" and isinstance(data.get("task"), dict):
            self.steps.append(_step(cast("dict[str, Any]", data["task"]), str(data.get("change", "")), member, at))
        elif kind == "request_closed":
            self.closed[str(data.get("request"))] += 1


def read_logs(place: TeamLocation) -> LogEvidence:
    """Read all logs of the team's sessions. Faults are in `problems`; nothing is raised."""
    logs = LogEvidence()
    for session in place.sessions:
        path = log_path(session)
        wrong: list[str] = []
        try:
            _read(path, logs, place, wrong)
        except OSError as problem:
            wrong.append(f"it cannot be read: {problem.strerror}")
        more = f", and {len(wrong) - _MOST_PROBLEMS} more" if len(wrong) > _MOST_PROBLEMS else ""
        if wrong:
            logs.problems.append(f"{path}: {'; '.join(wrong[:_MOST_PROBLEMS])}{more}")
    return logs


def _read(path: Path, logs: LogEvidence, place: TeamLocation, wrong: list[str]) -> None:
    last = 0
    for row, line in enumerate(read_lines(path), 1):
        try:
            value: object = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        data = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        number = data.get("n")
        if not isinstance(number, int):
            wrong.append(f"line {row} is not a whole event")
            continue
        snapshot = data.get("type") == "snapshot"  # a snapshot has the number of the event before it
        if number != last + (not snapshot):
            wrong.append(f"line {row} has number {number} behind {last}")
        last = number
        if not snapshot:
            logs.events += 1
            logs.take(data, place)


def _step(task: dict[str, Any], change: str, by: str, at: float) -> LoggedTaskChange:
    blockers: object = task.get("blocked_by")
    ids = tuple(str(one) for one in cast("list[Any]", blockers)) if isinstance(blockers, list) else ()
    return LoggedTaskChange(
        str(task.get("id")), change, str(task.get("status")), str(task.get("owner") or ""), ids, by, at
    )
