"""The numbers of tool calls, the record that names them permanently, and the counter that several processes share.

The counter's file has eight bytes under `flock`; a value takes a few microseconds.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct, field

from teamwright.protocol.runtime_tags import NO_KEY_TAGS, RuntimeTags
from teamwright.storage.atomic_write import storage_error
from teamwright.storage.paths import make_private

_BYTES = 8

_Changing: TypeAlias = Callable[[int], int]


class Counter:
    """The counter in a file, which is created when it is missing. The owner calls `close`. Raises StorageError."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, at_least: int = 0) -> None:
        """Open the counter. `at_least` is the number of values that were given before the file existed."""
        self.path = path
        try:
            make_private(path.parent)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise storage_error(problem, path) from problem
        self._raise_to_minimum(at_least)

    def next(self) -> int:
        """Return the next value, from 1. Raises StorageError."""
        return self._change(lambda before: before + 1)

    def _raise_to_minimum(self, least: int) -> None:
        self._change(lambda before: max(before, least))

    def _change(self, change: _Changing) -> int:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                value = change(int.from_bytes(os.pread(self._fd, _BYTES, 0), "big"))
                os.pwrite(self._fd, value.to_bytes(_BYTES, "big"), 0)
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        except OSError as problem:
            raise storage_error(problem, self.path) from problem
        return value

    def close(self) -> None:
        """Close the file; harmless when already closed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


MAX_KNOWN_NUMBERS = 1_000
"""The number of calls whose numbers are kept in memory."""


class CallNumbers(Struct):
    """The numbers `cN` of the tool calls of a run, by the model's ids; shared by all agents of a run.

    The newest are kept in memory. `find_earlier` returns the number of an older call, also of an earlier run of the
    session, and an empty text when there is none.
    """

    count: int = 0
    by_tool_use_id: dict[str, str] = field(default_factory=dict[str, str])
    find_earlier: Callable[[str], str] | None = None
    counter: Counter | None = None
    """The counter that several processes of a run share; None when only this process counts."""

    def share(self, path: Path) -> None:
        """Share the counter with other processes of the run from now on. Raises StorageError."""
        if self.counter is None:
            self.counter = Counter(path, self.count)

    def number_for(self, tool_use_id: str) -> str:
        """Return the number of a call; empty when it has none."""
        found = self.by_tool_use_id.get(tool_use_id, "")
        if not found and self.find_earlier is not None:
            found = self._remember(tool_use_id, self.find_earlier(tool_use_id))
        return found

    def next_number(self, tool_use_id: str) -> str:
        """Return the next number and keep it for this call."""
        self.count = self.count + 1 if self.counter is None else self.counter.next()
        return self._remember(tool_use_id, f"c{self.count}")

    def record(self, tool_use_id: str, number: str) -> None:
        """Record the number that another process of the run gave to this call."""
        self._remember(tool_use_id, number)

    def _remember(self, tool_use_id: str, number: str) -> str:
        self.by_tool_use_id[tool_use_id] = number
        if len(self.by_tool_use_id) > MAX_KNOWN_NUMBERS:
            del self.by_tool_use_id[next(iter(self.by_tool_use_id))]
        return number


class CallRecord(Protocol):
    """The record of an agent's calls, which its conversation keeps."""

    @property
    def tags(self) -> RuntimeTags:
        """The tags for notes in a result."""
        ...

    def step_key(self, what: str, /) -> str:
        """Return a permanent name of a call for the model's id of it."""
        ...


class NoCallRecord:
    """The record for calls outside a conversation."""

    tags = NO_KEY_TAGS

    def step_key(self, what: str, /) -> str:
        """Return the model's id."""
        return what
