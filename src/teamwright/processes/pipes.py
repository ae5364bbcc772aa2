"""The ends of a process's pipes in this process, inside the event loop.

Depends on nothing of the package. Leaves the process at the other end to its callers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Protocol

_CHUNK = 65_536


class Sink(Protocol):
    """A receiver of a process's output, called in the loop as it arrives."""

    def feed(self, chunk: bytes) -> None:
        """Take more bytes. Must not raise."""
        ...


class OutputPipe:
    """The reading end of one pipe with its sink, read whenever data is available."""

    def __init__(self, sink: Sink) -> None:
        self._own_end, self.child_end = os.pipe()
        os.set_blocking(self._own_end, False)
        self._sink = sink
        self.is_open = True
        self.ended = asyncio.Event()

    def listen(self) -> None:
        asyncio.get_running_loop().add_reader(self._own_end, self._read)

    def close(self) -> None:
        if not self.is_open:
            return
        with contextlib.suppress(OSError):  # the current content of the pipe, at most its capacity
            for _ in range(16):
                chunk = os.read(self._own_end, _CHUNK)
                if not chunk:
                    break
                self._sink.feed(chunk)
        self._stop()

    def _read(self) -> None:
        try:
            chunk = os.read(self._own_end, _CHUNK)
        except BlockingIOError:
            return
        if chunk:
            self._sink.feed(chunk)
        else:
            self._stop()

    def _stop(self) -> None:
        self.is_open = False
        self.ended.set()
        asyncio.get_running_loop().remove_reader(self._own_end)
        os.close(self._own_end)


class StdinWriter:
    """The writing end of a process's stdin: written as fast as the process reads, then closed unless it `stays`."""

    def __init__(self, content: bytes, *, stays: bool = False) -> None:
        self.child_end, self._own_end = os.pipe()
        os.set_blocking(self._own_end, False)
        self._unsent = bytearray(content)
        self._stays_open = stays
        self._listens = False

    def listen(self) -> None:
        self.write(b"")

    def write(self, content: bytes) -> int:
        """Queue more bytes to write; return how many bytes wait."""
        if self._own_end < 0:
            return 0
        self._unsent += content
        if not self._listens:
            self._write()
            if self._own_end >= 0 and self._unsent:
                self._listens = True
                asyncio.get_running_loop().add_writer(self._own_end, self._write)
        return len(self._unsent)

    def close(self) -> None:
        if self._own_end < 0:
            return
        self._stop_writing()
        os.close(self._own_end)
        self._own_end = -1

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self._own_end, self._unsent)]
        except BlockingIOError:
            return
        except OSError:  # the reader has closed it
            self._unsent.clear()
        if self._unsent:
            return
        if self._stays_open:
            self._stop_writing()
        else:
            self.close()

    def _stop_writing(self) -> None:
        if self._listens:
            self._listens = False
            asyncio.get_running_loop().remove_writer(self._own_end)
