"""Transport over a child process: messages are lines on its stdin and stdout, stderr goes to a bounded log.

The process has its own group and a record on disk. Its output is bounded: lines, garbage, floods. Depends on
processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.mcp.json_rpc import JsonRpcPeer, McpServerError, Message, last_words, plain_line
from teamwright.mcp.server_config import ServerConfig
from teamwright.processes.commands import DRAIN_S, Process, ProcessCommand, ProcessOutput
from teamwright.processes.process_records import ProcessPurpose, ProcessRecords
from teamwright.processes.program_environment import own_program_start
from teamwright.protocol.time_limit import time_limit

if TYPE_CHECKING:
    from teamwright.sandbox.protected_file_check import ProtectedFiles
    from teamwright.sandbox.sandbox import CommandConfinement

MAX_LINE = 16 * 1024 * 1024
"""Bytes of one message."""

MAX_UNASKED = 32 * 1024 * 1024
"""Bytes of unrequested messages that a server may send between two answers, besides one message of MAX_LINE bytes."""

MAX_UNREAD = 32 * 1024 * 1024
"""Bytes that wait for a server to read them."""

LOG_CAP = 1_000_000
"""Bytes of a server's stderr that are stored."""

PROJECT_VARIABLES = ("CLAUDE_PROJECT_DIR", "TEAMWRIGHT_PROJECT_DIR")
"""Variables with the root of the repository, or of the worktree in which the process runs."""

_LOG_TAIL = 1_000
_HANG_UP_S = 1.0
"""Seconds that a server may take to exit after its stdin is closed."""
_GRACE_S = 1.0


class ServerEnvironment(Struct, frozen=True):
    """The environment of a server process: variables without credentials of Teamwright, records, and a directory for
    its log."""

    env: Mapping[str, str]
    records: ProcessRecords | None
    logs: Path
    confine: Callable[[ServerConfig], CommandConfinement | None]
    """Returns the confinement of a repository's server; None without a sandbox."""
    quarantine: Path
    """The directory for files that a confined server created at protected paths."""
    settings_env: Mapping[str, str] = {}
    """The variables in `env` that the settings set."""


class LineReader:
    """A sink that splits a process's output into lines. `on_overflow` is called once when reading must stop."""

    def __init__(self, line: Callable[[bytes], bool], on_overflow: Callable[[str], None]) -> None:
        self._line = line
        self._on_overflow = on_overflow
        self._parts: list[bytes] = []
        self._size = 0
        self._unasked = 0
        self._stopped = False

    def feed(self, chunk: bytes) -> None:
        """Take more bytes; each whole line goes to the listener, which returns True for an answer."""
        if self._stopped:
            return
        self._unasked += len(chunk)
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            line = b"".join([*self._parts, part])
            self._parts = []
            self._size = 0
            if line.strip() and self._line(line):
                self._unasked = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if self._size > MAX_LINE:
            self._stop(f"sent a message of more than {MAX_LINE // 1_000_000} MB")
        elif self._unasked > MAX_UNASKED + MAX_LINE:
            self._stop(f"sent more than {(MAX_UNASKED + MAX_LINE) // 1_000_000} MB that were not requested")

    def _stop(self, why: str) -> None:
        self._stopped = True
        self._parts = []
        self._on_overflow(why)


class StdioTransport:
    """The transport. Created by `start`, inside a running loop."""

    def __init__(
        self,
        process: Process,
        log: ProcessOutput,
        peer: JsonRpcPeer,
        config: ServerConfig,
        before: ProtectedFiles | None,
        quarantine: Path,
    ) -> None:
        self._process = process
        self._log = log
        self._peer = peer
        self._config = config
        self._before = before
        self._quarantine = quarantine
        self._watcher = asyncio.create_task(self._watch(), name=f"mcp {config.key}")
        self._closed = False

    @classmethod
    def start(
        cls, config: ServerConfig, environment: ServerEnvironment, peer: JsonRpcPeer, on_garbage: Callable[[str], None]
    ) -> StdioTransport:
        """Start the process. `on_garbage` receives each line that is no JSON.

        Raises McpServerError when it cannot be started.
        """
        path = environment.logs / f"{config.log_name}.log"
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        log = ProcessOutput(_LOG_TAIL, path, writes_at_once=True, file_cap=LOG_CAP)
        lines = LineReader(_Reader(peer, log, on_garbage).line, peer.fail)
        own: dict[str, str] = {} if config.worktree is None else dict.fromkeys(PROJECT_VARIABLES, str(config.worktree))
        purpose = ProcessPurpose(output=str(path))
        try:
            fixed = {**environment.settings_env, **own, **config.env}
            start = own_program_start(config.argv[:1], environment.env, fixed, wants_sandbox=config.is_confined)
            confinement = environment.confine(config) if start.wants_sandbox else None
            env = start.environment(is_confined=confinement is not None)
            # Files that existed stay as they are: a person may have changed them during the server's life.
            before = confinement.guard().created_only() if confinement is not None else None
            command = ProcessCommand(
                config.argv,
                config.cwd,
                env,
                environment.records,
                purpose,
                keeps_stdin_open=True,
                confinement=confinement,
            )
            process = Process.start(command, lines, log)
        except (OSError, ValueError) as problem:
            log.close()
            why = (problem.strerror if isinstance(problem, OSError) else "") or str(problem)
            raise McpServerError(f"could not be started: {config.argv[0]}: {why}", dead=True) from None
        transport = cls(process, log, peer, config, before, environment.quarantine)
        peer.transport = transport
        return transport

    @property
    def pid(self) -> int:
        """The pid of the process, which is also its group."""
        return self._process.pid

    def send(self, message: Message) -> None:
        """Write a line; fail when the server does not read."""
        if self._closed:
            return
        content = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        if self._process.write(content + b"\n") > MAX_UNREAD:
            self._peer.fail("does not read what it is sent")

    def cancel(self, request: int) -> None:
        """Do nothing: the answer may still arrive and is then dropped."""

    async def close(self) -> None:
        """Close its stdin, and end the process if it does not exit. When cancelled, kill it."""
        if self._closed:
            return
        self._closed = True
        self._watcher.cancel()
        try:
            self._process.close_stdin()
            if not self._peer.broken_reason:
                await self._close_process()
            await self._process.terminate(_GRACE_S)
        finally:
            self._process.close()
            if self._before is not None and (undone := self._before.restore(self._quarantine)):
                self._log.feed(f"[sandbox] moved to {self._quarantine}: {', '.join(undone)}\n".encode())
            self._log.close()

    async def _close_process(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with time_limit(_HANG_UP_S):
                await self._process.exited.wait()

    async def _watch(self) -> None:
        await self._process.exited.wait()
        with contextlib.suppress(TimeoutError):
            async with time_limit(DRAIN_S):
                await self._process.wait_until_silent()
        code = self._process.exit_code
        last = last_words(self._config.mask_secrets(self._log.text()))
        output = f"; its last output: {last}" if last else ""
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        self._peer.fail(f"ended ({how}){output}")


class _Reader:
    """A reader of a server's stdout, line by line."""

    def __init__(self, peer: JsonRpcPeer, log: ProcessOutput, garbage: Callable[[str], None]) -> None:
        self._peer = peer
        self._log = log
        self._garbage = garbage

    def line(self, content: bytes) -> bool:
        """Return True when the line answers a waiting request."""
        try:
            message: object = json.loads(content)
        except (ValueError, RecursionError):
            self._log.feed(b"[stdout] " + content[:10_000] + b"\n")
            self._garbage(plain_line(content[:400].decode("utf-8", "replace"), 100))
            return False
        return self._peer.deliver(message)
