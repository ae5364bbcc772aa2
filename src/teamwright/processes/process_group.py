"""Commands as processes: each in its own group, with given stdin and environment, and bounded output.

A process ends with its whole tree (`process_tree`), and waiting for it ends when the process itself does, even if
another process holds its pipe open. With records it is recorded on disk as long as a process of its tree lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.processes.agent_command_detection import AGENT_VARIABLE, with_mark
from teamwright.processes.confinement import Child, Confinement, ProcessStart, start_unconfined
from teamwright.processes.process_output import OutputPipe, ProcessOutput, Sink, StdinWriter
from teamwright.processes.process_records import UNKNOWN_PURPOSE, ProcessPurpose, ProcessRecord, ProcessRecords
from teamwright.processes.process_tree import MARK_VARIABLE, ProcessInfo, ProcessSnapshot, ProcessTree, new_mark
from teamwright.protocol.time_limit import time_limit

DRAIN_S = 0.25
"""Seconds that a pipe may stay open after its process ended."""

_REAP_S = 1.0

_LOOK_S = 0.5
"""Seconds between two looks at the processes of a job, on systems without an event for their end."""


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
        record = _add_record(command, mark)
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
        """Close its stdin."""
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
        self.exited.set()
        self.moved_to_background.set()
        if self._closed:  # killed by a caller that could not wait
            self.has_left_running()


async def wait_for_end(pid: int) -> None:
    """Wait until the process of this pid has ended; it need not be a child of this process."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # it has ended, or the system gives no event at the end of another's child
        await asyncio.sleep(_LOOK_S)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


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


def _add_record(command: ProcessCommand, mark: str) -> ProcessRecord | None:
    if command.records is None:
        return None
    return command.records.add(mark, command.purpose, by_agent=command.is_for_agent)


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
