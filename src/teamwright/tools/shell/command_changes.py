"""Changes of files by shell commands, recorded in the edit journal with the member whose command made them.

A scan of the git work tree before and after a command finds the changes. Between two scans they belong to the one
member whose commands ran; with several, to none of them, and the journal names all. The state is in the history of the
session, so that all its processes share it. A problem switches the scans off and never fails a command. Depends on
work tree scans and the edit journal. Format: docs/reference/formats/edit-history.md.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from teamwright.agent.background_jobs import BackgroundJobs, Job
from teamwright.agent.tool import ToolContext
from teamwright.git.repository import discover
from teamwright.git.work_tree_scan import ChangedFile, WorktreeScan
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import display_name, iso_time
from teamwright.storage.paths import make_private
from teamwright.tools.files.edit_journal_writer import (
    JOURNAL,
    LINK_MODE,
    append_line,
    file_mode,
    link_content,
    load_content,
    store_content,
)
from teamwright.tools.files.file_change import open_regular, read_all

LIMIT_S = 0.15
"""Seconds that the scans of one command may take together."""

SLOW_COMMANDS = 3
"""The number of commands in a row over the limit after which the scans are switched off: a busy machine is not slow."""

MAX_FILES = 500
"""The most files of one scan that are recorded."""

MAX_FILE_BYTES = 8 * 1024 * 1024
"""The largest content that is recorded."""

PERSON = "user"
"""The member of a command that a person typed. Its changes are not recorded."""


class CommandScan(Struct):
    """A command whose changes are found. `descriptor` has the lock of its file, which ends with this process."""

    scan: WorktreeScan
    history: Path
    file: Path
    descriptor: int
    seconds: float


class CommandChanges:
    """The recorder of one process. `notify` receives the reason when scans are switched off or files are left out."""

    def __init__(self, notify: Callable[[str], None], limit_s: float = LIMIT_S) -> None:
        self._notify = notify
        self._limit_s = limit_s
        self._slow = 0
        self._off: set[Path] = set()

    def begin(self, ctx: ToolContext, *, by_person: bool) -> CommandScan | None:
        """Scan before a command of this agent. None outside git, and when the scans are off. Blocks; raises nothing."""
        history = ctx.workplace.edit_history
        found = discover(ctx.workplace.cwd).repository
        if found is None or found.tree in self._off:
            return None
        if history.is_relative_to(found.tree):
            self._switch_off(found.tree, "the state of this program is inside")
            return None
        began = time.monotonic()
        directory = history / "commands" / hashlib.sha256(os.fsencode(found.tree)).hexdigest()[:16]
        scan = WorktreeScan(found, directory / "git")
        try:
            make_private(directory / "running")
            with _locked(directory):
                running = _running(directory)
                self._record(scan, history, running)
                name = f"{time.time_ns()}-{secrets.token_hex(4)}"
                file = directory / "running" / name
                member = PERSON if by_person else ctx.member
                descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                os.write(descriptor, json.dumps({"member": member, "call": ctx.call}).encode())
        except (OSError, ValueError, TeamwrightError) as problem:
            self._switch_off(found.tree, str(problem))
            return None
        return CommandScan(scan, history, file, descriptor, time.monotonic() - began)

    def end(self, command: CommandScan) -> None:
        """Scan after the command, and record its changes. Blocks; raises nothing."""
        tree = command.scan.repository.tree
        began = time.monotonic()
        try:
            if tree not in self._off:
                with _locked(command.file.parent.parent):
                    self._record(command.scan, command.history, _running(command.file.parent.parent))
        except (OSError, ValueError, TeamwrightError) as problem:
            self._switch_off(tree, str(problem))
        finally:
            with suppress(OSError):
                command.file.unlink()
            os.close(command.descriptor)
        took = command.seconds + time.monotonic() - began
        self._slow = self._slow + 1 if took > self._limit_s else 0
        if self._slow >= SLOW_COMMANDS:
            self._switch_off(tree, f"a scan of the repository takes {took * 1000:.0f} ms a command")

    def _switch_off(self, tree: Path, why: str) -> None:
        if tree not in self._off:
            self._off.add(tree)
            self._notify(f"Changes of files by shell commands are not recorded any more in {tree}: {why}.")

    def _record(self, scan: WorktreeScan, history: Path, running: Sequence[dict[str, Any]]) -> None:
        """Record the changes since the last scan for these running commands. The first scan records nothing."""
        mark = scan.private.parent / "journal"
        if not scan.is_ready:
            scan.prepare()
            scan.remember(scan.changed_files())
            mark.write_text(str(_size(history)))
            return
        changed = scan.changed_files()
        if changed:
            self._record_files(scan, history, changed, running, _edited_since(history, int(mark.read_text() or 0)))
            scan.remember(changed)
        mark.write_text(str(_size(history)))

    def _record_files(
        self,
        scan: WorktreeScan,
        history: Path,
        changed: Sequence[ChangedFile],
        running: Sequence[dict[str, Any]],
        edited: dict[str, str | None],
    ) -> None:
        members = list(dict.fromkeys(str(one["member"]) for one in running))
        if not members or members == [PERSON]:
            return
        left = len(changed) - MAX_FILES
        former = scan.former_contents(changed[:MAX_FILES])
        call = str(running[0]["call"]) if len(running) == 1 else ""
        who = members[0] if len(members) == 1 else " or ".join(display_name(one) for one in members)
        for file in changed[:MAX_FILES]:
            path = scan.repository.tree / file.path
            before = load_content(history, edited[str(path)] or "") if str(path) in edited else former.get(file.path)
            if file.mode == LINK_MODE and before is not None and str(path) not in edited:
                before = link_content(before)
            modes = file.mode, file_mode(str(path))
            known = before is not None or not file.blob or edited.get(str(path), "") is None
            after = _content(path)
            if not known or after is _UNREADABLE or (before is not None and len(before) > MAX_FILE_BYTES):
                left = max(left, 0) + 1
            elif before != after or modes[0] != modes[1]:
                _append(history, who, path, before, after, call=call, modes=modes)
        if left > 0:
            files = "1 file" if left == 1 else f"{left} files"
            self._notify(
                f"Undo does not restore {files} that a shell command changed: too many, too large, or no plain files."
            )


_UNREADABLE = b"\0unreadable"


def _content(path: Path) -> bytes | None:
    """Return the content, of a link as the history has it; None without a file, and `_UNREADABLE` for a file behind a
    link, a large file and another type.
    """
    if os.path.realpath(path.parent) != str(path.parent):
        return _UNREADABLE
    if path.is_symlink():
        return link_content(os.readlink(os.fsencode(path)))
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        return None
    except OSError:
        return _UNREADABLE
    try:
        return read_all(descriptor) if os.fstat(descriptor).st_size <= MAX_FILE_BYTES else _UNREADABLE
    finally:
        os.close(descriptor)


def _append(
    history: Path,
    member: str,
    path: Path,
    before: bytes | None,
    after: bytes | None,
    *,
    call: str,
    modes: tuple[str, str],
) -> None:
    append_line(
        history,
        {
            "at": iso_time(),
            "member": member,
            "path": str(path),
            "before": None if before is None else store_content(history, before),
            "after": None if after is None else store_content(history, after),
            "call": call,
            "shell": True,
            **({"modes": modes} if set(modes) - {"", "100644"} else {}),
        },
    )


def _size(history: Path) -> int:
    with suppress(OSError):
        return (history / JOURNAL).stat().st_size
    return 0


def _edited_since(history: Path, offset: int) -> dict[str, str | None]:
    """Return the last recorded content of each file that the journal names after this offset."""
    if _size(history) <= offset:
        return {}
    with open(history / JOURNAL, "rb") as journal:
        journal.seek(offset)
        lines = journal.read().split(b"\n")
    found: dict[str, str | None] = {}
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            record: dict[str, Any] = json.loads(line.decode("utf-8", "surrogateescape"))
            found[str(record["path"])] = None if record["after"] is None else str(record["after"])
    return found


@contextmanager
def _locked(directory: Path) -> Generator[None]:
    """Hold the lock of the scans of one work tree among the processes of the session."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _running(directory: Path) -> list[dict[str, Any]]:
    """Return the running commands, oldest first. A file without a lock is of a process that has ended."""
    found: list[dict[str, Any]] = []
    for file in sorted((directory / "running").iterdir()):
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # its command ended just now, after its last scan
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink(missing_ok=True)
        except BlockingIOError:
            found.append(json.loads(read_all(descriptor)))
        finally:
            os.close(descriptor)
    return found


class CallChanges:
    """The scans of the running commands of one session in this process. A call is known by its object.

    Nothing is recorded before `record`.
    """

    def __init__(self) -> None:
        self._changes: CommandChanges | None = None
        self._calls: dict[int, CommandScan] = {}
        self._jobs: dict[str, CommandScan] = {}
        self._endings: set[asyncio.Task[None]] = set()

    def record(self, changes: CommandChanges, jobs: BackgroundJobs) -> None:
        """Record changes from now on, also of these jobs."""
        self._changes = changes
        jobs.follow_ends(self._end_job)
        jobs.follow_close(self._end_all)

    async def begin(self, call: object, ctx: ToolContext, *, by_person: bool) -> None:
        """Scan before a command. Raises nothing."""
        if self._changes is None:
            return
        scan = asyncio.ensure_future(asyncio.to_thread(partial(self._changes.begin, ctx, by_person=by_person)))
        try:
            begun = await asyncio.shield(scan)
        except asyncio.CancelledError:  # the thread ends the scan, and its command never runs
            scan.add_done_callback(self._drop)
            raise
        if begun is not None:
            self._calls[id(call)] = begun

    def _drop(self, scan: asyncio.Future[CommandScan | None]) -> None:
        if not scan.cancelled() and (begun := scan.result()) is not None:
            self._start_ending(begun)

    def move_to_job(self, job: Job, call: object) -> None:
        """Count the command of this call until the end of the job."""
        if (begun := self._calls.pop(id(call), None)) is not None:
            self._jobs[job.id] = begun

    async def end(self, call: object) -> None:
        """Scan after the command of this call, unless a job continues it. Raises nothing."""
        if (begun := self._calls.pop(id(call), None)) is not None:
            await self._start_ending(begun)

    def _end_job(self, job: Job) -> None:
        if (begun := self._jobs.pop(job.id, None)) is not None:
            self._start_ending(begun)

    def _start_ending(self, begun: CommandScan) -> asyncio.Future[None]:
        """Start the last scan of a command in a thread. A cancelled caller does not stop it."""
        if self._changes is None:
            raise RuntimeError("a scan has begun without a recorder")
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(self._changes.end, begun))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return asyncio.shield(task)

    async def _end_all(self) -> None:
        """Record the changes of the jobs that end with the session."""
        for begun in self._jobs.values():
            self._start_ending(begun)
        self._jobs.clear()
        await asyncio.gather(*self._endings, return_exceptions=True)
