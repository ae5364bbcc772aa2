"""The worker of reviews, in the lead's process: it chooses reviewers, asks them, and returns their comments.

It calls no model. The tasks are the record of what is in review: a resume reads them again, and each message has an id,
so it is sent once. Depends on the team, its tasks and mail, and on the port for approvers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from teamwright.permissions.verdict import Approver, Question
from teamwright.protocol.errors import TaskRefused, TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, display_name, now_ms
from teamwright.protocol.members import MemberState
from teamwright.protocol.task import MAX_RETURNS, Reviewer, ReviewNote, ReviewState, Task
from teamwright.tasks.completion_conditions import ReviewAnswer
from teamwright.tasks.task_rules import USER, is_owner
from teamwright.teams.outgoing_mail import send_note
from teamwright.teams.team import SessionTeam

SILENT_S = 600.0
"""Seconds after which a teammate that has not answered a review is replaced, also while it works."""

MAX_CHARS = 20_000
"""Characters of the changes in the message to a reviewer."""

PERSONS = frozenset({"terminal", "another terminal", "program"})
"""Approvers of the request queue whose answers are a person's or their program's."""

NO_COMMENT = "The user returned it without a comment: ask what has to change."

RECHECK_S = 1.0
"""Seconds until a reviewer that rests but has a pending wake-up is looked at again."""

ReadChanges = Callable[[Task, ReviewNote], Awaitable[str]]
"""Returns the changes of a task in review as a diff. Raises TeamwrightError."""


class ReviewWorker:
    """Asks for the reviews of one team."""

    def __init__(self, team: SessionTeam, read_changes: ReadChanges, approver: Approver) -> None:
        self._team = team
        self._read_changes = read_changes
        self._approver = approver
        self._due: set[str] = set()
        self._run: asyncio.Task[None] | None = None
        self._questions: dict[str, asyncio.Task[None]] = {}
        """The open questions to a person, by task and round."""
        self._reviewers: dict[str, str] = {}
        """The teammates that are asked now, by task."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._awaits_recheck: set[str] = set()
        """The tasks whose reviewer is looked at again in a moment."""

    @property
    def is_working(self) -> bool:
        """True while a reviewer is being asked or about to be replaced, or a person has not answered yet."""
        is_asking = self._run is not None and not self._run.done()
        return is_asking or bool(self._questions) or bool(self._awaits_recheck)

    def note_tasks(self, ids: Sequence[str]) -> None:
        """Continue with these tasks: work was submitted or answered, or an earlier process left it."""
        self._due.update(ids)
        if self._due and (self._run is None or self._run.done()):
            self._run = asyncio.get_running_loop().create_task(self._work(), name="reviews")

    def note_rest(self, member: str) -> None:
        """Continue with the tasks whose reviewer rests or has ended: if it did not answer, it is replaced."""
        self.note_tasks([id for id, name in self._reviewers.items() if is_owner(name, member)])

    async def close(self) -> None:
        """Stop asking. Open reviews stay open, and the next process of the session asks again."""
        for timer in self._timers.values():
            timer.cancel()
        tasks = [task for task in (self._run, *self._questions.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _work(self) -> None:
        try:
            while self._due:
                id = self._due.pop()
                try:
                    await self._continue(id)
                except (TeamwrightError, OSError) as problem:
                    what = problem.what if isinstance(problem, TeamwrightError) else str(problem)
                    text = f"the review of #{id} waits: {what}"
                    self._team.emit(Notice(member=LEAD, text=text, level="warning"))
        finally:
            self._team.changed.set()

    async def _continue(self, id: str) -> None:
        """Take the next step of one review. Each is repeated after a kill, and has an effect once."""
        if (timer := self._timers.pop(id, None)) is not None:
            timer.cancel()
        self._awaits_recheck.discard(id)
        task = await self._team.tasks.get(id)
        if task is not None and task.awaits_approval:
            task = await self._team.tasks.submit_unapproved(task)
        note = task.review_note if task is not None else None
        if task is None or note is None or not task.in_review:
            self._reviewers.pop(id, None)
        if task is None or note is None or not task.in_review or note.reviewer != USER:
            # Others have answered: the questions to a person are withdrawn.
            for key, question in self._questions.items():
                if key.startswith(f"{id}:"):
                    question.cancel()
        if task is None or note is None:
            return
        if task.in_review:
            await self._ask(task, note)
        elif note.state is ReviewState.RETURNED and task.status != "completed":
            await self._report_return(task, note)

    async def _ask(self, task: Task, note: ReviewNote) -> None:
        """Ask the reviewer, which stays noted: if it rests during a step, the step is repeated."""
        if not note.reviewer or await self._is_silent(task, note):
            name = self._choose(task, note)
            chosen = await self._team.tasks.choose_reviewer(task, name) if name else None
            if chosen is None or chosen.review_note is None:
                return
            task = chosen
            note = chosen.review_note
        if note.reviewer == USER:
            self._reviewers.pop(task.id, None)
            key = f"{task.id}:{note.round}"
            if key not in self._questions:
                question = asyncio.get_running_loop().create_task(self._ask_person(task, note), name="review")
                self._questions[key] = question
                question.add_done_callback(lambda _: self._end_question(key))
            return
        self._reviewers[task.id] = note.reviewer
        is_asked = await self._team.mailbox(note.reviewer).contains(_message_id(task, note))
        self._start_timer(task, note, is_asked=is_asked)
        if is_asked:
            if note.reviewer == LEAD and await self._has_ignored(note, _message_id(task, note)):
                await self._remind_lead(task, note)
            return
        text = _request_text(task, note, await self._read_changes(task, note))
        summary = f"review #{task.id} of {note.author}"
        await send_note(self._team, "task-list", note.reviewer, text, summary, _message_id(task, note))

    def _start_timer(self, task: Task, note: ReviewNote, *, is_asked: bool) -> None:
        """Continue after the time of the teammate, and soon if it rests: a wake-up without new mail has no event."""
        due_s = note.asked_at / 1000 + SILENT_S - now_ms() / 1000
        left_s = max(0.0, due_s) if note.reviewer != LEAD or due_s > 0 else max(0.0, due_s + SILENT_S)
        teammate = self._team.find(note.reviewer)
        if is_asked and teammate is not None and teammate.state is MemberState.IDLE:
            left_s = min(left_s, RECHECK_S)
            self._awaits_recheck.add(task.id)
        self._timers[task.id] = asyncio.get_running_loop().call_later(left_s, self.note_tasks, [task.id])

    def _end_question(self, key: str) -> None:
        self._questions.pop(key, None)
        self._team.changed.set()

    async def _is_silent(self, task: Task, note: ReviewNote) -> bool:
        """Return True when the reviewer will not answer: it has ended, or rests though it read the request, or is late.

        The lead is replaced by a person after one reminder, and a person is not replaced.
        """
        if note.reviewer == LEAD:
            return await self._has_ignored(note, f"{_message_id(task, note)}:reminder", 2 * SILENT_S)
        if note.reviewer == USER:
            return False
        teammate = self._team.find(note.reviewer)
        if teammate is None or now_ms() - note.asked_at >= SILENT_S * 1000:
            return True
        if teammate.state is not MemberState.IDLE or not self._team.exists:
            return False
        # One whose cap is spent reads the request too: its turn ends before the first model call.
        return not teammate.wake_target.wake_pending and await self._has_read(note.reviewer, _message_id(task, note))

    async def _has_read(self, name: str, id: str) -> bool:
        mailbox = self._team.mailbox(name)
        return await mailbox.contains(id) and all(entry.msg_id != id for entry in await mailbox.unread())

    async def _has_ignored(self, note: ReviewNote, id: str, late_s: float = SILENT_S) -> bool:
        """Return True when the lead rests though it read this message, or has not answered the review for this time."""
        if not await self._team.mailbox(LEAD).contains(id):
            return False
        if now_ms() - note.asked_at >= late_s * 1000:
            return True
        lead = self._team.status.members.get(LEAD)
        return lead is not None and lead.state is MemberState.IDLE and await self._has_read(LEAD, id)

    async def _remind_lead(self, task: Task, note: ReviewNote) -> None:
        """Remind the lead of a review, once."""
        id = f"{_message_id(task, note)}:reminder"
        if not await self._team.mailbox(LEAD).contains(id):
            text = (
                f"The review of task #{task.id} ({task.subject}) waits for your answer: approve or return it now with "
                "TaskUpdate. Without an answer the user is asked."
            )
            await send_note(self._team, "task-list", LEAD, text, f"review #{task.id} waits", id)

    def _choose(self, task: Task, note: ReviewNote) -> str:
        """Return the next reviewer, who is never the author; empty when every possible one was asked."""
        is_leads = is_owner(note.author, LEAD)
        if task.review is Reviewer.HUMAN:
            order = [USER]
        elif task.review is Reviewer.LEAD and not is_leads:
            order = [LEAD, USER]
        else:
            team = self._team
            external = team.external.external_names
            found = [
                m for m in team.running_members if not is_owner(note.author, m.name) and m.name.lower() not in external
            ]
            here = {m.name: m.agent.toolbox.names for m in team.in_process_members}
            able = [m for m in found if "TaskUpdate" in here.get(m.name, {"TaskUpdate"})]
            resting_first = [m.name for m in sorted(able, key=lambda m: not m.is_resting)]
            order = [*resting_first, *([] if is_leads else [LEAD]), USER]
        return next((name for name in order if name not in note.asked), "")

    async def _ask_person(self, task: Task, note: ReviewNote) -> None:
        """Ask a person by the request queue. Without an answer the review stays open, and the lead is notified."""
        try:
            changes = await self._read_changes(task, note)
            answer = await self._approver.ask(_question(task, note, changes))
            if answer.by in PERSONS:
                review_answer = ReviewAnswer(answer.allowed, answer.text or ("" if answer.allowed else NO_COMMENT))
                await self._team.tasks.answer_review(task.id, review_answer, by=USER, lead=True)
            elif answer.by != "cancelled" and self._team.lead is not None:
                text = (
                    f"Task #{task.id} of {note.author} needs a review by the user, who did not answer ({answer.text}). "
                    "It stays in progress, and its dependents wait. Say so in your summary."
                )
                self._team.lead.notify(text, f"{_message_id(task, note)}:unanswered")
        except TaskRefused:
            return  # taken back, or answered by another
        except TeamwrightError as problem:
            text = f"the review of #{task.id} waits: {problem.what}"
            self._team.emit(Notice(member=LEAD, text=text, level="warning"))

    async def _report_return(self, task: Task, note: ReviewNote) -> None:
        """Send the comment of returned work to the owner, or to the lead when the owner has ended."""
        owner = task.owner or ""
        by = "the user" if note.by == USER else display_name(note.by)
        text = f"{by} returned your work on task #{task.id} ({task.subject}):\n{note.comment}\n"
        if owner == LEAD and note.returns >= MAX_RETURNS:
            to = LEAD
            text = (
                f"The work of {note.author} on task #{task.id} ({task.subject}) was returned {note.returns} times. "
                f"The last comment, by {by}:\n{note.comment}\nThe task is yours and pending: describe it again, "
                "give it to another member, complete it or delete it."
            )
        elif owner == LEAD or self._team.find(owner) is not None:
            to = owner
            text += "Make these changes, then complete the task again with TaskUpdate. It is reviewed once more."
        else:
            to = LEAD
            if owner or note.author:
                await self._team.tasks.release(owner or note.author)
            text = (
                f"{by} returned the work of {note.author}, which has ended, on task #{task.id}:\n{note.comment}\n"
                "The task is on the list again, and its next owner sees this comment."
            )
        id = f"review:{task.id}:{note.round}:returned"
        await send_note(self._team, "task-list", to, text, f"#{task.id} was returned", id)


def _message_id(task: Task, note: ReviewNote) -> str:
    return f"review:{task.id}:{note.round}:{len(note.asked)}"


def _cut(changes: str) -> str:
    if len(changes) <= MAX_CHARS:
        return changes
    return f"{changes[:MAX_CHARS]}\n… {len(changes) - MAX_CHARS} more characters: read the files themselves."


def _request_text(task: Task, note: ReviewNote, changes: str) -> str:
    """Return the message to a teammate or the lead."""
    commit = f" (commit {note.work.tip[:12]} of {note.work.branch})" if note.work is not None else ""
    return (
        f"Review the finished work of {note.author} on task #{task.id}{commit}. You change no file.\n\n"
        f"Task: {task.subject}\n{task.description}\n\nChanges:\n{_cut(changes) or 'none are recorded'}\n\n"
        f'Answer with one call of TaskUpdate: {{"taskId": "{task.id}", "review": "approve"}} when the changes do what '
        f'the task asks, else {{"taskId": "{task.id}", "review": "return", "comment": "WHAT HAS TO CHANGE"}}. '
        "A message is no answer."
    )


def _question(task: Task, note: ReviewNote, changes: str) -> Question:
    return Question(
        member=note.author,
        tool="TaskUpdate",
        kind="review",
        what=f"#{task.id} {task.subject}\n{task.description}\n\n{changes or 'no changes are recorded'}",
        rule=f"review {task.review}: the task is completed when it is approved",
        input={"taskId": task.id},
        owner=note.author,
        description=f"the finished work on #{task.id}: {task.subject}",
    )
