"""The changes of files by calls of Bash: a command counts from its start to its end, in a job too.

Depends on the recorder of changes and on background jobs.
"""

from __future__ import annotations

import asyncio
from functools import partial

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.job_journal import Job
from teamwright.agent.tool import ToolContext
from teamwright.tools.shell.command_changes import CommandChanges, CommandScan


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
