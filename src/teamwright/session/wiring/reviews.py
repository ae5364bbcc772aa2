"""The reviews of a session: a worker starts with the first finished work that needs one, and this module reads diffs.

Depends on the agent factory, on the events of the log, on git and on the edit journal.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from teamwright.protocol.events import MemberChanged, TaskChanged, TeamEvent
from teamwright.protocol.member_states import MemberState
from teamwright.protocol.review import ReviewState
from teamwright.protocol.timestamps import iso_time
from teamwright.session.agents.agent_factory import AgentFactory
from teamwright.session.session_preparation import SessionContext
from teamwright.storage.event_log import EventLog
from teamwright.storage.jsonl import read_lines
from teamwright.team_records.incarnation import process_directory
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.tools.files.edit_journal_writer import JOURNAL, load_content

if TYPE_CHECKING:
    from teamwright.protocol.integration import TaskIntegration
    from teamwright.protocol.review import ReviewNote
    from teamwright.protocol.task import Task
    from teamwright.teams.review_worker import ReviewWorker
    from teamwright.teams.team import SessionTeam

_RESTS = frozenset({MemberState.IDLE, *ENDED_STATES})


class SessionReviews:
    """The reviews of the session's team. A session whose tasks need no review loads no worker."""

    def __init__(self, context: SessionContext, agent_factory: AgentFactory, log: EventLog) -> None:
        self._context = context
        self._agent_factory = agent_factory
        self._worker: ReviewWorker | None = None
        log.subscribe(self._note_event, live=False)

    @property
    def is_working(self) -> bool:
        """True while a reviewer is being asked, or a person has not answered yet."""
        return self._worker is not None and self._worker.is_working

    def _note_event(self, _number: int, event: TeamEvent) -> None:
        if isinstance(event, TaskChanged):
            if event.task.review not in {None, ReviewState.WORKING} and self._agent_factory.team is not None:
                self._work(self._agent_factory.team).note_tasks([event.task.id])
        elif isinstance(event, MemberChanged) and self._worker is not None and event.state in _RESTS:
            self._worker.note_rest(event.member)

    def resume(self, team: SessionTeam, tasks: list[Task]) -> None:
        """Continue with the reviews that an earlier process left, and with tasks that another program completed."""
        left = [task for task in tasks if task.awaits_approval or _is_unsettled(task)]
        if left:
            self._work(team).note_tasks([task.id for task in left])

    async def close(self) -> None:
        """Stop asking; open reviews stay open."""
        if self._worker is not None:
            await self._worker.close()

    def _work(self, team: SessionTeam) -> ReviewWorker:
        if self._worker is None:
            from teamwright.teams.review_worker import ReviewWorker

            self._worker = ReviewWorker(team, self._read_changes, self._agent_factory.approver)
        return self._worker

    async def _read_changes(self, task: Task, note: ReviewNote) -> str:
        """Return the diff of a task in review: of its commit, or of its author's recorded edits since it was begun."""
        if note.work is not None:
            return await asyncio.to_thread(self._commit_diff, note.work)
        directory = self._context.home.session(self._context.cwd, self._context.id)
        agents = self._agents_of(note.author)
        return await asyncio.to_thread(
            journal_diff, directory / "history", agents, iso_time(note.begun), self._agent_factory.work_directory
        )

    def _commit_diff(self, work: TaskIntegration) -> str:
        from teamwright.session.wiring.worktree_factory import open_repository
        from teamwright.worktrees.worktree_record import integrated_ref, integration_branch

        team = self._agent_factory.team
        assert team is not None, "the session is open"
        git = open_repository(self._agent_factory, self._context.cwd)
        branch = integration_branch(team.name or team.session_list_name)
        start = git.commit_of(work.base)
        for name in (f"refs/heads/{branch}", integrated_ref(work.branch)):
            if (commit := git.commit_of(name)) and (found := git.call("merge-base", commit, work.tip)).ok:
                shared = found.output.strip()
                start = shared if git.contains(start, shared) else start
        return git.read("diff", "--no-color", "--no-ext-diff", "--no-textconv", start, work.tip)

    def _agents_of(self, author: str) -> frozenset[str]:
        """Return the author with its sub-agents, directly or below others."""
        from teamwright.subagents.journal import RunJournal

        name, directories = author.partition("@")[0], [self._context.directory]
        team = self._agent_factory.team
        if team is not None and (teammate := team.find(name)) is not None:  # a member process has its own journal
            directories.append(process_directory(teammate.transcript_path))
        owners = {run.id: run.owner for directory in directories for run in RunJournal(directory).runs.values()}
        found = {name}
        while more := {id for id, owner in owners.items() if owner in found} - found:
            found |= more
        return frozenset(found)


def _is_unsettled(task: Task) -> bool:
    note = task.review_note
    return note is not None and note.state in {ReviewState.WAITING, ReviewState.RETURNED}


def journal_diff(history: Path, agents: frozenset[str], since: str, base: Path) -> str:
    """Return the edits of these agents since a time (as in the journal) as one diff, with paths relative to `base`.

    Each file is compared as it was before the first of these edits and after the last of them. Edits by commands are
    not recorded. Raises OSError.
    """
    contents: dict[str, tuple[str | None, str | None]] = {}
    for line in read_lines(history / JOURNAL):
        try:
            edit = cast("dict[str, Any]", json.loads(line))
            if "path" not in edit or edit["member"] not in agents or edit["at"] < since or edit.get("undo"):
                continue
            path = str(edit["path"])
            contents[path] = (contents[path][0] if path in contents else edit["before"], edit["after"])
        except (ValueError, KeyError, TypeError):
            continue  # a line that a kill cut
    changed = {path: pair for path, pair in contents.items() if pair[0] != pair[1]}
    return "\n".join(_file_diff(history, path, pair, base) for path, pair in sorted(changed.items()))


def _file_diff(history: Path, path: str, pair: tuple[str | None, str | None], base: Path) -> str:
    before, after = (b"" if name is None else load_content(history, name) for name in pair)
    display_path = str(Path(path).relative_to(base)) if Path(path).is_relative_to(base) else path
    if before is None or after is None:
        return f"{display_path}: a content of this file is missing in the edit history"
    try:
        lines = [content.decode().splitlines() for content in (before, after)]
    except UnicodeDecodeError:
        return f"{display_path}: a binary file changed"
    names = (
        "/dev/null" if pair[0] is None else f"a/{display_path}",
        "/dev/null" if pair[1] is None else f"b/{display_path}",
    )
    return "\n".join(difflib.unified_diff(lines[0], lines[1], names[0], names[1], lineterm=""))
