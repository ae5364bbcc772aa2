"""A parser of server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html.

Lines end at LF, CR LF or CR only, so that U+2028 inside JSON breaks nothing. Keeps no more than the current event in
memory.
"""

from __future__ import annotations

import re


class EventDataReader:
    """A reader of event data, chunk by chunk. `held_bytes` wait for the rest of their event."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._after_cr = False
        self.held_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that this chunk completes."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        if b"\n" not in chunk and b"\r" not in chunk:  # a long line is joined once, at its end
            self._rest.append(chunk)
            self.held_bytes += len(chunk)
            return []
        whole = b"".join([*self._rest, chunk])
        *lines, rest = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = [rest]
        found: list[bytes] = []
        for line in lines:
            if line:
                self._take(line)
            elif self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        self.held_bytes = len(rest) + sum(map(len, self._data))
        return found

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))


_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class SseReader:
    """A reader of whole events as (name, data), from chunks of any size. An unfinished event is never returned."""

    __slots__ = ("_begun", "_data", "_name", "_skip_lf", "_tail")

    def __init__(self) -> None:
        self._begun = False
        self._tail: list[bytes] = []
        self._skip_lf = False
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """Return the events that these bytes complete, in order."""
        if not chunk:
            return []
        if self._skip_lf:
            # The last chunk ended in CR, which ended a line; a following LF belongs to it.
            self._skip_lf = False
            chunk = chunk.removeprefix(b"\n")
        self._skip_lf = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        if not lines:
            self._tail.append(rest)
            return []
        if self._tail:
            lines[0] = b"".join((*self._tail, lines[0]))
            self._tail.clear()
        if rest:
            self._tail.append(rest)
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> tuple[str, bytes] | None:
        if not line:
            return self._end()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        return None

    def _end(self) -> tuple[str, bytes] | None:
        name, data = self._name, self._data
        self._name, self._data = b"", []
        return (name.decode("utf-8", "replace"), b"\n".join(data)) if data else None
