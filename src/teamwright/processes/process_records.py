"""Record the processes that a session starts, and end those that its earlier processes left running.

A record is a small file, written before the process starts and completed right after, so that a resume after a kill
finds the orphans. It contains no command line, which may contain a secret. Recording never fails: a process without a
record runs as well. A process counts as an orphan only when its start matches the record, or when it carries the mark:
a reused pid is never signalled. Format: docs/reference/formats/processes.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.processes.process_tree import ProcessSnapshot, ProcessTree, boot_id, process_start, terminate_trees
from teamwright.protocol.ids import now_ms
from teamwright.storage.files import read_plain
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


class Orphan(Struct, frozen=True):
    """A recorded process whose program is gone. `is_alive`: a process of its tree still runs.

    `pid` leads the group of that number; 0 when it was never recorded. `contains_this_process`: this process runs below
    it, so it is left alone.
    """

    file: Path
    pid: int
    purpose: ProcessPurpose
    started_ms: int
    is_alive: bool = False
    contains_this_process: bool = False


def find_orphans(session: Path) -> list[Orphan]:
    """Return the recorded processes of a session whose program is gone, the oldest first. Changes nothing.

    The next `end_orphans` removes the record of a process that is not alive.
    """
    return [left for left, _ in _find_with_trees(session)]


def end_orphans(session: Path, grace_s: float = 2.0) -> list[Orphan]:
    """End the orphans of this session; return those that were alive, with `is_alive` if they still are.

    All together: SIGTERM, after `grace_s` seconds SIGKILL, to whole groups and processes that left them. Records of
    ended processes are removed. Blocks for `grace_s` and five seconds at most, and not at all without orphans: from an
    event loop call it in a thread. The caller holds the session's lease, or has checked that it is free. Never raises
    for content on the disk: damaged records are ignored.
    """
    found = _find_with_trees(session)
    living = {id(tree): (left, tree) for left, tree in found if left.is_alive and not left.contains_this_process}
    stayed = {id(tree) for tree in terminate_trees([tree for _, tree in living.values()], grace_s)}
    for left, tree in found:
        if id(tree) in stayed or left.contains_this_process:
            continue
        with contextlib.suppress(OSError):
            left.file.unlink()
    _remove_damaged_records(session)
    return [
        left if left.contains_this_process else replace(left, is_alive=id(tree) in stayed)
        for left, tree in found
        if left.is_alive
    ]


def _find_with_trees(session: Path) -> list[tuple[Orphan, ProcessTree]]:
    found: list[tuple[Orphan, ProcessTree]] = []
    files = record_files(session)
    if not files:
        return found
    look = ProcessSnapshot()
    own_line = look.ancestors(os.getpid())
    for file in files:
        record = read_record(file)
        if record is None or record.is_program_alive(look):
            continue
        # After another boot pids mean nothing; the mark is always proof.
        here = record.boot == boot_id()
        tree = ProcessTree.from_record(record.pid if here else 0, record.mark, record.start, look)
        members = {row.pid for row in tree.members(look, include_self=True)}
        left = Orphan(file, record.pid, record.purpose, record.at, bool(members), bool(members & own_line))
        found.append((left, tree))
    return sorted(found, key=lambda one: one[0].started_ms)


class RecordedProcess(Struct, frozen=True):
    """One record as its file contains it. `program` is the pid and the start of the program that wrote it.

    `is_for_agent`: the process is a command of an agent, or was started by the runtime for one.
    """

    mark: str
    boot: str
    program: tuple[int, str]
    at: int
    purpose: ProcessPurpose
    pid: int
    start: str
    is_for_agent: bool = True

    def is_program_alive(self, look: ProcessSnapshot) -> bool:
        """Return True when the program that wrote the record still runs, as far as this machine can tell."""
        pid, start = self.program
        return self.boot == boot_id() and look.is_alive(pid, start)


_MAX_RECORD_BYTES = 64_000
"""Bytes of one record; a longer file is invalid."""


def read_record(file: Path) -> RecordedProcess | None:
    """Return the record in the file; None for other content."""
    try:
        facts = cast("dict[str, Any]", json.loads(read_plain(file, _MAX_RECORD_BYTES)))
        by = facts["by"]
        mark = str(facts["mark"])
        pid = int(facts.get("pid", 0))
        # A short or foreign mark could match processes of other programs.
        if len(mark) < 16 or not mark.endswith(f".{file.stem}") or pid in {1, -1}:
            return None
        names = ("member", "call", "job", "output")
        return RecordedProcess(
            mark=mark,
            boot=str(facts["boot"]),
            program=(int(by["pid"]), str(by["start"])),
            at=int(facts["at"]),
            purpose=ProcessPurpose(*(str(facts.get(name, "")) for name in names)),
            pid=max(0, pid),
            start=str(facts.get("start", "")),
            is_for_agent=facts.get("agent") is not False,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def record_files(session: Path) -> list[Path]:
    """Return the files of records in the directory of a session, or of a member process."""
    try:
        return [path for path in (session / RECORDS_DIRECTORY).iterdir() if path.suffix == ".json"]
    except OSError:
        return []


_DAMAGED_KEPT_S = 60.0
"""Seconds that an invalid file is left alone: it may be incomplete because it is being written."""


def _remove_damaged_records(session: Path) -> None:
    """Remove files that are no record, unless they are so young that they may still be incomplete."""
    for file in record_files(session):
        with contextlib.suppress(OSError):
            if read_record(file) is None and time.time() - file.stat().st_mtime > _DAMAGED_KEPT_S:
                file.unlink()
