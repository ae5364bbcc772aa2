"""The output of a process: its pipes in the event loop, a head and a tail in memory, and all of it in a file.

The file is written once the output exceeds the cap. Memory and disk use are both bounded. Leaves the process at the
other end to its callers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from pathlib import Path
from typing import Protocol

FILE_CAP = 64 * 1024 * 1024
"""Bytes of one output that are written to disk; later ones are counted, and kept only in the tail."""

_MAX_CHARACTER_BYTES = 4
"""Bytes of the longest UTF-8 character."""


class ProcessOutput:
    """A collector of bytes. `cap` is in characters of `text()`; `file` receives the whole output once it exceeds the
    cap, up to `file_cap` bytes.

    With `writes_at_once` the file is written from the first byte on, so that it can be read while the process runs.
    Without a file the middle of a long output is lost. Never raises for a full disk: `file_failed` reports it.
    """

    def __init__(
        self, cap: int, file: Path | None = None, *, writes_at_once: bool = False, file_cap: int = FILE_CAP
    ) -> None:
        self.total = self._line_ends = 0
        self.file_failed = ""
        self._cap = cap
        self._half = max(1, cap // 2) * _MAX_CHARACTER_BYTES
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._path = file
        self._file_cap = file_cap
        self._fd = -1
        self._written = 0
        if writes_at_once:
            self._open()

    def feed(self, chunk: bytes) -> None:
        """Take more bytes."""
        if self._fd < 0 and self._path is not None and self.total + len(chunk) > self._cap and not self._written:
            self._spill()
        self.total += len(chunk)
        self._line_ends += chunk.count(b"\n")
        self._write(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail.append(chunk)
            self._tail_size += len(chunk)
            while self._tail_size - len(self._tail[0]) >= self._half:
                self._tail_size -= len(self._tail.popleft())

    @property
    def file(self) -> Path | None:
        """The file with the whole output, if one was begun."""
        return self._path if self._written or self._fd >= 0 else None

    @property
    def is_file_cut(self) -> bool:
        """True when the file lacks the end of the output."""
        return self.file is not None and self._written < self.total

    @property
    def is_cut(self) -> bool:
        """True when `text()` leaves a part out."""
        return self._drops_middle or len(self._kept_bytes().decode("utf-8", "replace")) > self._cap

    def text(self) -> str:
        """Return the output as text, invalid UTF-8 replaced; past the cap its head and its tail with a line between."""
        text = self._kept_bytes().decode("utf-8", "replace")
        if not self._drops_middle and len(text) <= self._cap:
            return text
        half = max(1, self._cap // 2)
        head = bytes(self._head).decode("utf-8", "ignore")[:half] if self._drops_middle else text[:half]
        tail = text[-half:]
        where = f"; all of it is in {self.file}" if self.file and not self.is_file_cut else ""
        if self.is_file_cut:
            where = f"; the first {self._written:,} bytes are in {self.file}"
        return f"{head}\n[… {self.total:,} bytes in all, the middle is left out here{where}]\n{tail}"

    @property
    def line_count(self) -> int:
        """The number of lines so far, a last line without its end included."""
        last = self._tail[-1] if self._tail else self._head
        return self._line_ends + (1 if last and not last.endswith(b"\n") else 0)

    def end(self, size: int = 4_096) -> str:
        """Return the last `size` bytes so far."""
        return self._kept_bytes()[-size:].decode("utf-8", "replace")

    def head(self) -> str:
        """Return the beginning, as far as it is in memory: all of it unless `is_cut`."""
        return (bytes(self._head) if self._drops_middle else self._kept_bytes()).decode("utf-8", "replace")

    def start_file(self) -> None:
        """Start the file now, with the output so far."""
        if self._fd < 0 and not self._written:
            self._spill()

    def close(self) -> None:
        """Close the file; the collected output stays available."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def _drops_middle(self) -> bool:
        return len(self._head) + self._tail_size < self.total

    def _kept_bytes(self) -> bytes:
        return bytes(self._head) + b"".join(self._tail)

    def _spill(self) -> None:
        self._open()
        self._write(self._kept_bytes())

    def _open(self) -> None:
        if self._path is None:
            return
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            self.file_failed = problem.strerror or str(problem)
            self._path = None

    def _write(self, chunk: bytes) -> None:
        chunk = chunk[: self._file_cap - self._written]
        if self._fd < 0 or not chunk:
            return
        try:
            while chunk:
                done = os.write(self._fd, chunk)
                self._written += done
                chunk = chunk[done:]
        except OSError as problem:
            self.file_failed = problem.strerror or str(problem)
            self.close()


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
