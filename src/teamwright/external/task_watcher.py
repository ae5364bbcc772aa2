"""Changes of other programs to the team's tasks: an event for each, and a notice to a member that lost its task.

Depends on the task list and the team. Files do not say who changed a task; a database names the member, if it was one.
Task changes that a member process may have made are held, until the process reports them or the time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.task import Reviewer, Task, TaskStatus
from teamwright.tasks.completion_conditions import TaskCheckResult
from teamwright.tasks.external_changes import STEP
from teamwright.tasks.task_rules import change_word, is_owner, task_info
from teamwright.tasks.task_store import DamagedTask, ExternalTaskChange, TaskFollower
from teamwright.teams.external_members import UNKNOWN_PROGRAM
from teamwright.teams.outgoing_mail import send_note
from teamwright.teams.team import SessionTeam


class CompletionVerifier:
    """A verifier of completions by other programs, one at a time."""

    def __init__(self, team: SessionTeam) -> None:
        self._team = team
        self._running: dict[str, asyncio.Task[None]] = {}
        self._lock = asyncio.Lock()

    def note_completion(self, before: Task | None, after: Task | None) -> None:
        """Record a change by another program: a completed task is checked, and submitted to the review it requires."""
        if after is None or after.status is not TaskStatus.COMPLETED or after.id in self._running:
            return
        if before is not None and before.status is TaskStatus.COMPLETED:
            return
        check, review = (before.check, before.review) if before is not None else ("", None)
        verification = asyncio.get_running_loop().create_task(
            self._verify(after, check, review), name=f"check of #{after.id}"
        )
        self._running[after.id] = verification
        verification.add_done_callback(lambda _: self._running.pop(after.id, None))

    async def close(self) -> None:
        """Stop all checks, including a running one."""
        running = list(self._running.values())
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _verify(self, task: Task, check: str, review: Reviewer | None) -> None:
        teammate = self._team.find(task.owner or "")
        try:
            async with self._lock:  # a hundred completions at once are checked one by one
                found = await self._team.tasks.verify(task, check, keeps_owner=teammate is not None)
            if found is not None and found.was_run and not found.passed:
                await self._notify_owner(task, found, teammate.name if teammate is not None else "")
            elif await self._team.tasks.submit_unapproved(task, review) is not None:
                what = f'Another program set task #{task.id} "{task.subject}" completed, which requires a review'
                text = f"{what}. The task is in progress until the review approves it."
                await send_note(self._team, "task-list", LEAD, text, f"#{task.id} is in review")
        except TeamwrightError as problem:
            text = f"the check of #{task.id}, which another program completed, could not be finished: {problem.what}"
            self._team.emit(Notice(member=UNKNOWN_PROGRAM, text=text, level="warning"))

    async def _notify_owner(self, task: Task, result: TaskCheckResult, owner: str) -> None:
        what = f'#{task.id} "{task.subject}"'
        why = f"Another program set task {what} completed, but {result.reason}."
        end = f" The end of its output:\n{result.output}" if result.output else ""
        if owner:
            text = (
                f"{why} It is in progress again, and you own it. Fix the problems that it found, then complete it.{end}"
            )
            await send_note(self._team, "task-list", owner, text, f"#{task.id} is not done: its check fails")
        became = f"It is in progress again, with {owner}." if owner else "It is pending again, without an owner."
        await send_note(self._team, "task-list", LEAD, f"{why} {became}{end}", f"#{task.id} was reopened")
        self._team.wake_idle()


PATIENCE_S = 1.0
"""Seconds before an incomplete file counts as damaged: it may still be being written."""


class TaskWatcher:
    """A watcher of other programs' changes to the task list in use. `wake` requests a check."""

    def __init__(self, team: SessionTeam, wake: Callable[[], None]) -> None:
        self._team = team
        self._wake = wake
        self._task_changes: TaskFollower | None = None
        self._names: set[str] | None = set()
        self._changes: list[ExternalTaskChange] = []
        self._damaged: dict[str, float] = {}
        """The damaged files by task id, with the time of the first damaged reading."""
        self._reported_damaged: set[str] = set()
        self._retry_timer: asyncio.TimerHandle | None = None
        self._verifier = CompletionVerifier(team)
        self._uncertain = UncertainChanges(team, wake)

    def begin(self) -> None:
        """Begin with the present content of the list; later changes of others are reported. Raises StorageError."""
        self.end()
        self._task_changes = self._team.tasks.watch_external_changes(self._on_change)

    def end(self) -> None:
        """Stop reporting changes of this list."""
        if self._task_changes is not None:
            self._task_changes.close()
            self._task_changes = None
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None
        self._names = set()
        self._changes.clear()
        self._uncertain.clear()
        self._damaged.clear()
        self._reported_damaged.clear()

    async def close(self) -> None:
        """Stop all checks, because the team is left."""
        await self._verifier.close()

    def note_change(self, names: Collection[str] | None) -> None:
        """Record that files of these names changed; None: any may have."""
        if names is None or self._names is None:
            self._names = None
        else:
            self._names.update(names)
        self._wake()

    async def check(self) -> None:
        """Check the changed files, and report the changes of others. Raises StorageError, LockTimeout."""
        if self._task_changes is None:
            return
        if self._names is None or self._names:
            names, self._names = self._names, set()
            hurt = await self._task_changes.check_files(names)
            looked_at = (
                self._damaged.keys() | hurt.keys() if names is None else {name.removesuffix(".json") for name in names}
            )
            await self._report_damaged(hurt, looked_at)
        await self._emit_changes()

    def _on_change(self, change: ExternalTaskChange) -> None:
        """Record a change. It may be detected under a lock, so it is reported later."""
        if any(task is not None and task.is_internal for task in (change.before, change.after)):
            return
        if not self._uncertain.hold(change):
            self._changes.append(change)
        self._wake()

    async def _emit_changes(self) -> None:
        self._changes += self._uncertain.confirmed_changes()
        count = 0
        freed = False
        while self._changes:
            change = self._changes.pop(0)
            freed = _frees_task(change.after) or freed
            if teammate := own_author(self._team, change):  # its process applied the rules of the list
                self._emit(change, teammate)
            else:
                await self._report(change)
            if (count := count + 1) % STEP == 0:
                await asyncio.sleep(0)
        if not count:
            return
        self._team.message_counts.clear()
        if freed:
            self._team.wake_idle()
        self._team.changed.set()

    async def _report(self, change: ExternalTaskChange) -> None:
        """Report a change by another program, verify a completion, and notify a member whose task was taken."""
        before, after, _ = change
        self._emit(change)
        self._verifier.note_completion(before, after)
        if before is None and after is not None and after.status is TaskStatus.COMPLETED:
            # completed before the check: two events
            self._emit(ExternalTaskChange(after.copy_with(status=TaskStatus.IN_PROGRESS), after))
        if before is not None and _taken_away(before, after):
            await self._notify_former_owner(before, after)

    def _emit(self, found: ExternalTaskChange, author: str = "") -> None:
        before, after, _ = found
        task = after or before
        if task is None:
            return
        change = "deleted"
        if after is not None:
            free = before is not None and before.owner is None
            change = "created" if before is None else change_word(before, after, (free and after.owner) or "")
        owner = (after and after.owner) or (before and before.owner) or ""
        self._team.emit_task(task, change, author or (owner if "@" in owner else UNKNOWN_PROGRAM))

    async def _notify_former_owner(self, before: Task, after: Task | None) -> None:
        """Notify the lead and one of our members whose task in progress another program took away."""
        teammate = self._team.find(before.owner or "")
        name = teammate.name if teammate is not None else LEAD
        if teammate is None and not is_owner(before.owner, LEAD):
            return
        what = f'#{before.id} "{before.subject}"'
        became = _describe_change(after)
        if name != LEAD:
            text = (
                f"Task {what} is no longer yours: another program {became}. Stop working on it and do not complete it. "
                "Report to the lead in a sentence how far you came, then take another task."
            )
            await send_note(self._team, "task-list", name, text, f"#{before.id} is no longer yours")
        text = f"Task {what} was in progress with {name}, and another program {became}."
        text += f" {name} was asked to stop working on it." if name != LEAD else " Leave it to its new owner."
        await send_note(self._team, "task-list", LEAD, text, f"#{before.id} was taken from {name}")

    async def _report_damaged(self, hurt: Mapping[str, DamagedTask], looked_at: set[str]) -> None:
        """Check a damaged file again when its writer should be done; then notify lead and person, once."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        first_seen = {id: self._damaged.get(id, now) for id in hurt}
        ready = {id for id, at in first_seen.items() if now - at >= PATIENCE_S}
        for id in sorted(ready - self._reported_damaged, key=int):
            self._reported_damaged.add(id)
            text = f"Task #{id} cannot be read: {hurt[id]}. It is left as it is; repair or remove the file."
            self._team.emit(Notice(member=UNKNOWN_PROGRAM, text=text, level="warning"))
            await send_note(self._team, "task-list", LEAD, text, f"#{id} is damaged")
        self._reported_damaged -= looked_at - hurt.keys()
        self._damaged = {id: at for id, at in self._damaged.items() if id not in looked_at} | first_seen
        if self._damaged.keys() - self._reported_damaged and self._retry_timer is None:
            self._retry_timer = loop.call_later(PATIENCE_S, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        self.note_change({f"{id}.json" for id in self._damaged})


def _frees_task(after: Task | None) -> bool:
    """Return True when the change may have freed a task: this one, or one that waited for it."""
    if after is None or after.status is TaskStatus.COMPLETED:
        return True
    return after.status is TaskStatus.PENDING and after.owner is None


def _taken_away(before: Task, after: Task | None) -> bool:
    if before.status is not TaskStatus.IN_PROGRESS or before.owner is None:
        return False
    return after is None or not is_owner(after.owner, before.owner)


def _describe_change(after: Task | None) -> str:
    if after is None:
        return "deleted it"
    if after.owner is None:
        return "gave it back to the list"
    done = " and completed it" if after.status is TaskStatus.COMPLETED else ""
    return f"gave it to {after.owner}{done}"


REPORT_WAIT_S = 0.3
"""Seconds after a file's change in which a process may report it."""

OWNER_REPORT_WAIT_S = 5.0
"""The same for a task owned by a member with such a process: it most likely made the change, and may be slow."""

AUTHOR_REPORT_WAIT_S = 60.0
"""The same for a change that a member made for certain: its event may need many round trips of a slow network."""


class UncertainChanges:
    """Noticed changes that no process has reported yet. `wake` is called when a change is certain."""

    def __init__(self, team: SessionTeam, wake: Callable[[], None]) -> None:
        self._team = team
        self._wake = wake
        self._undecided: list[tuple[float, ExternalTaskChange]] = []
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, change: ExternalTaskChange) -> bool:
        """Return True when the change is held because a member's process may have made it; else it is
        certain at once.
        """
        if not self._team.external.process_names:
            return False
        if own_author(self._team, change):
            within = AUTHOR_REPORT_WAIT_S
        elif change.author is not None:
            return False  # another program made it for certain
        else:
            owner = (change.after.owner or "").lower() if change.after is not None else ""
            within = OWNER_REPORT_WAIT_S if owner in self._team.external.process_names else REPORT_WAIT_S
        self._undecided.append((asyncio.get_running_loop().time() + within, change))
        return True

    def confirmed_changes(self) -> Iterator[ExternalTaskChange]:
        """Yield the changes that none of our processes reported in time, in order; reported ones are dropped."""
        now, changes, self._undecided = asyncio.get_running_loop().time(), self._undecided, []
        for due, change in changes:
            if self._was_reported(change):
                continue
            if due <= now:
                yield change
            else:
                self._undecided.append((due, change))
        first = min((due for due, _ in self._undecided), default=0.0)
        if self._undecided and (self._timer is None or first < self._timer.when()):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(first, self._on_due)

    def clear(self) -> None:
        """Drop all held changes."""
        self._undecided.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_due(self) -> None:
        self._timer = None
        self._wake()

    def _was_reported(self, change: ExternalTaskChange) -> bool:
        before, after, _ = change
        task = after or before
        reports = self._team.external.reported_tasks.get(task.id, ()) if task is not None else ()
        if after is None:
            return any(one.status == "deleted" for one in reports)
        return task_info(after) in reports


def own_author(team: SessionTeam, change: ExternalTaskChange) -> str:
    """Return the member of this team whose process made the change; empty when none did, or when it is not known."""
    directory, _, name = (change.author or "").rpartition("/")
    if directory != team.directory or name not in team.external.process_names:
        return ""
    teammate = team.find(name)
    return teammate.name if teammate is not None else name
