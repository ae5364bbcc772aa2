"""Saved usage totals beside an event log: a later cost query reads only the events since.

Depends on usage totals and the format of the log. The log is authoritative: the file may be deleted at any time, and a
file that does not match the log is not used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.budgets.usage_totals import Account, TaskKey, UsageTotals, usage_events
from teamwright.protocol.errors import StorageError
from teamwright.protocol.event_json import usage_from_json, usage_to_json
from teamwright.protocol.events import TaskChanged, TeamEvent
from teamwright.protocol.messages import encode
from teamwright.storage.event_log import last_number
from teamwright.storage.files import write_atomic

NAME = "cost.json"
VERSION = 3

_SUMS = ("total", "untasked", "failed")
_USAGES = ("usage", "incarnation_usage", "failed")
_PLAIN = ("model_calls", "tool_calls", "caller", "incarnation", "incarnation_calls")


class SavedTotals(Struct):
    """The usage totals up to event number `n`, and the subjects of known tasks."""

    n: int = 0
    books: UsageTotals = field(default_factory=UsageTotals)
    subjects: dict[TaskKey, str] = field(default_factory=dict[TaskKey, str])

    def note(self, event: TeamEvent) -> None:
        """Add an event."""
        if isinstance(event, TaskChanged):
            self.subjects[self.books.list, event.task.id] = event.task.subject
        self.books.add_event(event)

    def as_json(self) -> dict[str, Any]:
        """Return the totals in the format of the file."""
        books = self.books
        return {
            "v": VERSION,
            "n": self.n,
            "list": books.list,
            **{name: usage_to_json(getattr(books, name)) for name in _SUMS},
            "agents": {name: _account_to_json(one) for name, one in books.agents.items()},
            "models": {name: usage_to_json(one) for name, one in books.models.items()},
            "purposes": {name: usage_to_json(one) for name, one in books.purposes.items()},
            "tasks": [[*key, usage_to_json(one)] for key, one in books.tasks.items()],
            "subjects": [[*key, subject] for key, subject in self.subjects.items()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SavedTotals:
        """Read the value that `as_json` made. Raises KeyError, TypeError, ValueError, AttributeError."""
        if data["v"] != VERSION:
            raise ValueError("another version")
        books = UsageTotals(
            **{name: usage_from_json(data[name]) for name in _SUMS},
            agents={name: _account_from_json(one) for name, one in data["agents"].items()},
            tasks={(directory, id): usage_from_json(one) for directory, id, one in data["tasks"]},
            models={name: usage_from_json(one) for name, one in data["models"].items()},
            purposes={name: usage_from_json(one) for name, one in data["purposes"].items()},
            list=str(data["list"]),
        )
        subjects = {(str(directory), str(id)): str(subject) for directory, id, subject in data["subjects"]}
        return cls(int(data["n"]), books, subjects)


def load_totals(log: Path) -> SavedTotals:
    """Return the totals of the whole log. Reads the saved file and newer events, and saves the file again."""
    path = log.with_name(NAME)
    last = last_number(log)
    sums = _read(path)
    if sums.n > last:
        sums = SavedTotals()  # the file belongs to another log
    if sums.n == last:
        return sums
    for event in usage_events(log, last, after=sums.n):
        sums.note(event)
    sums.n = last
    with suppress(StorageError, OSError):  # without write access the next query reads the same events again
        changed = os.stat(log)
        write_atomic(path, encode(sums.as_json()))
        os.utime(path, ns=(changed.st_atime_ns, changed.st_mtime_ns))  # a query does not count as use of the session
    return sums


def _read(path: Path) -> SavedTotals:
    try:
        return SavedTotals.from_json(cast("dict[str, Any]", json.loads(path.read_bytes())))
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return SavedTotals()


def _account_to_json(account: Account) -> dict[str, Any]:
    usages = {name: usage_to_json(getattr(account, name)) for name in _USAGES}
    return {name: getattr(account, name) for name in _PLAIN} | usages


def _account_from_json(data: Mapping[str, Any]) -> Account:
    plain: dict[str, Any] = {name: data[name] for name in _PLAIN}
    plain |= {name: usage_from_json(data[name]) for name in _USAGES}
    return Account(**plain)
