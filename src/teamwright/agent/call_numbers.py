"""The numbers of tool calls, and the record that names them permanently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from teamwright.protocol.message_xml import NO_KEY_TAGS, RuntimeTags
from teamwright.storage.counter import Counter

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
