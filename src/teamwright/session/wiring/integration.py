"""The integration and the review of members' finished work: a worker of each starts with the first task that needs it.

A session without worktrees and reviews loads none of their modules.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import MemberChanged, TaskChanged, TeamChanged, TeamEvent
from teamwright.protocol.ids import iso_time
from teamwright.protocol.members import MemberState
from teamwright.protocol.task import IntegrationState, ReviewState, TaskStatus
from teamwright.session.agents.factory import AgentFactory
from teamwright.session.preparation import SessionContext
from teamwright.storage.event_log import EventLog
from teamwright.storage.json_lines import read_lines
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.team_records.team_state import process_directory
from teamwright.tools.files.edit_journal_writer import JOURNAL, load_content

if TYPE_CHECKING:
    from teamwright.protocol.task import ReviewNote, Task, TaskIntegration
    from teamwright.teams.integration_worker import IntegrationWorker
    from teamwright.teams.review_worker import ReviewWorker
    from teamwright.teams.team import SessionTeam
    from teamwright.worktrees.integration import Integration


class SessionIntegration:
    """The integration queue of the session's team."""

    def __init__(self, context: SessionContext, agent_factory: AgentFactory, log: EventLog) -> None:
        self._context = context
        self._agent_factory = agent_factory
        self._worker: IntegrationWorker | None = None
        self._worked_team = ""
        """The name of the team whose queue the worker works."""
        self._reviews = SessionReviews(context, agent_factory, log)
        self._ends: set[asyncio.Task[None]] = set()
        """The ends of the workers of deleted teams."""
        log.subscribe(self._note_event, kinds=(TeamChanged, TaskChanged))

    @property
    def is_working(self) -> bool:
        """True while finished work is being reviewed or integrated."""
        return self._reviews.is_working or (self._worker is not None and self._worker.is_working)

    def _note_event(self, _number: int, event: TeamEvent) -> None:
        """Start with a task whose commit is queued, completed in any process of the team."""
        if isinstance(event, TeamChanged):
            self._agent_factory.note_team(event.team)
        if not isinstance(event, TaskChanged) or event.task.integration is not IntegrationState.QUEUED:
            return
        if event.task.status == "completed" and (team := self._agent_factory.team) is not None:
            self._work(team).note_task(event.task.id)

    def open(self) -> Integration:
        """Return the integration of the team, to look at. Raises CannotStart outside a repository."""
        from teamwright.session.wiring.worktree_factory import make_integration

        team = self._agent_factory.team
        assert team is not None, "the session is open"
        return make_integration(self._context, self._agent_factory, team, lambda _entry: None)

    async def resume(self, team: SessionTeam) -> None:
        """Continue with what an earlier process of the session left."""
        tasks = (await team.tasks.snapshot()).tasks
        for task in tasks:
            if task.status is TaskStatus.IN_PROGRESS and task.owner and team.work is not None:
                await team.work.move(task, task.owner)  # a kill may have come between the claim and the move
        self._reviews.resume(team, list(tasks))
        queued = [task.id for task in tasks if task.awaits_integration]
        if queued or await _has_unsettled(team):
            self._work(team).resume(queued)

    async def close(self) -> None:
        """Stop working; what is queued stays queued."""
        self._drop_worker()
        await asyncio.gather(self._reviews.close(), *self._ends)

    def _drop_worker(self) -> None:
        """Stop the worker; `close` waits for its end."""
        if self._worker is not None:
            end = asyncio.get_running_loop().create_task(self._worker.close(), name="end of the integration queue")
            self._ends.add(end)
            end.add_done_callback(self._ends.discard)
            self._worker = None

    def _work(self, team: SessionTeam) -> IntegrationWorker:
        name = team.name or team.session_list_name
        if name != self._worked_team:
            self._drop_worker()  # the session's former team was deleted
        if self._worker is None:
            from teamwright.session.wiring.worktree_factory import make_integration
            from teamwright.teams.integration_worker import IntegrationWorker

            self._worked_team = name
            context = self._context
            agent_factory = self._agent_factory
            self._worker = IntegrationWorker(
                team, lambda report: make_integration(context, agent_factory, team, report)
            )
        return self._worker


async def _has_unsettled(team: SessionTeam) -> bool:
    """Return True when the queue has work, or cannot be read: the worker reports that."""
    try:
        return any(not entry.is_settled for entry in await team.stores.integration(team.directory).entries())
    except StorageError:
        return True


_RESTS = frozenset({MemberState.IDLE, *ENDED_STATES})


class SessionReviews:
    """The reviews of the session's team. A session whose tasks need no review loads no worker."""

    def __init__(self, context: SessionContext, agent_factory: AgentFactory, log: EventLog) -> None:
        self._context = context
        self._agent_factory = agent_factory
        self._worker: ReviewWorker | None = None
        log.subscribe(self._note_event, kinds=(TaskChanged, MemberChanged))

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
        return await asyncio.to_thread(
            journal_diff,
            self._agent_factory.session_directory / "history",
            self._agents_of(note.author),
            iso_time(note.begun),
            self._agent_factory.work_directory,
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

        name = author.partition("@")[0]
        directories = [self._context.directory]
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
