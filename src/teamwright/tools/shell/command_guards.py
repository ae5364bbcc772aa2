"""The comparison of protected paths after commands: at the end of a call, and again at the end of the job that it left.

Depends on the sandbox's comparison and on background jobs.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from teamwright.agent.background_jobs import BackgroundJobs, Job
from teamwright.sandbox.protected_file_check import ProtectedFiles
from teamwright.sandbox.sandbox import CommandConfinement

QUARANTINE = "quarantine"
"""The directory of the session with files that commands created at protected paths."""


class _Guard(Struct, frozen=True):
    """The state before a command, and the directory for what the command created."""

    before: ProtectedFiles
    quarantine: Path

    def remove_created(self) -> None:
        """Move away what was created. Files that existed stay: a person may have changed them since."""
        self.before.created_only().restore(self.quarantine)


class CommandGuards:
    """The protected paths of the running commands of one session in this process. A call is known by its object."""

    def __init__(self, jobs: BackgroundJobs) -> None:
        self._calls: dict[int, _Guard] = {}
        self._jobs: dict[str, _Guard] = {}
        self._left: list[_Guard] = []
        jobs.follow_ends(self._end_job)
        jobs.follow_close(self._end_all)

    def begin(self, call: object, confinement: CommandConfinement | None, session: Path) -> ProtectedFiles | None:
        """Record and return the state before a command of this session directory; None without confinement."""
        if confinement is None:
            return None
        before = confinement.guard()
        self._calls[id(call)] = _Guard(before, session / QUARANTINE)
        return before

    def move_to_job(self, job: Job | None, call: object) -> None:
        """Remove what is created until the end of the job that continues the command; None: of the session."""
        found = self._calls.get(id(call))
        if found is not None and job is not None:
            self._jobs[job.id] = found
        elif found is not None:
            self._left.append(found)

    def end(self, call: object) -> None:
        """Undo what the command of this call changed. A second call changes nothing."""
        found = self._calls.pop(id(call), None)
        if found is not None:
            found.before.restore(found.quarantine)

    def _end_job(self, job: Job) -> None:
        found = self._jobs.pop(job.id, None)
        if found is not None:
            found.remove_created()

    async def _end_all(self) -> None:
        for found in (*self._jobs.values(), *self._left):
            found.remove_created()
