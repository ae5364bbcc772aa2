"""Run commands as processes: each in its own group, with given stdin and environment, and bounded output.

A process ends with its whole tree (`process_tree`), and waiting for it ends when the process itself does, even if
another process holds its pipe open. With records it is recorded on disk as long as a process of its tree lives. Memory
and disk use of its output are both bounded. A `Confinement`, implemented in `sandbox`, starts a process that the kernel
restricts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from teamwright.processes.agent_command_detection import AGENT_VARIABLE, with_mark
from teamwright.processes.process_records import UNKNOWN_PURPOSE, ProcessPurpose, ProcessRecord, ProcessRecords
from teamwright.processes.process_tree import MARK_VARIABLE, ProcessInfo, ProcessSnapshot, ProcessTree, new_mark
from teamwright.protocol.program_log import log_fact
from teamwright.protocol.time_limit import time_limit


class ProcessCommand(Struct, frozen=True):
    """A command: program and arguments, directory, the whole environment, and the purpose for its record.

    `input` is its stdin; a process that does not read it blocks nothing. `keeps_stdin_open`: its stdin stays open after
    that, for `Process.write`. `is_for_agent`: it carries the mark of agent commands, as do all processes that no person
    started or that run code an agent may have written.
    """

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    records: ProcessRecords | None = None
    purpose: ProcessPurpose = UNKNOWN_PURPOSE
    input: bytes = b""
    keeps_stdin_open: bool = False
    is_for_agent: bool = True
    confinement: Confinement | None = None

    def start_argv(self) -> list[str]:
        """Return the arguments to start. Raises OSError when there is no such program."""
        return with_mark(self.argv, self.cwd, self.env) if self.is_for_agent else list(self.argv)

    def start_env(self, mark: str) -> dict[str, str]:
        """Return the environment to start with; `mark` names the process tree."""
        return {**self.env, MARK_VARIABLE: mark, **({AGENT_VARIABLE: "1"} if self.is_for_agent else {})}


class ProcessResult(Struct, frozen=True):
    """The outcome. `exit_code` is negative for a signal; `errors` is empty when stderr was joined with the output.

    `left_running`: a process of its tree still runs (only after the process exited without being ended).
    """

    exit_code: int
    output: str
    errors: str = ""
    timed_out: bool = False
    left_running: bool = False


async def run_argv(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout_s: float = 30.0, max_output: int = 1_000_000
) -> ProcessResult:
    """Run a program of the runtime, unmarked. Raises OSError when it cannot be started.

    stdout and stderr are separate, and nothing is written to a file. `max_output` characters of stdout are kept.
    """
    return await run_command(
        ProcessCommand(argv, cwd, env, is_for_agent=False),
        ProcessOutput(max_output),
        ProcessOutput(20_000),
        timeout_s=timeout_s,
    )


async def run_command(
    command: ProcessCommand,
    output: ProcessOutput,
    errors: ProcessOutput | None = None,
    *,
    timeout_s: float,
    grace_s: float = 2.0,
) -> ProcessResult:
    """Run a command to its end, or to the timeout. Raises OSError when it cannot be started."""
    process = Process.start(command, output, errors)
    try:
        in_time = await wait_or_terminate(process, timeout_s=timeout_s, grace_s=grace_s)
        left = in_time and process.has_left_running()
    finally:
        process.close()
        for sink in (output, errors):
            if sink is not None:
                sink.close()
    code = process.exit_code
    return ProcessResult(
        -9 if code is None else code,
        output.text(),
        errors.text() if errors is not None else "",
        timed_out=not in_time,
        left_running=left,
    )


DRAIN_S = 0.25
"""Seconds that a pipe may stay open after its process ended."""


async def wait_or_terminate(process: Process, *, timeout_s: float, grace_s: float = 2.0) -> bool:
    """Wait until the process exits (True), or end its tree after `timeout_s` seconds (False).

    A process that moves to the background during the wait keeps running (`moved_to_background` is set): then `exited`
    is not set. Its output so far is in its outputs. When cancelled, end the tree before raising.
    """
    in_time = True
    try:
        try:
            async with time_limit(timeout_s):
                await process.moved_to_background.wait()
            if not process.exited.is_set():
                return True
        except TimeoutError:
            in_time = False
            await process.terminate(grace_s)
        with contextlib.suppress(TimeoutError):
            async with time_limit(DRAIN_S):
                await process.wait_until_silent()
    except asyncio.CancelledError:
        try:
            await process.terminate(grace_s)
        finally:
            process.close()
        raise
    return in_time


_REAP_S = 1.0


class Process:
    """A started process. Created by `start` inside a running loop; after its end or `terminate` it is `close`d."""

    def __init__(
        self,
        child: Child,
        tree: ProcessTree,
        pipes: Sequence[OutputPipe],
        record: ProcessRecord | None = None,
        feed: StdinWriter | None = None,
        confinement: Confinement | None = None,
    ) -> None:
        self.pid = child.pid
        self._confinement = confinement
        """Kept while the process is open: what it has of the sandbox, such as a key of the proxy, ends with it."""
        self.tree = tree
        self.exited = asyncio.Event()
        self.moved_to_background = asyncio.Event()
        """Set when it exited, or when it no longer runs in the foreground."""
        self._child = child
        self._pipes = pipes
        self._record = record
        self._feed = feed
        self._closed = False
        self._released = False
        self._watch()

    @classmethod
    def start(cls, command: ProcessCommand, output: Sink, errors: Sink | None = None) -> Process:
        """Start it; stderr is joined with the output unless `errors` is given. Raises OSError when it cannot be
        started."""
        mark = new_mark()
        record = (
            None
            if command.records is None
            else command.records.add(mark, command.purpose, by_agent=command.is_for_agent)
        )
        pipes = [OutputPipe(sink) for sink in (output, errors) if sink is not None]
        feed = (
            StdinWriter(command.input, stays=command.keeps_stdin_open)
            if command.input or command.keeps_stdin_open
            else None
        )
        ends = [*pipes, *([feed] if feed is not None else [])]
        try:
            start = ProcessStart(
                command.start_argv(),
                command.cwd,
                command.start_env(mark),
                subprocess.DEVNULL if feed is None else feed.child_end,
                pipes[0].child_end,
                pipes[-1].child_end,
            )
            child = (command.confinement.start if command.confinement is not None else start_unconfined)(start)
        except BaseException:
            for end in ends:
                end.close()
            if record is not None:
                record.remove()
            raise
        finally:
            for end in ends:
                os.close(end.child_end)
        if record is not None:
            record.set_pid(child.pid)
        for end in ends:
            end.listen()
        held = "in the sandbox" if command.confinement is not None else "without the sandbox"
        log_fact("processes", "%d started: %s in %s, %s", child.pid, command.argv[0], command.cwd, held)
        return cls(child, ProcessTree(child.pid, mark), pipes, record, feed, command.confinement)

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._child.returncode

    def write(self, content: bytes) -> int:
        """Write more to the stdin of a process that converses; return the number of bytes that it has not read yet.
        Never raises.

        Data for a process that no longer reads is lost.
        """
        return self._feed.write(content) if self._feed is not None else 0

    def close_stdin(self) -> None:
        if self._feed is not None:
            self._feed.close()

    @property
    def is_silent(self) -> bool:
        """True when no more output will come: the pipe was closed at either end."""
        return not any(pipe.is_open for pipe in self._pipes)

    async def wait_until_silent(self) -> None:
        """Wait until no more output will come."""
        for pipe in self._pipes:
            await pipe.ended.wait()

    @property
    def has_group(self) -> bool:
        """True while a process of its group lives. A daemon (`setsid`) has left the group."""
        return _exists(self.pid) and self._group_member() is not None

    async def wait_for_group(self) -> None:
        """Wait, after its end, until no process of its group lives. Daemons are not waited for."""
        while _exists(self.pid) and (member := self._group_member()) is not None:
            await wait_for_end(member.pid)

    def _group_member(self) -> ProcessInfo | None:
        try:
            look = ProcessSnapshot(self.pid)
        except (OSError, subprocess.SubprocessError):  # the processes cannot be listed
            return None
        return next((row for row in self.tree.members(look) if row.group == self.pid), None)

    def has_left_running(self) -> bool:
        """Return True when the process ended and a process of its tree did not. If none is left, its record is
        removed.
        """
        if not self.exited.is_set():
            return False
        left = self._is_any_alive()
        if not left:
            self._remove_record()
        return left

    def kill_arguments(self) -> str:
        """Return the arguments of `kill` for the processes left running: its group, or the pids of those that left the
        group."""
        if _exists(self.pid):
            return f"-- -{self.pid}"
        return " ".join(str(row.pid) for row in self.tree.members(ProcessSnapshot(self.pid))) or f"-- -{self.pid}"

    async def terminate(self, grace_s: float = 2.0) -> None:
        """End the whole tree: SIGTERM, then SIGKILL. When cancelled, kill at once."""
        if not self.exited.is_set():
            if not await self.tree.terminate(grace_s):
                self._remove_record()
            with contextlib.suppress(TimeoutError):  # a process stuck in the kernel survives SIGKILL
                async with time_limit(_REAP_S):
                    await self.exited.wait()
        elif self.has_left_running() and not await self.tree.terminate(grace_s):
            self._remove_record()

    def close(self) -> None:
        """Stop reading; bytes that are in the pipe now are still taken. Processes with the other end may keep
        running.
        """
        if self._feed is not None:
            self._feed.close()
        for pipe in self._pipes:
            pipe.close()
        self._closed = True
        self._confinement = None
        self.has_left_running()

    def _is_any_alive(self) -> bool:
        if self.is_silent and self._record is None and not _exists(self.pid):
            return False  # a child that left the group is searched only where the session keeps a record
        try:
            look = ProcessSnapshot(self.pid)
        except (OSError, subprocess.SubprocessError):  # out of descriptors: the processes cannot be listed
            return not self.is_silent or _exists(self.pid)
        if not self._released:
            self._released = True
            self.tree.release(look)
        return not self.is_silent or bool(self.tree.members(look))

    def _remove_record(self) -> None:
        """Remove the record: no process of the tree is left."""
        if self._record is not None:
            self._record.remove()
            self._record = None

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or a sandbox without it
            waiting = loop.run_in_executor(None, self._child.wait)
            waiting.add_done_callback(lambda _: self._note_end())
            return

        def ready() -> None:
            if self._child.poll() is None:
                return
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._note_end()

        loop.add_reader(descriptor, ready)

    def _note_end(self) -> None:
        log_fact("processes", "%d ended with %s", self.pid, self.exit_code)
        self.exited.set()
        self.moved_to_background.set()
        if self._closed:  # killed by a caller that could not wait
            self.has_left_running()


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


_LOOK_S = 0.5
"""Seconds between two looks at the processes of a job, on systems without an event for their end."""


async def wait_for_end(pid: int) -> None:
    """Wait until the process of this pid has ended; it need not be a child of this process."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # it has ended, or the system gives no event at the end of another's child
        await asyncio.sleep(_LOOK_S)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


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
        self.total = 0
        self.grown_at = time.monotonic()
        """The time of the last bytes, else of the construction (of `time.monotonic`)."""
        self._at_growth: Callable[[], None] | None = None
        self._line_ends = 0
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

    def call_at_growth(self, then: Callable[[], None] | None) -> None:
        """Call this once, at the next bytes; None: nothing any more."""
        self._at_growth = then

    def feed(self, chunk: bytes) -> None:
        """Take more bytes."""
        if self._fd < 0 and self._path is not None and self.total + len(chunk) > self._cap and not self._written:
            self._spill()
        self.total += len(chunk)
        self.grown_at = time.monotonic()
        if self._at_growth is not None:
            then, self._at_growth = self._at_growth, None
            then()
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


class Child(Protocol):
    """A started child process of this process, as `subprocess.Popen` is one."""

    pid: int
    returncode: int | None
    """The exit code, negative for a signal; None until `poll` or `wait` has seen its end."""

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        ...

    def wait(self) -> int:
        """Wait for its end and return the exit code."""
        ...


class ProcessStart(Struct, frozen=True):
    """The start of a process: arguments, directory, the whole environment, and its three standard descriptors."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int


class Confinement(Protocol):
    """The restrictions of one command, enforced by the kernel."""

    def start(self, start: ProcessStart) -> Child:
        """Start the process in a new session and process group. Raises OSError when it cannot be started."""
        ...


def start_unconfined(start: ProcessStart) -> Child:
    """Start a process without restrictions, in a new session and process group. Raises OSError."""
    return subprocess.Popen(
        start.argv,
        cwd=start.cwd,
        env=start.env,
        stdin=start.stdin,
        stdout=start.stdout,
        stderr=start.stderr,
        start_new_session=True,
    )
