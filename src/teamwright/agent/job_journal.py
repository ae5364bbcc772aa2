"""Background commands of a session on disk: begun, ended, settled; what a kill does not take away.

One line an occurrence, `jobs.jsonl` in the session's directory. A job is settled when its owner's transcript has its
end, or nobody is left to be told. Knows no process and no agent. Format: docs/formats/processes.md.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import StorageError
from teamwright.protocol.values import dataclass
from teamwright.storage.jsonl import Journal, read_lines

JOBS_FILE = "jobs.jsonl"
"""Name of the journal in a session's directory."""

VERSION = 1

JobState = Literal["running", "completed", "failed", "stopped", "killed"]
"""`killed`: it ended with the program that ran it, and nobody saw how."""

END_STATES: Mapping[str, JobState] = {"completed": "completed", "failed": "failed", "stopped": "stopped"}


@dataclass(slots=True)
class Job:
    """One background command. `exit_code` is None while it runs and for what a command left behind."""

    id: str
    owner: str
    command: str
    file: Path
    pid: int
    started_ms: int
    description: str = ""
    state: JobState = "running"
    exit_code: int | None = None
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """The name under which its end is told: a transcript that holds `notice:<key>` was told."""
        return f"job-{self.id}"


def omit_command(command: str) -> str:
    """The default for `shown`: no command goes to the disk."""
    return ""


class JobJournal:
    """The journal of the session that is run now. What the disk refuses is not noted: a job runs all the same.

    `shown` makes of a command what may stand in the file, without secrets.
    """

    def __init__(self, session: Path, redact: Callable[[str], str] = omit_command) -> None:
        self.path = session / JOBS_FILE
        self.used_ids: set[str] = set()
        """Ids of all jobs that this session ever had; none is given twice."""
        self._redact = redact
        self._journal: Journal | None = None
        self._unreported = _read(self.path, self.used_ids)

    def unreported(self) -> list[Job]:
        """Jobs of earlier lives of the session that are not settled, oldest first; see `unreported_jobs`."""
        return list(self._unreported.values())

    def record_start(self, job: Job) -> None:
        """Note that a job runs."""
        self.used_ids.add(job.id)
        self._note(
            job.id,
            "begun",
            owner=job.owner,
            description=job.description[:200],
            command=self._redact(job.command)[:200],
            file=str(job.file),
            pid=job.pid,
        )

    def record_end(self, job: Job) -> None:
        """Note how a job has ended."""
        self._note(job.id, "ended", state=job.state, exit_code=job.exit_code)

    def mark_reported(self, ids: Iterable[str]) -> None:
        """These jobs are over for good: whoever waited was told, or nobody is there who waits."""
        for name in ids:
            self._unreported.pop(name, None)
            self._note(name, "settled")

    def close(self) -> None:
        """Close the file; harmless when closed. A later note opens it again."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _note(self, name: str, what: str, **more: object) -> None:
        line = json.dumps({"v": VERSION, "type": what, "id": name, "at": now_ms(), **more}, ensure_ascii=False)
        with contextlib.suppress(StorageError):
            if self._journal is None:
                self._journal = Journal.open(self.path)
            self._journal.append(line.encode("utf-8", "replace"))


def unreported_jobs(session: Path) -> list[Job]:
    """Background jobs in a session's directory that are not settled, oldest first. Changes nothing.

    One that nobody saw end is `killed`; the others ended, and their owner may not have been told. For a session that
    no process drives: of one that is driven, running jobs look killed.
    """
    return list(_read(session / JOBS_FILE, set()).values())


def all_jobs(session: Path) -> list[Job]:
    """All background jobs that a session ever had, oldest first, settled or not. Changes nothing."""
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
    """The lines that can be read; what cannot be read tells nothing."""
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
