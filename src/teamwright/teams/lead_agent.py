"""The lead: the agent that the user talks to, woken by prompts and by its team's mail.

It works without a terminal: `run_until_done` runs a prompt until the team is done. Depends on the team, incoming mail
and the agent loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent import Agent, CommandPriority, InputQueue, QueuedCommand, TurnEnd
from teamwright.agent.compaction import clear_conversation
from teamwright.agent.compaction_state import CompactResult
from teamwright.agent.conversation import UserMessage
from teamwright.agent.transcript import PROMPT_ID
from teamwright.agent.turn_loop import finish_interrupted_calls, run_turn
from teamwright.hooks.hook_definitions import STOP, USER_PROMPT
from teamwright.hooks.hook_outcome import HookOutcome
from teamwright.hooks.payload import user_prompt_submit
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import MemberChanged, Notice, TurnEnded
from teamwright.protocol.ids import LEAD, display_name, iso_time, message_id
from teamwright.protocol.members import MemberState
from teamwright.protocol.messages import Block, message_text, text_block
from teamwright.protocol.runtime_tags import NO_KEY_TAGS, TaskEnd, escape_tags
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.usage import Usage
from teamwright.teams.team import SessionTeam

if TYPE_CHECKING:
    from teamwright.protocol.mail import InboxEntry

RunShell: TypeAlias = Callable[[str], Awaitable[str]]

NEXT_STEP_TEXT = (
    "If members are at work, end your turn: you are woken when they report. If all is done, ask them to stop, call "
    "TeamDelete, and give the user the result."
)
"""The next step of a lead whose team still exists."""

_OPEN_WORK_TEXT = (
    "Answer the plans that wait for you. Give each open task to a teammate or do it yourself. Delete a task that is no "
    "longer wanted. Then give the user the result."
)


class CommandWait(Struct, frozen=True):
    """The background commands that a run waits for. `running` returns a line for each, `patience_s` bounds a wait."""

    running: Callable[[], Sequence[str]]
    patience_s: float


class Lead(Struct):
    """The lead of one session. It takes prompts with `add_prompt`; `run_turn` handles the waiting ones.

    `owes_answer`: the session's last process ended before an answer was complete; the next turn gives it.
    `refusal_reason`: why a hook rejected the newest prompt.
    """

    agent: Agent
    team: SessionTeam
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    busy: bool = False
    last_end: TurnEnd = field(default_factory=lambda: TurnEnd("done"))
    owes_answer: bool = False
    refusal_reason: str = ""
    _unchecked_prompts: deque[tuple[tuple[Block, ...], str]] = field(
        default_factory=deque[tuple[tuple[Block, ...], str]]
    )
    queue: InputQueue = field(default_factory=InputQueue)
    on_shell: RunShell | None = None
    """Runs a person's own shell command, whose output is delivered with the next prompt."""
    on_prompt: Callable[[str, str], None] | None = None
    """Receives the id and the text of a person's prompt before the lead does."""
    _quiet_notes: list[tuple[str, Block]] = field(default_factory=list[tuple[str, Block]])
    _stop_watch: Callable[[], None] | None = None
    _turn_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        for id, blocks in self.agent.conversation.queued.items():
            self._quiet_notes += [(id, block) for block in blocks]
        self.team.lead = self
        if self.team.exists:
            self.open_mailbox()

    def open_mailbox(self) -> None:
        """Open the lead's inbox, because a team exists now."""
        from teamwright.teams.incoming_mail import IncomingMail
        from teamwright.teams.protocol_message_text import TeamMailRules

        agent = self.agent
        rules = TeamMailRules(self.team, LEAD, agent.tags)
        inbox = self.team.mailbox(LEAD)
        self.team.lead_mail = IncomingMail(LEAD, inbox, agent.conversation, agent.emit, rules, busy=self.busy)
        self._stop_watch = self.team.watch_inbox(LEAD, self.team.lead_mail)

    def close_mailbox(self) -> None:
        """Stop watching the lead's inbox, because the team was removed."""
        if self._stop_watch is not None:
            self._stop_watch()
            self._stop_watch = None

    def queue_unread_mail(self, entries: Sequence[InboxEntry]) -> None:
        """Queue the unread mail of a team that was removed, for delivery."""
        from teamwright.teams.protocol_message_text import notice_text

        tags = self.agent.tags
        for entry in entries:
            words = notice_text(LEAD, entry, tags) or tags.entry(entry)
            self.queue.put("peer", (text_block(words),), f"mail:{entry.msg_id}")

    def begin_run(self, text: str = "") -> None:
        """Forget the end of the last run, and why a hook rejected its prompt. `text` is the answer so far."""
        self.last_end = TurnEnd("done", text)
        self.refusal_reason = ""

    def add_prompt(self, content: Sequence[Block], uuid: str = "") -> None:
        """Add a prompt of the user: for the next turn, or for the next model call of the running turn.

        A hook may reject it, or add to it, before delivery. `uuid` is its id in the transcript; empty for a new one.
        """
        id = f"{PROMPT_ID}{uuid or message_id()}"
        if self.agent.hooks.hooks.wants(USER_PROMPT):
            self._unchecked_prompts.append((tuple(content), id))
        else:
            self._queue_prompt(content, id)
        self.team.changed.set()

    def notify(self, notice: str | TaskEnd, key: str = "", *, wakes: bool = True) -> None:
        """Notify the lead, mostly of the end of one of its jobs. The transcript stores the notice as `notice:<key>`.

        A notice that does not wake the lead is delivered with the next prompt or mail.
        """
        if not wakes:
            block = text_block(self.agent.tags.notice(notice))
            self._quiet_notes.append((f"notice:{key or message_id()}", block))
            return
        self.queue.put_notice(self.agent.tags, notice, key)
        self.team.changed.set()

    def add_late_answer(self, text: str) -> None:
        """Deliver an answer to a request that is gone: the lead is notified, and nothing runs."""
        self.queue.put_late_answer(self.agent.tags, text)
        self.team.changed.set()

    def queue_shell(self, command: str) -> None:
        """Queue a person's own shell command: it runs between turns, and its output is delivered with
        the next prompt.
        """
        self.queue.put_shell_command(command)
        self.team.changed.set()

    def note_interrupt(self) -> None:
        """Record that a person interrupted the turn: the next prompt says what it was doing, also after a kill."""
        self.agent.conversation.interrupt()

    async def clear(self) -> CompactResult:
        """Continue with an empty conversation; team, members and queued input stay. Only between two turns.

        Raises TeamRefused while a turn runs or is about to, and TeamwrightError; nothing is changed then.
        """
        if (
            self._turn_lock.locked()
            or self.agent.compaction.turn_lock.locked()
            or self.queue
            or self._unchecked_prompts
        ):
            raise TeamRefused(
                "team-refused",
                "the lead is at work",
                do=["wait until it has answered, or end its turn with Ctrl-C; then /clear"],
                note="nothing was cleared",
            )
        async with self._turn_lock:
            result = await clear_conversation(self.agent)
            if result.done:
                self.owes_answer = False
                self.last_end = TurnEnd("done")
            return result

    def add_note(self, text: str, key: str = "") -> None:
        """Add a note that does not wake the lead: it is delivered with the next prompt or mail. The key is as in
        `notify`.
        """
        self._quiet_notes.append((f"notice:{key or message_id()}", self.agent.tags.note(text)))

    def save_note(self, text: str, key: str = "") -> None:
        """Add a note as `add_note`, and store it in the transcript at once, so that no kill loses it. Raises
        StorageError.
        """
        id = f"notice:{key or message_id()}"
        block = self.agent.tags.note(text)
        self.agent.conversation.queue(id, [block])
        self._quiet_notes.append((id, block))

    async def run_turn(self) -> TurnEnd | None:
        """Run a turn on the queued input: the user's prompts first, then mail, then an owed answer. None without input.

        One turn at a time: a second caller waits for the first, whose turn may deliver its prompts too.
        """
        async with self._turn_lock:
            while (command := self.queue.next_shell_command()) is not None:  # the person's own commands, oldest first
                self.queue.remove([command])
                if self.on_shell is not None:
                    self.save_note(await self.on_shell(command.text))
            await self._check_prompts()
            mail = await self._unread_mail()
            if (self.queue or mail) and self.agent.conversation.unanswered_calls():
                await finish_interrupted_calls(self.agent, self)  # the results deliver the queued input
                mail = await self._unread_mail()
            if waiting := self.queue.texts_in_order():
                return await self._run(self._compose(waiting, mail), mail, waiting)
            if mail:
                return await self._run(self._compose((), mail), mail)
            return await self._run(None, ()) if self.owes_answer else None

    async def run_reminder(self) -> TurnEnd:
        """Run one turn that reminds the lead that no member works, and of the open work."""
        async with self._turn_lock:
            lines = [
                f"No teammate is working ({iso_time()}), and work is open.",
                *await self.status_lines(),
                _OPEN_WORK_TEXT,
            ]
            beside = list(self._quiet_notes)
            note = self.agent.tags.note("\n".join(lines))
            blocks = (*(block for _, block in beside), note)
            ids = (*(one for one, _ in beside), f"notice:{message_id()}")
            return await self._run(UserMessage(blocks, ids), ())

    async def run_until_done(
        self, tasks_open: Callable[[], Awaitable[bool]], commands: CommandWait | None = None
    ) -> TurnEnd:
        """Run turns until the team is done: no member works, and no message with content is undelivered.

        With `commands` their ends are waited for too, up to `patience_s` seconds after the last turn.
        Mail wakes the lead. The lead is reminded once when all members are idle and `tasks_open` says so, or a member
        waits for the approval of its plan.
        """
        end = await self.run_turn() or self.last_end
        reminded = commands is not None  # the run before the wait has reminded it
        looked = False
        while end.stop == "done":
            self.team.changed.clear()
            if (next_end := await self.run_turn()) is not None:
                end = next_end
                looked = False
            elif self._has_input():
                continue
            elif not self.team.is_quiet():
                looked = False
                await self.team.changed.wait()
            elif reminded or looked or not self.team.running_members:
                if commands is None or not await self._wait_for_commands(commands):
                    break
                looked = False
            else:
                waits = (
                    any(teammate.pending_plan.is_open for teammate in self.team.running_members) or await tasks_open()
                )
                looked = not waits  # input that arrived while the tasks were read is handled in the next iteration
                if waits and self.team.is_quiet() and not self._has_input():
                    reminded = True
                    end = await self.run_reminder()
        return end

    async def _wait_for_commands(self, commands: CommandWait) -> bool:
        """Wait until a background command brings work: its owner reads the end. Return False when there is none."""
        with suppress(TimeoutError):
            async with time_limit(commands.patience_s):
                while commands.running() and self.team.is_quiet() and not self._has_input():
                    self.team.changed.clear()
                    await self.team.changed.wait()
        return self._has_input() or not self.team.is_quiet()

    async def wait(self) -> None:
        """Wait until there may be input for the lead."""
        self.team.changed.clear()
        if not (self._has_input() or self.owes_answer):
            await self.team.changed.wait()

    async def next_input(self) -> UserMessage | None:
        """Return the user's prompts and mail for a busy lead, before its next model call (the loop's steering)."""
        await self._check_prompts()
        desk = self.team.lead_mail
        steered = await desk.next_input() if desk is not None else None
        waiting = self.queue.texts_in_order()
        if not waiting:
            return steered
        own = self._compose(waiting, ())
        self._announce_prompts(waiting)

        async def seen() -> None:
            self._mark_delivered(waiting)
            if steered is not None and steered.on_delivered is not None:
                await steered.on_delivered()

        if steered is None:
            return replace(own, on_delivered=seen)
        return UserMessage((*own.blocks, *steered.blocks), (*own.ids, *steered.ids), seen)

    def _has_input(self) -> bool:
        """Return True when unhandled input arrived."""
        desk = self.team.lead_mail
        return bool(self.queue or self._unchecked_prompts) or (desk is not None and desk.wake_pending)

    async def _check_prompts(self) -> None:
        """Pass new prompts to the hooks; those that none rejects are queued."""
        while self._unchecked_prompts:
            content, id = self._unchecked_prompts[0]
            words = user_prompt_submit(message_text(NO_KEY_TAGS.with_files(content)))
            outcome = await self.agent.hooks.fire(USER_PROMPT, lambda words=words: words)
            self._unchecked_prompts.popleft()
            if outcome.blocked or outcome.halted:
                self.refusal_reason = outcome.reason or outcome.halt_reason
                text = f"a hook refused this prompt, and it was not delivered: {self.refusal_reason}"
                self.agent.emit(Notice(member=LEAD, text=text, level="warning"))
            else:
                self._queue_prompt(content, id, outcome.contexts)

    def _queue_prompt(self, content: Sequence[Block], id: str, hook_contexts: Sequence[str] = ()) -> None:
        """Queue a prompt that no hook rejects, with its files and what hooks add to it."""
        blocks = (*self.agent.tags.with_files(content), *self.agent.tags.hook_notes(hook_contexts))
        self.queue.put("user", blocks, id)

    async def _ask_stop_hooks(self, end: TurnEnd, asked_before: bool) -> HookOutcome:
        """Return whether hooks want the lead to continue though it has answered."""
        return await self.agent.hooks.run_stop_hooks(STOP, end.text, again=asked_before)

    async def _unread_mail(self) -> list[InboxEntry]:
        desk = self.team.lead_mail
        if desk is None:
            return []
        # A prompt is delivered with all unread mail, also notices without content; without a prompt only mail that
        # wakes.
        return await desk.unread() if self.queue.texts_in_order() else await desk.next_mail()

    def _announce_prompts(self, commands: Sequence[QueuedCommand]) -> None:
        """Announce the newest of these prompts, for which the lead works from now on."""
        if self.on_prompt is not None:
            for one in commands:
                if one.source == "user":
                    self.on_prompt(one.id, message_text(one.blocks[:1]))

    async def _note_delivered(self, prompts: Sequence[QueuedCommand], mail: Sequence[InboxEntry]) -> None:
        self._mark_delivered(prompts)
        if mail and self.team.lead_mail is not None:
            await self.team.lead_mail.mark_delivered(mail)

    def _mark_delivered(self, commands: Sequence[QueuedCommand]) -> None:
        """Remove these prompts from the queue, because the transcript has them now."""
        self.queue.remove(commands)
        self._quiet_notes.clear()

    def _compose(self, commands: Sequence[QueuedCommand], mail: Sequence[InboxEntry]) -> UserMessage:
        """Compose one message of all prompts and mail, in queue order: notes of the runtime follow mail."""
        desk = self.team.lead_mail
        letters = desk.compose(mail) if desk is not None and mail else UserMessage()
        first = [one for one in commands if one.priority is not CommandPriority.LATER]
        later = [one for one in commands if one.priority is CommandPriority.LATER]
        blocks = [block for _, block in self._quiet_notes]
        blocks += [block for one in first for block in one.blocks]
        blocks += [*letters.blocks, *(block for one in later for block in one.blocks)]
        ids = [
            *(one for one, _ in self._quiet_notes),
            *(one.id for one in first),
            *letters.ids,
            *(one.id for one in later),
        ]
        return UserMessage(tuple(blocks), tuple(ids))

    async def _run(
        self, delivery: UserMessage | None, mail: Sequence[InboxEntry], prompts: Sequence[QueuedCommand] = ()
    ) -> TurnEnd:
        self.turns += 1
        self._set_busy(True)
        begun = self.agent.conversation.message_count
        try:
            if delivery is not None:
                self._announce_prompts(prompts)
                delivery = replace(delivery, on_delivered=partial(self._note_delivered, prompts, mail))
            self.owes_answer = False
            self.last_end = await run_turn(self.agent, delivery, self, ask_hooks=self._ask_stop_hooks)
            self.usage += self.last_end.usage
            last = self.last_end
            self.agent.emit(TurnEnded(member=LEAD, stop=last.stop, text=last.text, detail=last.explanation))
            return last
        except BaseException:
            # The text before an interruption counts as its answer.
            self.last_end = TurnEnd("done", self.agent.conversation.text_since(begun) or self.last_end.text)
            raise
        finally:
            await self.team.tasks.finish_drafts(LEAD)
            self._set_busy(False)
            self.team.changed.set()

    def _set_busy(self, busy: bool) -> None:
        self.busy = busy
        if self.team.lead_mail is not None:
            self.team.lead_mail.busy = busy
        state = MemberState.WORKING if busy else MemberState.IDLE
        model, effort = self.agent.model.card.name, self.agent.effort_text
        self.agent.emit(MemberChanged(member=LEAD, state=state, model=model, effort=effort, turn=self.turns))

    async def status_lines(self) -> list[str]:
        """Return members and open tasks, a line each, for reminders."""
        lines = [
            f"- {m.name}: {m.state}" + (f", waits for {escape_tags(m.waiting_on)}" if m.waiting_on else "")
            for m in self.team.running_members
        ]
        found = await self.team.tasks.snapshot()
        for task in found.tasks:
            if task.status != "completed":
                blockers = ", ".join(f"#{i}" for i in found.open_blockers(task))
                owner = f" ({escape_tags(display_name(task.owner))})" if task.owner else ""
                lines.append(
                    f"- task #{task.id} [{task.status}] {escape_tags(task.subject)}{owner}"
                    + (f", waits for {blockers}" if blockers else "")
                )
        return [*lines, *(f"- task #{one.id} [damaged] {escape_tags(str(one))}" for one in found.damaged)]
