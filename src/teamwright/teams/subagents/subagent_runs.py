"""The runs of a session's sub-agents, of earlier processes too, found by owner, id, name or call.

Depends on the journal of runs and on transcripts. Starting and stopping them is left to `registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from teamwright.teams.subagents.run import SubagentRun, find_run
from teamwright.teams.subagents.run_journal import RunJournal, find_by_transcript, is_run_id, last_text


class SubagentRuns:
    """The runs of one session. `session` is its directory; `transcript_path` returns the transcript of an id."""

    def __init__(self, session: Path, transcript_path: Callable[[str], Path]) -> None:
        self._transcript_path = transcript_path
        self._scratch = session / "output"
        self._journal = RunJournal(session)
        self._running: dict[str, SubagentRun] = {}
        """Runs that may be running: start checks do not slow down with the number of ended runs."""

    @property
    def runs(self) -> dict[str, SubagentRun]:
        """All runs of the session, of earlier processes too, oldest first."""
        return self._journal.runs

    def running_runs(self, owner: str | None = None, *, background: bool | None = None) -> list[SubagentRun]:
        """Return the running runs: of one owner if given, in the background or in the foreground if given."""
        return [
            run
            for run in self._running.values()
            if run.is_running and owner in {None, run.owner} and (background is None or run.background is background)
        ]

    def has_background_runs(self) -> bool:
        """Return True when any runs in the background: the end of all work waits for it."""
        return bool(self.running_runs(background=True))

    def find(self, text: str) -> SubagentRun | None:
        """Return the run of that id or name; a run that only has a transcript left is found by its id."""
        found = find_run(self.runs, text)
        if found is not None:
            return found
        id = text.strip()
        return (
            find_by_transcript(id, self._transcript_path(id), self._scratch / f"{id}.output") if is_run_id(id) else None
        )

    def find_by_call(self, key: str) -> SubagentRun | None:
        """Return the run that a call began before a kill."""
        return next((run for run in self.runs.values() if run.key == key), None)

    def unreported(self) -> list[SubagentRun]:
        """Return the runs of earlier processes whose end may be unreported, each with its last text."""
        lost = self._journal.unreported()
        for run in lost:
            run.text = run.text or last_text(run)
        return lost

    def mark_reported(self, ids: Iterable[str]) -> None:
        """Mark the ends of these runs as reported."""
        for id in ids:
            self._journal.record_reported(self.runs[id])
