"""Records of the processes that a session started: a small file for each, as long as its process group lives.

Written before the process starts and completed right after, so that a resume after a kill finds the processes
(`find_orphans`). Contains no command line, which may contain a secret. Never fails: a process without a record runs as
well. Format: docs/reference/formats/processes.md.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from msgspec import Struct

from teamwright.processes.process_tree import boot_id, process_start
from teamwright.protocol.timestamps import now_ms
from teamwright.storage.paths import make_private

RECORDS_DIRECTORY = "processes"
"""The name of the records' directory in a session's directory."""

VERSION = 1

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # `dumps` would create one each time


class ProcessPurpose(Struct, frozen=True):
    """The purpose of a process: the member and the call that started it, its background job, its output."""

    member: str = ""
    call: str = ""
    job: str = ""
    output: str = ""


UNKNOWN_PURPOSE = ProcessPurpose()


class ProcessRecords:
    """The records of one session, written by the process that drives it; `session` is the session's directory."""

    def __init__(self, session: Path) -> None:
        self.failed = ""
        """The reason why the last record could not be written; empty when it could."""
        self._directory = session / RECORDS_DIRECTORY
        self._before = f"{self._directory}{os.sep}"
        self._program: dict[str, object] = {}

    def add(self, mark: str, purpose: ProcessPurpose, *, by_agent: bool = True) -> ProcessRecord:
        """Record that a process with this mark is about to start, for an agent or for a person."""
        if not self._program:
            self._program = {"pid": os.getpid(), "start": process_start(os.getpid())}
        facts = {
            "v": VERSION,
            "mark": mark,
            "boot": boot_id(),
            "by": self._program,
            "at": now_ms(),
            "member": purpose.member,
            "call": purpose.call,
            "job": purpose.job,
            "output": purpose.output,
            "agent": by_agent,
        }
        content = _encoder.encode(facts).encode("utf-8", "replace")
        path = f"{self._before}{mark.rpartition('.')[2]}.json"
        self.failed = ""
        try:
            return ProcessRecord(path, self._create_file(path, content), content)
        except OSError as problem:
            self.failed = problem.strerror or str(problem)
            return ProcessRecord(path, -1, b"")

    def _create_file(self, path: str, content: bytes) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, 0o600)
        except FileNotFoundError:
            make_private(self._directory)
            fd = os.open(path, flags, 0o600)
        try:
            os.write(fd, content)
        except OSError:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise
        return fd


class ProcessRecord:
    """The record of one process. Call `set_pid` once it has started, `remove` when its group is gone or never
    started.
    """

    __slots__ = ("_content", "_fd", "_is_there", "_path")

    def __init__(self, path: str, fd: int, content: bytes) -> None:
        self._path = path
        self._fd = fd
        self._content = content
        self._is_there = fd >= 0

    def set_pid(self, pid: int) -> None:
        """Record the pid, which is the number of its group and session as well."""
        if self._fd < 0:
            return
        more = f',"pid":{pid},"start":"{process_start(pid, just_started=True)}"}}'
        with contextlib.suppress(OSError):  # then it is found by its mark
            # One write over the old content, and longer: a reader sees the old or the new.
            os.pwrite(self._fd, self._content[:-1] + more.encode(), 0)
        self._close()

    def remove(self) -> None:
        """Remove the record, because no process is left; harmless when already removed."""
        self._close()
        if self._is_there:
            self._is_there = False
            with contextlib.suppress(OSError):  # the next process of the session sees that no process is left
                os.unlink(self._path)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
