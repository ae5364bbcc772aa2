"""Background shell commands of a run: start, list, read and stop them, and learn when one ends.

A job is independent of turns: interrupting the foreground leaves it running, and closing ends all jobs. Its output is
a file that can be read at any time. With a session's directory a journal, `jobs.jsonl`, survives a kill: it has the
starts, the ends, and which ends are reported. Processes of an earlier run of the session are then ended before a new
one starts. Format: docs/reference/formats/processes.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.processes.process_records import Orphan, ProcessRecords, end_orphans
from teamwright.protocol.errors import LimitExceeded, StorageError, UsageError
from teamwright.protocol.ids import did_you_mean, display_name, job_id, now_ms
from teamwright.protocol.time_limit import time_limit
from teamwright.storage.json_lines import Journal, read_lines

if TYPE_CHECKING:
    from teamwright.agent.silent_jobs import SilenceSettings, SilentJob
    from teamwright.processes.commands import Process, ProcessCommand, ProcessOutput


JobState = Literal["running", "completed", "failed", "stopped", "killed"]
"""The state of a job. `killed`: it ended with the program that ran it, so the outcome is unknown."""


class Job(Struct):
    """One background command. `exit_code` is None while it runs, and for processes that a command left running.

    `tool_use_id` is the model's id of the call that started it; empty for a command that a person typed.
    """

    id: str
    owner: str
    command: str
    file: Path
    pid: int
    started_ms: int
    description: str = ""
    tool_use_id: str = ""
    state: JobState = "running"
    exit_code: int | None = None
    seconds: float = 0.0
    timed_out_s: float = 0.0
    """The time limit in seconds that ended it; 0 when none did."""
    seems_to_wait: bool = False
    """True once it was silent for so long that it seems to wait for an input."""

    @property
    def key(self) -> str:
        """The id under which its end is delivered. A transcript with `notice:<key>` has it."""
        return f"job-{self.id}"


def omit_command(command: str) -> str:
    """Return no command: the default of `redact` writes none to disk."""
    return ""


_TAIL = 4_000
"""Characters of a job's output that are kept in memory; the file has all of it."""


_SHOWN = 200
"""Characters of a command that are shown."""


_WAIT_LINES = 5
"""Lines of the output of a command that seems to wait for an input, for its owner."""

_WAIT_BYTES = 1_000
"""The most bytes of these lines."""

_MAX_ENDED = 200
"""The number of ended jobs that can still be read."""


class RunningCommand(Struct, frozen=True):
    """A command that an agent waits for. `call` is `cN`, `began` a monotonic time in seconds."""

    process: Process
    output: ProcessOutput
    owner: str
    call: str
    text: str
    began: float


class BackgroundJobs:
    """All jobs of a run.

    `session` is the directory of the session whose lease this process holds; without it nothing is
    recorded on disk. `redact` removes secrets from a command before it is recorded. `records` cover every process that
    the session starts, not only jobs. `silence` says when a silent job is looked at; None: the default.
    """

    def __init__(
        self,
        *,
        max_running: int = 32,
        grace_s: float = 2.0,
        session: Path | None = None,
        redact: Callable[[str], str] = omit_command,
        silence: SilenceSettings | None = None,
    ) -> None:
        self._followers: tuple[Callable[[Job], None], ...] = ()
        self._wait_followers: tuple[Callable[[Job, str], None], ...] = ()
        self._silence = silence
        self._silent: dict[str, SilentJob] = {}
        self._close_followers: tuple[Callable[[], Awaitable[None]], ...] = ()
        self.records = ProcessRecords(session) if session is not None else None
        self._session = session
        self._journal = JobJournal(session, redact) if session is not None else None
        self._orphan_cleanup: asyncio.Task[list[Orphan]] | None = None
        self._redact = redact
        self._max_running = max_running
        self._grace_s = grace_s
        self._jobs: dict[str, Job] = {}
        self._processes: dict[str, tuple[Process, ProcessOutput]] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._left_running: list[tuple[str, Process]] = []
        """Processes without output that commands left running, with the owner of each."""
        self._foreground: dict[int, RunningCommand] = {}
        self._closed = False

    def follow_ends(self, follower: Callable[[Job], None]) -> None:
        """Call `follower` once for each job that ends, in the loop, also for a stopped one; never after `close`."""
        self._followers = (*self._followers, follower)

    def follow_waits(self, follower: Callable[[Job, str], None]) -> None:
        """Call `follower` once for each job that seems to wait for an input, with the last lines of its output."""
        self._wait_followers = (*self._wait_followers, follower)

    def follow_close(self, follower: Callable[[], Awaitable[None]]) -> None:
        """Call `follower` when all jobs have ended in `close`."""
        self._close_followers = (*self._close_followers, follower)

    def start(
        self,
        command: ProcessCommand,
        *,
        owner: str,
        scratch: Path,
        text: str,
        description: str = "",
        tool_use_id: str = "",
        timeout_s: float | None = None,
    ) -> Job:
        """Start a job. `text` is the command as shown to people; its output goes to `<scratch>/<id>.output`. It is
        stopped after `timeout_s` seconds.

        Raises LimitExceeded when too many jobs run, OSError when the command cannot be started.
        """
        from teamwright.processes.commands import Process, ProcessOutput

        self._check_room()
        name = self._new_id()
        file = scratch / f"{name}.output"
        output = ProcessOutput(_TAIL, file, writes_at_once=True)
        purpose = replace(command.purpose, member=owner, job=name, output=str(file))
        try:
            process = Process.start(replace(command, records=self.records, purpose=purpose), output)
        except OSError:
            output.close()
            raise
        job = Job(name, owner, text, file, process.pid, now_ms(), description, tool_use_id)
        return self._add(job, process, output, timeout_s)

    def adopt(
        self, process: Process, output: ProcessOutput, *, owner: str, text: str, tool_use_id: str = ""
    ) -> Job | None:
        """Make a job of the processes that a foreground command left running; `output` continues in its file.

        Return None when all of them are daemons: they closed the output and left the command's process group. They are
        only recorded, and ended with their owner.
        """
        if process.is_silent and not process.has_group:
            self._remember(owner, process)
            return None
        output.start_file()
        file = output.file or Path(os.devnull)
        job = Job(self._new_id(), owner, text, file, process.pid, now_ms(), tool_use_id=tool_use_id)
        return self._add(job, process, output)

    @contextmanager
    def foreground(
        self, process: Process, output: ProcessOutput, *, owner: str, call: str, text: str
    ) -> Generator[None]:
        """Register a foreground command for the duration of the block: it can be moved to the background, and its
        output can be shown.
        """
        self._foreground[process.pid] = RunningCommand(process, output, owner, call, text, time.monotonic())
        try:
            yield
        finally:
            del self._foreground[process.pid]

    def foreground_command(self, owner: str) -> RunningCommand | None:
        """Return the newest command that this agent waits for; None without one."""
        return next((one for one in reversed(self._foreground.values()) if one.owner == owner), None)

    def foreground_commands(self) -> list[RunningCommand]:
        """Return the commands that agents wait for, oldest first."""
        return list(self._foreground.values())

    def move_to_background(self, owner: str = "", call: str = "") -> list[str]:
        """Move the foreground commands of one owner, or the one of this call, to the background: they continue as jobs.

        Return their texts for people.
        """
        going = [one for one in self._foreground.values() if (one.call == call if call else one.owner == owner)]
        for one in going:
            one.process.moved_to_background.set()
        return [one.text for one in going]

    def start_orphan_cleanup(self) -> None:
        """Start to end the processes of earlier runs of the session. Call it once, while holding the lease.

        Returns at once. `wait_for_orphan_cleanup` waits for the end, so that no command meets such a process.
        """
        session = self._session
        if session is not None and self._orphan_cleanup is None:
            self._orphan_cleanup = asyncio.create_task(asyncio.to_thread(_end_orphans, session), name="leftovers")

    async def wait_for_orphan_cleanup(self) -> list[Orphan]:
        """Wait until no process of an earlier run is left, a few seconds at most.

        Return the orphans that were ended.
        """
        return await asyncio.shield(self._orphan_cleanup) if self._orphan_cleanup is not None else []

    def unreported(self) -> list[Job]:
        """Return ended jobs of earlier runs of the session whose owner may not have been notified."""
        return self._journal.unreported() if self._journal is not None else []

    def mark_reported(self, ids: Iterable[str]) -> None:
        """Mark jobs as reported: the owner's transcript has their end, or the owner does not exist any more."""
        if self._journal is not None:
            self._journal.mark_reported(ids)

    def list(self, owner: str | None = None) -> list[Job]:
        """Return all jobs, of one owner if given, oldest first."""
        return [job for job in self._jobs.values() if owner is None or job.owner == owner]

    def running(self, owner: str | None = None) -> list[Job]:
        """Return the running jobs, of one owner if given, oldest first."""
        return [job for job in self.list(owner) if job.state == "running"]

    def running_lines(self) -> tuple[str, ...]:
        """Return a line for each running job: its owner, its id, and the command without secrets."""
        return tuple(map(self.line, self.running()))

    def line(self, job: Job) -> str:
        """Return the owner of a job, its id, and the command without secrets."""
        text = " ".join(self._redact(job.command).split())
        return f"{display_name(job.owner)}'s command {job.id}: {text[:_SHOWN]}"

    def get(self, name: str) -> Job:
        """Return the job with this id. Raises UsageError with the nearest id."""
        job = self._jobs.get(name)
        if job is None:
            raise UsageError("usage", f"there is no background job {name!r}", do=did_you_mean(name, self._jobs))
        return job

    def find(self, name: str) -> Job | None:
        """Return the job with this id, also an old one or one of an earlier run; None when there is none."""
        job = self._jobs.get(name)
        if job is None and self._session is not None and self._journal is not None and name in self._journal.used_ids:
            job = next((one for one in all_jobs(self._session) if one.id == name), None)
        return job

    async def wait(self, name: str, timeout_s: float) -> bool:
        """Wait at most `timeout_s` seconds for the end of a job. Return True when it has ended."""
        watcher = self._watchers.get(name)
        if watcher is not None:
            await asyncio.wait({watcher}, timeout=timeout_s)
        return name not in self._watchers

    async def stop(self, name: str) -> Job:
        """End a job and all processes that it started. An ended job is returned unchanged."""
        job = self.get(name)
        if job.state == "running":
            job.state = "stopped"
            try:
                await self._processes[name][0].terminate(self._grace_s)
            finally:
                self._finish(job)
        return job

    async def stop_all(self, owner: str | None = None) -> None:
        """End all running jobs and the processes that ended commands left running, of one owner if given."""
        remains = [process for whose, process in self._left_running if owner in {None, whose}]
        self._left_running = [one for one in self._left_running if one[1] not in remains]
        async with asyncio.TaskGroup() as group:
            for job in self.running(owner):
                group.create_task(self.stop(job.id))
            for process in remains:
                group.create_task(process.terminate(self._grace_s))

    async def close(self) -> None:
        """End all jobs without calling the listener. May be called several times."""
        self._closed = True
        await self.stop_all()
        await self.wait_for_orphan_cleanup()
        for follower in self._close_followers:
            await follower()
        if self._journal is not None:
            self._journal.close()

    def _new_id(self) -> str:
        """Return an id that no job of this session has had, in this run or an earlier one."""
        used = self._journal.used_ids if self._journal is not None else self._jobs.keys()
        while (name := job_id()) in used:
            pass
        return name

    def _check_room(self) -> None:
        running = self.running()
        if self._closed or len(running) >= self._max_running:
            raise LimitExceeded(
                "limit",
                f"{len(running)} background commands are running, {self._max_running} are allowed",
                do=[f"stop one: kill -- -{running[0].pid}"] if running else (),
                note="nothing was started",
            )

    def _add(self, job: Job, process: Process, output: ProcessOutput, timeout_s: float | None = None) -> Job:
        ended = [name for name, one in self._jobs.items() if one.state != "running"]
        for name in ended[: max(0, len(ended) - _MAX_ENDED)]:
            del self._jobs[name]
        from teamwright.agent.silent_jobs import SilenceSettings, SilentJob

        self._jobs[job.id] = job
        if self._journal is not None:
            self._journal.record_start(job)
        self._processes[job.id] = (process, output)
        self._watchers[job.id] = asyncio.create_task(self._watch(job, process, timeout_s), name=f"job {job.id}")
        self._silent[job.id] = SilentJob(
            process, output, lambda: self._note_wait(job, output), self._silence or SilenceSettings()
        )
        return job

    def _note_wait(self, job: Job, output: ProcessOutput) -> None:
        job.seems_to_wait = True
        for follower in self._wait_followers:
            follower(job, "\n".join(output.end(_WAIT_BYTES).strip().splitlines()[-_WAIT_LINES:]))

    async def _watch(self, job: Job, process: Process, timeout_s: float | None) -> None:
        adopted = process.exited.is_set()
        try:
            async with time_limit(timeout_s):
                await process.exited.wait()
                await process.wait_until_silent()
                await process.wait_for_group()
        except TimeoutError:
            job.timed_out_s = timeout_s or 0.0
            await self.stop(job.id)
            return
        job.exit_code = None if adopted else process.exit_code
        if job.state == "running":
            self._finish(job)

    def _finish(self, job: Job) -> None:
        process, output = self._processes.pop(job.id)
        self._silent.pop(job.id).close()
        process.close()
        output.close()
        if process.has_left_running():
            self._remember(job.owner, process)
        self._watchers.pop(job.id).cancel()
        if job.state == "running":
            job.state = "failed" if job.exit_code else "completed"
        job.seconds = (now_ms() - job.started_ms) / 1000
        if self._journal is not None:
            self._journal.record_end(job)
        if not self._closed:
            for follower in self._followers:
                follower(job)

    def _remember(self, owner: str, process: Process) -> None:
        self._left_running = [one for one in self._left_running if one[1].has_left_running()]
        self._left_running.append((owner, process))


def _end_orphans(session: Path) -> list[Orphan]:
    try:
        return end_orphans(session)
    except (OSError, subprocess.SubprocessError):  # the system does not list its processes, so nothing can be proved
        return []


JOBS_FILE = "jobs.jsonl"
"""The name of the journal in a session's directory."""


VERSION = 1


END_STATES: Mapping[str, JobState] = {"completed": "completed", "failed": "failed", "stopped": "stopped"}


class JobJournal:
    """The journal of the running session. Write errors are ignored: the job runs without a record.

    `redact` removes secrets from a command before it is written.
    """

    def __init__(self, session: Path, redact: Callable[[str], str] = omit_command) -> None:
        self.path = session / JOBS_FILE
        self.used_ids: set[str] = set()
        """Ids of all jobs that this session ever had. None is used twice."""
        self._redact = redact
        self._journal: Journal | None = None
        open_jobs: dict[str, Job] = {}
        for fact in _entries(self.path):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                _apply_entry(fact, open_jobs, self.used_ids)
        self._unreported = open_jobs

    def unreported(self) -> list[Job]:
        """Return jobs of earlier runs of the session that are not reported, oldest first.

        A job without a recorded end is `killed`; the others have ended, but their owner may not have been notified.
        """
        return list(self._unreported.values())

    def record_start(self, job: Job) -> None:
        """Record that a job runs."""
        self.used_ids.add(job.id)
        self._note(
            job.id,
            "begun",
            owner=job.owner,
            description=job.description[:200],
            command=self._redact(job.command)[:200],
            file=str(job.file),
            pid=job.pid,
            tool_use_id=job.tool_use_id,
        )

    def record_end(self, job: Job) -> None:
        """Record the end of a job."""
        self._note(job.id, "ended", state=job.state, exit_code=job.exit_code)

    def mark_reported(self, ids: Iterable[str]) -> None:
        """Record that jobs are reported: the owner was notified or does not exist any more."""
        for name in ids:
            self._unreported.pop(name, None)
            self._note(name, "settled")

    def close(self) -> None:
        """Close the file. Closing it again is harmless, and a later record opens it again."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _note(self, name: str, what: str, **more: object) -> None:
        line = json.dumps({"v": VERSION, "type": what, "id": name, "at": now_ms(), **more}, ensure_ascii=False)
        with contextlib.suppress(StorageError):
            if self._journal is None:
                self._journal = Journal.open(self.path)
            self._journal.append(line.encode("utf-8", "replace"))


def all_jobs(session: Path) -> list[Job]:
    """Return all background jobs that a session ever had, oldest first. Read-only."""
    found: dict[str, Job] = {}
    jobs: dict[str, Job] = {}
    for fact in _entries(session / JOBS_FILE):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            _apply_entry(fact, jobs, set())
            found.update(jobs)
    return list(found.values())


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """Return the readable lines. Damaged lines are skipped."""
    with contextlib.suppress(OSError):
        for line in read_lines(path):
            fact: Any = None
            with contextlib.suppress(ValueError):
                fact = json.loads(line)
            if isinstance(fact, dict):
                yield cast("dict[str, Any]", fact)


def _apply_entry(fact: dict[str, Any], open_jobs: dict[str, Job], used: set[str]) -> None:
    name = str(fact["id"])
    used.add(name)
    match fact["type"]:
        case "begun":
            open_jobs[name] = Job(
                name,
                str(fact["owner"]),
                str(fact.get("command", "")),
                Path(str(fact["file"])),
                int(fact["pid"]),
                int(fact["at"]),
                str(fact.get("description", "")),
                str(fact.get("tool_use_id", "")),
                "killed",
            )
        case "ended" if name in open_jobs:
            job = open_jobs[name]
            code = fact.get("exit_code")
            job.state = END_STATES[fact["state"]]
            job.exit_code = None if code is None else int(code)
            job.seconds = (int(fact["at"]) - job.started_ms) / 1000
        case "settled":
            open_jobs.pop(name, None)
        case _:
            pass
