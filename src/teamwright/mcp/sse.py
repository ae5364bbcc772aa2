"""Messages out of a stream of events: the `data` of each event, whole, whatever pieces it comes in.

Lines end at `\n`, `\r\n` and `\r` only. Knows nothing of what the data says.
"""

from __future__ import annotations


class Events:
    """Reads a stream piece by piece. `held` is how many bytes wait for the rest of their event."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._after_cr = False
        self.held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this piece completes."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        if b"\n" not in chunk and b"\r" not in chunk:  # a long line is put together once, at its end
            self._rest.append(chunk)
            self.held += len(chunk)
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
        self.held = len(rest) + sum(map(len, self._data))
        return found

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
