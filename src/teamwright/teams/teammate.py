"""A teammate: handle, idle, wait, wake, until it is stopped. One coroutine a member, event-driven.

Every change of state goes through the lifecycle table. Knows the desk, the loop and the shared task list; what
others must be told leaves through `Office`, which the team fills.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol

from teamwright.agent.agent import REPEATS, Agent, TurnEnd
from teamwright.agent.conversation import Told
from teamwright.agent.loop import settle, tell
from teamwright.agent.stopping import run_past_stops
from teamwright.permissions.verdict import Mode
from teamwright.protocol.blocks import Block, text_block, text_of
from teamwright.protocol.clock import iso
from teamwright.protocol.envelope import RuntimeTags
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import TurnEnded
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import Entry, IdleNotification, ShutdownRequest, parse_protocol
from teamwright.protocol.task import Task
from teamwright.protocol.values import dataclass
from teamwright.teams.lifecycle import GONE, LIMITED, Event, State
from teamwright.teams.mailing.desk import Desk
from teamwright.teams.mailing.told import worked_on, wrote_lead
from teamwright.teams.member.keeping import kept_at_work
from teamwright.teams.member.mate import Mate, TurnNotes
from teamwright.teams.pausing.capped import Capped
from teamwright.teams.pausing.waiting_out import WaitingOut
from teamwright.teams.plans.awaited import Awaited
from teamwright.teams.roster_note import KnownRoster


class Office(Protocol):
    """What a teammate needs of its team."""

    async def claim_for(self, name: str, tools: frozenset[str]) -> Task | None:
        """The next task that this member may have, now its own, or None."""
        ...

    async def roster_note(self, name: str, known: KnownRoster) -> str:
        """What changed in the roster since the member was last told; empty when nothing did."""
        ...

    async def turn_ended(self, name: str) -> None:
        """A turn of this member has ended, however it ended."""
        ...

    async def held_by(self, name: str) -> list[Task]:
        """The tasks that this member has in progress."""
        ...

    async def tell_lead(self, name: str, notice: IdleNotification, id: str, *, again: bool = False) -> None:
        """The member went idle; `id` is the notice's, `again` says that it may be there already."""
        ...

    def stop_is_open(self, name: str, request_id: str) -> bool:
        """Whether this life of the member has an open shutdown request of that id."""
        ...

    async def left(self, name: str, cause: str, agreed_to: str | None) -> None:
        """The member is over: take it off the roster, hand its tasks back, tell the lead once."""
        ...


INTERRUPTED = "interrupted"
"""How a turn ends that a person cut short."""

_REASONS = {"done": "available", INTERRUPTED: "interrupted"}

IDLE = "idle"
"""Names the idle notice of a turn, with the place of the conversation where the turn ended."""


@dataclass(slots=True, kw_only=True, eq=False)
class Teammate(Mate):
    """One member that lives in this process. `live` is its whole life; `task` the coroutine that runs it.

    `paused` says that its last turn failed or was interrupted: then only mail wakes it, and it takes no task by itself.
    `limited`: how it waits out a limit of its model's service. `resumed`: a process before this one began this life,
    and may have been killed anywhere.
    """

    agent: Agent
    desk: Desk
    office: Office
    paused: bool = False
    turning: bool = False
    interrupting: bool = False
    waits: list[str] = field(default_factory=list[str])
    limited: WaitingOut = field(default_factory=WaitingOut)
    capped: Capped = field(default_factory=Capped)
    resumed: bool = False
    learned: tuple[Block, ...] = ()
    known: KnownRoster = field(default_factory=KnownRoster)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """See Mate."""
        return self.agent.name

    @property
    def mode(self) -> str:
        """See Mate."""
        return str(self.agent.policy.shown_mode)

    @property
    def own_mode(self) -> Mode:
        """See Mate."""
        return self.agent.policy.mode

    @property
    def door(self) -> Desk:
        """See Mate."""
        return self.desk

    @property
    def ledger(self) -> Path:
        """See Mate."""
        return self.agent.conversation.path

    @property
    def owes(self) -> bool:
        """See Mate."""
        return self.limited.owes

    @property
    def stopped_by(self) -> str:
        """See Mate."""
        return self.capped.why

    def budget_raised(self) -> None:
        """See Mate."""
        if self.capped.raise_():
            self.desk.ring()

    def late(self, text: str) -> None:
        """See Mate."""
        self.desk.late(text)

    def notice(self, text: str, key: str = "") -> None:
        """See Mate."""
        self.desk.notice(text, key)

    async def wind_up(self, grace_s: float) -> str:
        """See Mate."""
        if self.task is None:
            return ""
        self.task.cancel()
        done, _ = await asyncio.wait({self.task}, timeout=grace_s)
        self.agent.conversation.close()
        return "" if done else f"{self.name} did not wind up within {grace_s:.0f} s"

    async def live(self) -> None:
        """Until it is stopped: take what wakes it, run a turn, tell the lead, wait."""
        self.move(Event.READY)
        self.ready.set()
        try:
            await self._work()
        except asyncio.CancelledError:
            if self.task is None or self.task.cancelling():
                raise
            # A program's model or tool raised it by itself: nobody may wait for a member that is no more.
            await self._over(Event.BROKE, "its turn was cancelled from inside")
        except TeamwrightError as problem:
            # Its own files failed it (a full disk, a lock): its end is told, the team goes on.
            await self._over(Event.BROKE, problem.what)
        except Exception as problem:
            # A mistake of ours or of a program's model.
            await self._over(Event.BROKE, f"{type(problem).__name__}: {problem}")
        else:
            await self._over(Event.LEFT, self.leaving)

    async def _work(self) -> None:
        self.learned = self.agent.tags.hook_notes(await self.agent.hooks.began())
        owed, self.paused = self.agent.conversation.owes_round, self.agent.conversation.interrupted
        if self.plan.open:
            self.move(Event.AWAIT, self.plan.words)
            owed = owed and not self.plan.ended(self.agent.conversation)
        if self.resumed and not (owed or self.paused):
            if self.stop_request is not None:
                self.leaving = "shut down on request"  # its turn had ended without an objection
            else:
                await self._tell_again()
        while not self.leaving:
            told, entries = (None, ()) if owed else await self._next_work()
            if told is not None or owed:
                await self._turn(told, entries)
                owed = False
            else:
                owed = await self._rest()

    async def _tell_again(self) -> None:
        """The turn before the kill was over: its notice may not have reached the lead."""
        conversation = self.agent.conversation
        if not conversation.items:
            return
        self.notes.wrote_lead = self.plan.open or wrote_lead(conversation)
        end = TurnEnd("done", text_of(conversation.last_content()))
        await self.office.tell_lead(self.name, self._notice(end), conversation.key(IDLE), again=True)

    async def _over(self, event: Event, why: str) -> None:
        """It ends by itself; whoever killed it meanwhile tells of it instead."""
        if self.state in GONE:
            return
        self.move(event, why)
        broke = event is Event.BROKE
        agreed = self.stop_request.request_id if self.stop_request and not broke else None
        await self.office.left(self.name, f"failed: {why}" if broke else why, agreed)

    async def _rest(self) -> bool:
        """Wait until somebody rings; only now is it true that nothing is left to do.

        Whether a limit of the service is over instead, and the turn that it cut is to be run.
        """
        self.resting = self.limited.due is None
        self.changed.set()
        try:
            return await self.limited.over(self.desk.wait) or self.capped.may_go_on()
        finally:
            self.resting = False

    async def _next_work(self) -> tuple[Told | None, Sequence[Entry]]:
        """Mail in wake order, then a task that is free; after a failed turn no task, or it would take them all."""
        entries = await self.desk.work()
        if entries or self.desk.notices:
            return self.desk.told(entries), entries
        if self.resumed:
            if (untold := await self._untold()) is not None:
                return untold, ()
            self.resumed = False
        if self.paused or self.plan.open:
            return None, ()
        task = await self.office.claim_for(self.name, self.agent.toolbox.names)
        return (None, ()) if task is None else await self.desk.beside(_claimed(self.agent.tags, task))

    async def _untold(self) -> Told | None:
        """A task that became this member's just before the kill, and that it has not been told of."""
        held = {f"task:{task.id}": task for task in await self.office.held_by(self.name)}
        told = self.agent.conversation.holds(held)
        left = [task for id, task in held.items() if id not in told]
        known = worked_on(self.agent.conversation) if left else set[str]()
        return next((_claimed(self.agent.tags, task) for task in left if task.id not in known), None)

    async def _turn(self, told: Told | None, entries: Sequence[Entry]) -> None:
        self.turns += 1
        if self.state in {State.IDLE, State.AWAITING}:
            self.move(Event.WOKEN)
        self.notes = TurnNotes(wrote_lead=told is None and wrote_lead(self.agent.conversation))
        end = await self._run_through(told, entries)
        await self.office.turn_ended(self.name)
        self.usage += end.usage
        stop = "failed" if end.limit == REPEATS else end.stop
        self.emit(TurnEnded(member=self.name, stop=stop, text=end.text, detail=end.why))
        self.paused = end.stop != "done"
        self.limited.note(end)
        capped = self.capped.note(end)
        if self.state is State.STOPPING or self.stop_request is not None:
            # A turn that ended without an objection is consent: no model can refuse by saying nothing.
            self.leaving = self.leaving or "shut down on request"
        if self.leaving:
            return
        notice = self._notice(end)
        if notice.contentless and self.desk.rung and await self.desk.work():
            # Work is waiting already: it was never idle, and there is nothing to tell.
            self.desk.ring()
            return
        detail = LIMITED if self.limited.due is not None else capped
        if self.plan.open:
            self.move(Event.AWAIT, self.plan.words)
        else:
            self.move(Event.REST, "interrupted" if end.stop == INTERRUPTED else detail)
        if self.limited.told_before:
            return
        # What failed is run again after a kill, perhaps to fail at the same place: that is news each time.
        conversation = self.agent.conversation
        id = conversation.key(IDLE) if end.stop == "done" else self.capped.notice_id(conversation, entries)
        await self.office.tell_lead(self.name, notice, id, again=bool(capped))

    def interrupt(self) -> bool:
        """Cut the turn that runs short: the member stays, and what it was at goes along with its next words.

        False when no turn runs that could be cut.
        """
        if self.task is None or not self.turning or self.interrupting or self.leaving or self.state in GONE:
            return False
        self.interrupting = True
        self.task.cancel()
        return True

    async def _run_through(self, told: Told | None, entries: Sequence[Entry]) -> TurnEnd:
        """The turn to its end, or until it is interrupted; whoever ends the member meanwhile goes first."""
        self.turning = True
        begun = self.agent.conversation.length
        try:
            return await self._run(told, entries)
        except asyncio.CancelledError:
            if not self.interrupting or self.task is None or self.task.uncancel():
                raise
            self.agent.conversation.interrupt()
            return TurnEnd(INTERRUPTED, self.agent.conversation.said_since(begun))
        finally:
            self.turning = self.interrupting = False

    async def _run(self, told: Told | None, entries: Sequence[Entry]) -> TurnEnd:
        if told is not None:
            if await settle(self.agent):
                return TurnEnd("done")  # it agreed to stop before the kill
            news = await self.office.roster_note(self.name, self.known)
            more = (*self.learned, *((self.agent.tags.note(news),) if news else ()))
            tell(self.agent, replace(told, blocks=(*told.blocks, *more)) if more else told)
            self.learned = ()
        # The model need not wait for the flags: the transcript is the ledger.
        flagging = asyncio.ensure_future(self.desk.flag(self.desk.saw(entries) if entries else ()))
        try:
            return await run_past_stops(self.agent, None, self._kept)
        finally:
            await flagging

    async def _kept(self, end: TurnEnd, again: bool) -> str:
        """Why hooks would have it go on though its turn is over; one of them may end it."""
        if self.leaving or self.stop_request is not None:
            return ""
        kept = await kept_at_work(self.agent.hooks, self.name, self.office, end, again=again)
        self.leaving = self.leaving or kept.ends
        return kept.why

    def note_seen(self, entries: Sequence[Entry]) -> None:
        """What the desk just showed the model: a shutdown request among it changes the state."""
        for entry in entries:
            message = parse_protocol(entry.text)
            if not isinstance(message, ShutdownRequest) or entry.sender != LEAD:
                continue
            # A request to an earlier life of the name, or one that nobody opened, ends nobody.
            if self.office.stop_is_open(self.name, message.request_id):
                self.stop_request = message
                if self.state in {State.IDLE, State.AWAITING, State.WORKING, State.BLOCKED}:
                    self.move(Event.STOP_ASKED)

    def objected(self) -> None:
        """The member objected to its shutdown and goes on."""
        self.stop_request = None
        self.asked = ""
        if self.state is State.STOPPING:
            self.move(Event.OBJECTED)
            if self.waits:
                self.move(Event.BLOCK, self.waits[0])

    def waits_for(self, what: str) -> None:
        """One of its calls waits for an answer: a permission, the user's word."""
        self.waits.append(what)
        if self.state is State.WORKING:
            self.move(Event.BLOCK, what)

    def got_answer(self) -> None:
        """One call waits no longer; with the last of them the member works on."""
        del self.waits[:1]
        if self.state is not State.BLOCKED:
            return
        if self.waits:
            self.waiting_on = self.waits[0]
        else:
            self.move(Event.ANSWERED)

    def _notice(self, end: TurnEnd) -> IdleNotification:
        notes = self.notes
        return IdleNotification(
            sender=self.name,
            timestamp=iso(),
            idle_reason=_REASONS.get(end.stop, "failed"),
            summary=notes.peer_mail or None,
            completed_task_id=notes.completed or None,
            completed_status="resolved" if notes.completed else None,
            failure_reason=self.capped.words(self.limited.words(end)) or None,
            result=_result(self.plan, end.text if end.text and not notes.wrote_lead else ""),
        )


def _result(plan: Awaited, text: str) -> str | None:
    """What the notice says of the turn: also that it is not free while its plan is not answered."""
    waits = f"It waits for {plan.words}." if plan.open else ""
    return " ".join(part for part in (text, waits) if part) or None


def _claimed(tags: RuntimeTags, task: Task) -> Told:
    """A task that was claimed by itself, as the member reads it."""
    body = f"#{task.id} {task.subject}\n\n{task.description}\n\nThe task is yours now and in progress."
    return Told((text_block(tags.message("task-list", body)),), (f"task:{task.id}",))
