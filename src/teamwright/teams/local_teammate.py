"""A teammate whose coroutine runs in this process: take work, run a turn, rest, wait, until it is stopped.

The process is the lead's, or the member's own. Every change of state follows the lifecycle table. After a turn that a
rate limit or a budget cap ended, the member pauses; `TeamAccess`, which the team implements, notifies the others.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import field
from msgspec.structs import replace

from teamwright.agent.agent import REPEATED_CALLS, Agent, TurnEnd
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.turn_loop import finish_interrupted_calls, run_turn
from teamwright.hooks.hook_definitions import TASK_COMPLETED, TEAMMATE_IDLE
from teamwright.hooks.hook_outcome import NO_OUTCOME, HookOutcome
from teamwright.hooks.payload import task_event
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import TurnEnded
from teamwright.protocol.ids import LEAD, iso_time, keyed_id, message_id
from teamwright.protocol.mail import IdleNotification, InboxEntry, ShutdownRequest, parse_protocol
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import Block, message_text, text_block
from teamwright.protocol.program_log import log_failure
from teamwright.protocol.runtime_tags import RuntimeTags, TaskEnd
from teamwright.protocol.task import Task
from teamwright.protocol.time_limit import time_limit
from teamwright.team_records.life_cycle import ENDED_STATES, RATE_LIMITED, LifecycleEvent
from teamwright.team_records.roster import KnownRoster
from teamwright.teams.incoming_mail import IncomingMail, has_written_to_lead, known_task_ids
from teamwright.teams.shutdown_answers import SHUT_DOWN
from teamwright.teams.team_ports import TeamAccess
from teamwright.teams.teammate import Teammate, TurnNotes

MAX_TRIES = 3
"""Automatic retries of a member before only messages wake it: each retry is a whole series of the model's own."""


class RateLimitPause:
    """The rate-limit wait of one member, with the time of its next retry.

    The turn is owed when the last one was given up though the same request may work later.
    """

    __slots__ = ("due", "owes_turn", "tries")

    def __init__(self) -> None:
        self.due: float | None = None
        self.owes_turn = False
        self.tries = 0

    def record_turn(self, end: TurnEnd) -> None:
        """Record the end of a turn."""
        again_s = end.failure.retry_after_s if end.failure is not None else None
        self.owes_turn = end.failure is not None and (end.failure.retriable or again_s is not None)
        if again_s is None:
            self.due = None
            self.tries = 0
        elif self.tries >= MAX_TRIES:
            self.due = None
        else:
            self.tries += 1
            # A random delay: the other members of the team were refused at the same moment.
            self.due = time.monotonic() + again_s * (1 + random.random() * 0.1)

    @property
    def already_notified(self) -> bool:
        """True when the lead knows that this member waits, and only a retry has happened since."""
        return self.due is not None and self.tries > 1

    def describe(self, end: TurnEnd) -> str:
        """Return why it waits, for the lead."""
        if self.due is not None:
            wait_s = max(1, round(self.due - time.monotonic()))
            return (
                f"{end.explanation}. It is paused and nothing is lost: "
                f"it tries again automatically in about {wait_s} s, "
                f"up to {MAX_TRIES} times, or at once when you write to it."
            )
        if self.tries:
            tried = f"It tried {self.tries} more times and stays paused now"
            return f"{end.explanation}. {tried}: write to it to make it continue."
        return end.explanation

    async def wait_until_due(self, wait_for_wake: Callable[[], Awaitable[None]]) -> bool:
        """Wait until it is due or a wake-up comes. Returns True when it is due: then the owed turn must run."""
        left_s = None if self.due is None else max(0.0, self.due - time.monotonic())
        try:
            async with time_limit(left_s):
                await wait_for_wake()
        except TimeoutError:
            self.due = None
            return True
        return False


LEAD_ADVICE = (
    "It keeps its open task and takes no other. Stop it to give the task back to the list, "
    "or give the rest to another teammate."
)
"""The options of the lead."""


class BudgetPause:
    """The budget pause of one member, set when its last turn ended at a cap."""

    __slots__ = ("_raised", "_used", "reason")

    def __init__(self) -> None:
        self.reason = ""
        self._raised = False
        self._used = False

    def record_turn(self, end: TurnEnd) -> str:
        """Record the end of a turn; returns the cap that ended it, if any."""
        self.reason = end.explanation if end.is_capped else ""
        self._raised = False
        self._used = end.model_calls > 0
        return self.reason

    def describe(self, tail: str) -> str:
        """Return why it rests, for the lead; `tail` when no cap is the reason."""
        return f"{self.reason}. {LEAD_ADVICE}" if self.reason else tail

    def notice_id(self, conversation: Conversation, entries: Sequence[InboxEntry]) -> str:
        """Return the id of the notice: unchanged while nothing was used and no cap was raised, unless the lead wrote to
        it.
        """
        if not self.reason or (not self._used and any(entry.sender == LEAD for entry in entries)):
            return message_id()
        return keyed_id(conversation.header.get("session"), conversation.path.stem, self.reason)

    def note_raised_budget(self) -> bool:
        """Record a larger budget. Returns True when a turn waits for it."""
        self._raised = bool(self.reason)
        return self._raised

    def may_continue(self) -> bool:
        """Return True when the turn that a cap interrupted may continue now; asked once for each larger budget."""
        raised = self._raised
        self._raised = False
        return raised


INTERRUPTED = "interrupted"
"""The end of a turn that a person interrupted."""


_REASONS = {"done": "available", INTERRUPTED: "interrupted"}


IDLE_KEY = "idle"
"""The name of a turn's idle notice, used with the position in the conversation where the turn ended."""


SENDER_NOTE = "It reads this when it gets a larger budget. Do without it until then."
"""The note to another member that writes to it."""


class LocalTeammate(Teammate, kw_only=True, eq=False):
    """One member that runs in this process. `run_task` is its coroutine's task, for the whole incarnation.

    `is_paused` says that its last turn failed or was interrupted: then only mail wakes it, and it claims no task.
    `rate_limit_pause` handles a rate limit of its model's service. `resumed`: an earlier process began this
    incarnation, and may have been killed at any point.
    """

    agent: Agent
    incoming: IncomingMail
    team_access: TeamAccess
    is_paused: bool = False
    in_turn: bool = False
    interrupting: bool = False
    open_waits: list[str] = field(default_factory=list[str])
    rate_limit_pause: RateLimitPause = field(default_factory=RateLimitPause)
    budget_pause: BudgetPause = field(default_factory=BudgetPause)
    resumed: bool = False
    hook_notes: tuple[Block, ...] = ()
    known_roster: KnownRoster = field(default_factory=KnownRoster)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def mode(self) -> str:
        return str(self.agent.policy.display_mode)

    @property
    def own_mode(self) -> Mode:
        return self.agent.policy.mode

    @property
    def wake_target(self) -> IncomingMail:
        return self.incoming

    @property
    def transcript_path(self) -> Path:
        return self.agent.conversation.path

    @property
    def owes_turn(self) -> bool:
        return self.rate_limit_pause.owes_turn

    @property
    def cap_reason(self) -> str:
        return self.budget_pause.reason

    def note_raised_budget(self) -> None:
        if self.budget_pause.note_raised_budget():
            self.incoming.wake()

    def deliver_late_answer(self, text: str) -> None:
        self.incoming.add_late_answer(text)

    def notify(self, notice: str | TaskEnd, key: str = "") -> None:
        self.incoming.notify(notice, key)

    async def terminate(self, grace_s: float) -> str:
        if self.run_task is None:
            return ""
        self.run_task.cancel()
        done, _ = await asyncio.wait({self.run_task}, timeout=grace_s)
        self.agent.conversation.close()
        return "" if done else f"{self.name} did not wind up within {grace_s:.0f} s"

    async def run(self) -> None:
        """Run until it is stopped: take new work, run a turn, notify the lead, wait."""
        self.transition(LifecycleEvent.READY)
        self.ready.set()
        try:
            await self._run_turns()
        except asyncio.CancelledError:
            if self.run_task is None or self.run_task.cancelling():
                raise
            # A program's model or tool raised it: no other task may wait for a member that has ended.
            await self._end(LifecycleEvent.FAILED, "its turn was cancelled from inside")
        except TeamwrightError as problem:
            # Its own files failed (a full disk, a lock): its end is reported, the team continues.
            await self._end(LifecycleEvent.FAILED, problem.what)
        except Exception as problem:
            # A bug in Teamwright or in a program's model.
            log_failure(f"{self.name} ended", problem)
            await self._end(LifecycleEvent.FAILED, f"{type(problem).__name__}: {problem}")
        else:
            await self._end(LifecycleEvent.LEFT, self.end_cause)

    async def _run_turns(self) -> None:
        self.hook_notes = self.agent.tags.hook_notes(await self.agent.hooks.run_start_hooks())
        owes_answer = self.agent.conversation.owes_answer
        self.is_paused = self.agent.conversation.interrupted
        if self.pending_plan.is_open:
            self.transition(LifecycleEvent.AWAIT, self.pending_plan.description)
            owes_answer = owes_answer and not self.pending_plan.ends_conversation(self.agent.conversation)
        if self.resumed and not (owes_answer or self.is_paused):
            if self.stop_request is not None:
                self.end_cause = SHUT_DOWN  # its turn had ended without an objection
            else:
                await self._repeat_idle_notice()
        while not self.end_cause:
            content, entries = (None, ()) if owes_answer else await self._next_work()
            if content is not None or owes_answer:
                await self._take_turn(content, entries)
                owes_answer = False
            else:
                owes_answer = await self._rest()

    async def _repeat_idle_notice(self) -> None:
        """Send the idle notice of a turn that ended before a kill, in case it did not reach the lead."""
        conversation = self.agent.conversation
        if not conversation.items:
            return
        self.turn_notes.wrote_lead = self.pending_plan.is_open or has_written_to_lead(conversation)
        end = TurnEnd("done", message_text(conversation.last_content()))
        await self.team_access.notify_lead(
            self.name, self._idle_notice(end), conversation.step_key(IDLE_KEY), is_rerun=True
        )

    async def _end(self, event: LifecycleEvent, why: str) -> None:
        """End the member from within; a concurrent kill reports the end instead."""
        if self.state in ENDED_STATES:
            return
        self.transition(event, why)
        broke = event is LifecycleEvent.FAILED
        agreed = self.stop_request.request_id if self.stop_request and not broke else None
        await self.team_access.process_end(self.name, f"failed: {why}" if broke else why, agreed)

    async def _rest(self) -> bool:
        """Wait until a wake-up, marking the member idle now that it has no work left.

        Returns True when instead a rate limit has ended and its interrupted turn must run.
        """
        self.is_resting = self.rate_limit_pause.due is None
        self.team_changed.set()
        try:
            return await self.rate_limit_pause.wait_until_due(self.incoming.wait) or self.budget_pause.may_continue()
        finally:
            self.is_resting = False

    async def _next_work(self) -> tuple[UserMessage | None, Sequence[InboxEntry]]:
        """Return mail in wake order, else a free task; no task after a failed turn, or it would take them all."""
        entries = await self.incoming.next_mail()
        if entries or self.incoming.notices:
            return self.incoming.compose(entries), entries
        if self.resumed:
            if (untold := await self._undelivered_task()) is not None:
                return untold, ()
            self.resumed = False
        if self.is_paused or self.pending_plan.is_open:
            return None, ()
        task = await self.team_access.claim_next_task(self.name, self.agent.toolbox.names)
        return (None, ()) if task is None else await self.incoming.add_quiet_mail(_claimed_task(self.agent.tags, task))

    async def _undelivered_task(self) -> UserMessage | None:
        """Return a task that became this member's just before the kill, and that it has not received."""
        tasks = {f"task:{task.id}": task for task in await self.team_access.tasks_in_progress(self.name)}
        delivered_ids = self.agent.conversation.delivered_ids(tasks)
        undelivered = [task for id, task in tasks.items() if id not in delivered_ids]
        known = known_task_ids(self.agent.conversation) if undelivered else set[str]()
        return next((_claimed_task(self.agent.tags, task) for task in undelivered if task.id not in known), None)

    async def _take_turn(self, delivery: UserMessage | None, entries: Sequence[InboxEntry]) -> None:
        self.turns += 1
        if self.state in {MemberState.IDLE, MemberState.AWAITING}:
            self.transition(LifecycleEvent.WOKEN)
        self.turn_notes = TurnNotes(wrote_lead=delivery is None and has_written_to_lead(self.agent.conversation))
        end = await self._run_turn(delivery, entries)
        await self.team_access.finish_turn(self.name)
        self.usage += end.usage
        stop = "failed" if end.limit == REPEATED_CALLS else end.stop
        self.emit(TurnEnded(member=self.name, stop=stop, text=end.text, detail=end.explanation))
        self.is_paused = end.stop != "done"
        self.rate_limit_pause.record_turn(end)
        capped = self.budget_pause.record_turn(end)
        if self.state is MemberState.STOPPING or self.stop_request is not None:
            # A turn that ended without an objection is consent: a model cannot refuse by silence.
            self.end_cause = self.end_cause or SHUT_DOWN
        if self.end_cause:
            return
        notice = self._idle_notice(end)
        if notice.is_contentless and self.incoming.wake_pending and await self.incoming.next_mail():
            # Work is waiting already: it was never idle, and there is no notice.
            self.incoming.wake()
            return
        detail = RATE_LIMITED if self.rate_limit_pause.due is not None else capped
        if self.pending_plan.is_open:
            self.transition(LifecycleEvent.AWAIT, self.pending_plan.description)
        else:
            self.transition(LifecycleEvent.REST, "interrupted" if end.stop == INTERRUPTED else detail)
        if self.rate_limit_pause.already_notified:
            return
        # A failed turn runs again after a kill and may fail at the same place: each failure has a new notice.
        conversation = self.agent.conversation
        id = (
            conversation.step_key(IDLE_KEY)
            if end.stop == "done"
            else self.budget_pause.notice_id(conversation, entries)
        )
        await self.team_access.notify_lead(self.name, notice, id, is_rerun=bool(capped))

    def interrupt(self) -> bool:
        """Interrupt the running turn: the member stays, and its next message says what it was doing.

        Returns False when no turn runs that could be interrupted.
        """
        if (
            self.run_task is None
            or not self.in_turn
            or self.interrupting
            or self.end_cause
            or self.state in ENDED_STATES
        ):
            return False
        self.interrupting = True
        self.run_task.cancel()
        return True

    async def _run_turn(self, message: UserMessage | None, entries: Sequence[InboxEntry]) -> TurnEnd:
        """Run the turn to its end, or until it is interrupted; ending the member takes precedence."""
        begun = self.agent.conversation.message_count
        flagging: asyncio.Future[None] | None = None

        async def note_delivered() -> None:
            nonlocal flagging
            self.hook_notes = ()
            self.note_delivered(entries)
            if entries:  # The model need not wait for the read flags: the transcript is the record of delivery.
                flagging = asyncio.ensure_future(self.incoming.mark_read(self.incoming.record_delivery(entries)))

        self.in_turn = True
        try:
            if message is not None:
                if await finish_interrupted_calls(self.agent, self):
                    return TurnEnd("done")  # it agreed to stop before the kill
                news = await self.team_access.roster_note(self.name, self.known_roster)
                more = (*self.hook_notes, *((self.agent.tags.note(news),) if news else ()))
                message = replace(message, blocks=(*message.blocks, *more), on_delivered=note_delivered)
            try:
                return await run_turn(self.agent, message, self, ask_hooks=self._ask_idle_hooks)
            finally:
                if flagging is not None:
                    await flagging
        except asyncio.CancelledError:
            if not self.interrupting or self.run_task is None or self.run_task.uncancel():
                raise
            self.agent.conversation.interrupt()
            return TurnEnd(INTERRUPTED, self.agent.conversation.text_since(begun))
        finally:
            self.in_turn = self.interrupting = False

    async def _ask_idle_hooks(self, end: TurnEnd, asked_before: bool) -> HookOutcome:
        """Return whether hooks want it to continue after its turn; a hook may also end it."""
        if self.end_cause or self.stop_request is not None:
            return NO_OUTCOME
        outcome = await self._run_idle_hooks(end, asked_before=asked_before)
        if outcome.halted:
            self.end_cause = self.end_cause or f"ended by a hook: {outcome.halt_reason}"
        return outcome

    async def _run_idle_hooks(self, end: TurnEnd, *, asked_before: bool) -> HookOutcome:
        """Run `TeammateIdle` hooks, then `TaskCompleted` hooks of each task that is still in progress."""
        hooks = self.agent.hooks
        outcome = await hooks.run_stop_hooks(TEAMMATE_IDLE, end.text, again=asked_before)
        contexts = outcome.contexts
        if outcome.blocked or outcome.halted or not hooks.hooks.wants(TASK_COMPLETED):
            return outcome
        for task in await self.team_access.tasks_in_progress(self.name):
            event = task_event(task.id, task.subject, task.description, self.name, hooks.agent.team)
            asked = await hooks.fire(TASK_COMPLETED, lambda event=event: event, takes_contexts=True)
            contexts += asked.contexts
            if asked.blocked or asked.halted:
                return replace(
                    asked,
                    contexts=contexts,
                    reason=f"task #{task.id}: {asked.reason}",
                    halt_reason=f"task #{task.id}: {asked.halt_reason}",
                )
        return replace(outcome, contexts=contexts)

    async def next_input(self) -> UserMessage | None:
        """Return mail for the busy member, before its next model call (the loop's steering)."""
        return await self.incoming.next_input(self.note_delivered)

    def note_delivered(self, entries: Sequence[InboxEntry]) -> None:
        """Handle entries that were just delivered: a shutdown request among them changes the state."""
        for entry in entries:
            message = parse_protocol(entry.text)
            if not isinstance(message, ShutdownRequest) or entry.sender != LEAD:
                continue
            # A request to an earlier incarnation of the name, or an unknown one, has no effect.
            if self.team_access.is_stop_request_open(self.name, message.request_id):
                self.stop_request = message
                if self.state in {MemberState.IDLE, MemberState.AWAITING, MemberState.WORKING, MemberState.BLOCKED}:
                    self.transition(LifecycleEvent.STOP_REQUESTED)

    def note_objection(self) -> None:
        """Record the member's objection to its shutdown, and continue."""
        self.stop_request = None
        self.stop_request_id = ""
        if self.state is MemberState.STOPPING:
            self.transition(LifecycleEvent.OBJECTED)
            if self.open_waits:
                self.transition(LifecycleEvent.BLOCK, self.open_waits[0])

    def note_waiting(self, what: str) -> None:
        """Record that one of its calls waits for an answer: a permission or a question to the user."""
        self.open_waits.append(what)
        if self.state in {MemberState.WORKING, MemberState.STOPPING}:
            self.transition(LifecycleEvent.BLOCK, what)

    def note_answered(self) -> None:
        """Record that one call waits no longer; after the last one the member is working again."""
        del self.open_waits[:1]
        if self.state not in {MemberState.BLOCKED, MemberState.STOPPING}:
            return
        if self.open_waits:
            self.waiting_on = self.open_waits[0]
        else:
            self.transition(LifecycleEvent.ANSWERED)

    def _idle_notice(self, end: TurnEnd) -> IdleNotification:
        notes = self.turn_notes
        text = "" if notes.wrote_lead else end.text
        waits = f"It waits for {self.pending_plan.description}." if self.pending_plan.is_open else ""
        return IdleNotification(
            sender=self.name,
            timestamp=iso_time(),
            idle_reason=_REASONS.get(end.stop, "failed"),
            summary=notes.peer_mail or None,
            completed_task_id=notes.completed or None,
            completed_status="resolved" if notes.completed else None,
            failure_reason=self.budget_pause.describe(self.rate_limit_pause.describe(end)) or None,
            result=" ".join(part for part in (text, waits) if part) or None,
        )


def _claimed_task(tags: RuntimeTags, task: Task) -> UserMessage:
    """Return the message to the member about a task that was claimed automatically."""
    body = f"#{task.id} {task.subject}\n\n{task.description}\n\nThe task is yours now and in progress."
    return UserMessage((text_block(tags.message("task-list", body)),), (f"task:{task.id}",))
