"""Orphans: processes that a session's earlier processes left running, found by their records, verified and ended.

A process whose program still lives is no orphan. A process counts only when its start matches the record, or when it
carries the mark: a reused pid is never signalled. Depends on records and process trees. Format of the records:
docs/reference/formats/processes.md.
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

from teamwright.processes.process_records import RECORDS_DIRECTORY, ProcessPurpose
from teamwright.processes.process_tree import ProcessSnapshot, ProcessTree, boot_id, terminate_trees
from teamwright.storage.read_bounded import read_plain

_MAX_RECORD_BYTES = 64_000
"""Bytes of one record; a longer file is invalid."""

_DAMAGED_KEPT_S = 60.0
"""Seconds that an invalid file is left alone: it may be incomplete because it is being written."""


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


def read_record(file: Path) -> RecordedProcess | None:
    """Return the record in the file; None for other content."""
    try:
        facts = cast("dict[str, Any]", json.loads(read_plain(file, _MAX_RECORD_BYTES)))
        by = facts["by"]
        mark, pid = str(facts["mark"]), int(facts.get("pid", 0))
        # A short or foreign mark could match processes of other programs.
        if len(mark) < 16 or not mark.endswith(f".{file.stem}") or pid in {1, -1}:
            return None
        names = ("member", "call", "job", "output")
        return RecordedProcess(
            mark,
            str(facts["boot"]),
            (int(by["pid"]), str(by["start"])),
            int(facts["at"]),
            ProcessPurpose(*(str(facts.get(name, "")) for name in names)),
            max(0, pid),
            str(facts.get("start", "")),
            facts.get("agent") is not False,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def record_files(session: Path) -> list[Path]:
    """Return the files of records in the directory of a session, or of a member process."""
    try:
        return [path for path in (session / RECORDS_DIRECTORY).iterdir() if path.suffix == ".json"]
    except OSError:
        return []


def _remove_damaged_records(session: Path) -> None:
    """Remove files that are no record, unless they are so young that they may still be incomplete."""
    for file in record_files(session):
        with contextlib.suppress(OSError):
            if read_record(file) is None and time.time() - file.stat().st_mtime > _DAMAGED_KEPT_S:
                file.unlink()
