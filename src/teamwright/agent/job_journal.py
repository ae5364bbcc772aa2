"""The journal of a session's background commands on disk: started, ended, reported. It survives a kill.

Each event is one line of `jobs.jsonl` in the session's directory. A job is reported when its owner's transcript has its
end, or the owner does not exist any more. Format: docs/reference/formats/processes.md.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from teamwright.protocol.errors import StorageError
from teamwright.protocol.timestamps import now_ms
from teamwright.storage.jsonl import Journal, read_lines

JOBS_FILE = "jobs.jsonl"
"""The name of the journal in a session's directory."""

VERSION = 1

JobState = Literal["running", "completed", "failed", "stopped", "killed"]
"""The state of a job. `killed`: it ended with the program that ran it, so the outcome is unknown."""

END_STATES: Mapping[str, JobState] = {"completed": "completed", "failed": "failed", "stopped": "stopped"}


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

    @property
    def key(self) -> str:
        """The id under which its end is delivered. A transcript with `notice:<key>` has it."""
        return f"job-{self.id}"


def omit_command(command: str) -> str:
    """Return no command: the default of `redact` writes none to disk."""
    return ""


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
        self._unreported = _read(self.path, self.used_ids)

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


def _read(path: Path, used: set[str]) -> dict[str, Job]:
    open_jobs: dict[str, Job] = {}
    for fact in _entries(path):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            _apply_entry(fact, open_jobs, used)
    return open_jobs


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
            job, code = open_jobs[name], fact.get("exit_code")
            job.state = END_STATES[fact["state"]]
            job.exit_code = None if code is None else int(code)
            job.seconds = (int(fact["at"]) - job.started_ms) / 1000
        case "settled":
            open_jobs.pop(name, None)
        case _:
            pass
