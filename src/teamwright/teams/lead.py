"""The lead: the agent that the user talks to, woken by prompts and by its team's mail.

Works without a terminal: `see_through` runs a prompt until the team is done. Knows the team, the desk and the
loop; does not know who the user is or where its words go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from typing import TypeAlias

from teamwright.agent.agent import Agent, Steered, TurnEnd
from teamwright.agent.commands import Command, CommandQueue, When
from teamwright.agent.compacting.clearing import clear
from teamwright.agent.compacting.state import Shortened
from teamwright.agent.conversation import Told
from teamwright.agent.loop import settle, tell
from teamwright.agent.stopping import run_past_stops
from teamwright.hooks.book import PROMPT, STOP
from teamwright.hooks.payload import user_prompt_submit
from teamwright.protocol.blocks import Block, text_block, text_of
from teamwright.protocol.clock import iso
from teamwright.protocol.envelope import UNKEYED, harmless
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import MemberChanged, Notice, TurnEnded
from teamwright.protocol.ids import LEAD, message_id
from teamwright.protocol.mail import Entry
from teamwright.protocol.task import open_blockers
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass
from teamwright.teams.mailing.desk import Desk
from teamwright.teams.shown.notices import notice_words
from teamwright.teams.shown.words import words_of
from teamwright.teams.team import Team

Shell: TypeAlias = Callable[[str], Awaitable[str]]

GO_ON = (
    "If members are at work, end your turn: you are woken when they report. If all is done, ask them to stop, call "
    "TeamDelete, and give the user the result."
)
"""What a lead does next whose team is still there."""

_WORK_OPEN = (
    "Answer the plans that wait for you. Give each open task to a teammate or do it yourself. Delete a task that is no "
    "longer wanted. Then give the user the result."
)


@dataclass(slots=True)
class Lead:
    """The lead of one session. It takes prompts with `prompt`; `turn` runs what is waiting.

    `owing`: the last life of the session ended before an answer was whole; the next turn gives it. `refused`: why a
    hook would not let the newest words through.
    """

    agent: Agent
    team: Team
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    busy: bool = False
    last: TurnEnd = field(default_factory=lambda: TurnEnd("done"))
    owing: bool = False
    refused: str = ""
    _unheard: deque[tuple[Block, ...]] = field(default_factory=deque[tuple[Block, ...]])
    queue: CommandQueue = field(default_factory=CommandQueue)
    on_shell: Shell | None = None
    """Runs a person's own shell command; what it printed goes along with the next words."""
    on_prompt: Callable[[str, str], None] | None = None
    """Is given the id and the text of a person's words before the lead is told them."""
    _asides: list[tuple[str, Block]] = field(default_factory=list[tuple[str, Block]])
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.agent.steering = self
        for id, blocks in self.agent.conversation.queued.items():
            self._asides += [(id, block) for block in blocks]
        self.team.on_created = self._take_desk
        self.team.on_unseen = self._take_unseen
        self.team.on_late = self.late
        if self.team.exists:
            self._take_desk()

    def _take_desk(self) -> None:
        """There is a team now, so there is an inbox of ours."""
        self.team.lead_desk = Desk(LEAD, self.team.inbox(LEAD), self.agent.conversation, self.agent.emit)
        self.team.lead_desk.busy = self.busy
        self.team.lead_desk.words = lambda entry: words_of(self.team, LEAD, entry, self.agent.tags)
        self.team.lead_unfollow = self.team.follow(LEAD, self.team.lead_desk)

    def _take_unseen(self, entries: Sequence[Entry]) -> None:
        """The team is no more, what its inbox still had for us is told all the same."""
        tags = self.agent.tags
        for entry in entries:
            words = notice_words(LEAD, entry, tags) or tags.entry(entry)
            self.queue.put("peer", (text_block(words),), f"mail:{entry.msg_id}")

    def prompt(self, content: Sequence[Block]) -> None:
        """The user's words: for the next turn, or for the next round of the turn that runs.

        A hook may refuse them, or add to them, before they are told.
        """
        if self.agent.hooks.hooks.wants(PROMPT):
            self._unheard.append(tuple(content))
        else:
            self.queue.put("user", self.agent.tags.with_files(content), f"prompt:{message_id()}")
        self.team.changed.set()

    def notice(self, text: str, key: str = "", *, wakes: bool = True) -> None:
        """A note of the runtime for the lead: a job of its own has ended. The transcript holds it as `notice:<key>`.

        One that does not wake goes along with the next words or mail.
        """
        if not wakes:
            block = text_block(self.agent.tags.notification(text))
            self._asides.append((f"notice:{key or message_id()}", block))
            return
        self.queue.notice(self.agent.tags, text, key)
        self.team.changed.set()

    def late(self, text: str) -> None:
        """An answer came to a request that is gone: nothing runs because of it, the lead is told."""
        self.queue.late(self.agent.tags, text)
        self.team.changed.set()

    def shell(self, command: str) -> None:
        """A person's own shell command: run between turns; what it printed goes along with the next words."""
        self.queue.run(command)
        self.team.changed.set()

    def interrupted(self) -> None:
        """A person cut the turn short: what it was at goes along with the next words, also after a kill."""
        self.agent.conversation.interrupt()

    async def clear(self) -> Shortened:
        """Go on with an empty conversation; team, members and what waits for the lead stay. Only between two turns.

        Raises TeamRefused while a turn runs or is about to, and TeamwrightError; nothing is changed then.
        """
        if self._one.locked() or self.agent.compaction.turn.locked() or self.queue or self._unheard:
            raise TeamRefused(
                "team-refused",
                "the lead is at work",
                do=["wait until it has answered, or end its turn with Ctrl-C; then /clear"],
                note="nothing was cleared",
            )
        async with self._one:
            made = await clear(self.agent)
            if made.done:
                self.owing, self.last = False, TurnEnd("done")
            return made

    def aside(self, text: str, key: str = "") -> None:
        """A note that wakes nobody: it goes along with the next words or mail. The key is as in `notice`."""
        self._asides.append((f"notice:{key or message_id()}", self.agent.tags.note(text)))

    def keep(self, text: str, key: str = "") -> None:
        """As `aside`, and the transcript has it at once: no kill takes it away. Raises StorageError."""
        id, block = f"notice:{key or message_id()}", self.agent.tags.note(text)
        self.agent.conversation.queue(id, [block])
        self._asides.append((id, block))

    async def turn(self) -> TurnEnd | None:
        """Run a turn on what is waiting: the user's words first, then mail, then an owed answer. None: nothing is.

        One turn at a time: a second caller waits for the first, whose turn may take its words along.
        """
        async with self._one:
            await self._run_shell()
            await self._hear()
            mail = await self._mail()
            if (self.queue or mail) and self.agent.conversation.unanswered():
                await settle(self.agent)  # the results take along what waits
                mail = await self._mail()
            if waiting := self.queue.inline():
                return await self._run(self._with(waiting, mail), mail, waiting)
            if mail:
                return await self._run(self._with((), mail), mail)
            return await self._run(None, ()) if self.owing else None

    async def remind(self) -> TurnEnd:
        """Run one turn that tells the lead that no member works, and what is open."""
        async with self._one:
            lines = [f"No teammate is working ({iso()}), and work is open.", *await self.standing(), _WORK_OPEN]
            beside, note = list(self._asides), self.agent.tags.note("\n".join(lines))
            blocks, ids = (
                (*(block for _, block in beside), note),
                (*(one for one, _ in beside), f"notice:{message_id()}"),
            )
            return await self._run(Told(blocks, ids), ())

    async def see_through(self, tasks_open: Callable[[], Awaitable[bool]]) -> TurnEnd:
        """Run turns until the team is done: no member works, and nothing with content is undelivered.

        Mail wakes the lead. The lead is reminded once when all members are idle and `tasks_open` says so, or a member
        waits for its plan to be answered.
        """
        end = await self.turn() or self.last
        reminded = looked = False
        while end.stop == "done":
            self.team.changed.clear()
            if (next_end := await self.turn()) is not None:
                end, looked = next_end, False
            elif self._some():
                continue
            elif not self.team.quiet():
                looked = False
                await self.team.changed.wait()
            elif reminded or looked or not self.team.live:
                break
            else:
                waits = any(mate.plan.open for mate in self.team.live) or await tasks_open()
                looked = not waits  # what came while the tasks were read is seen in the next round
                if waits and self.team.quiet() and not self._some():
                    reminded = True
                    end = await self.remind()
        return end

    async def wait(self) -> None:
        """Wait until there may be something for the lead."""
        self.team.changed.clear()
        if not (self._some() or self.owing):
            await self.team.changed.wait()

    async def between_rounds(self) -> Steered | None:
        """The user's words and mail for a busy lead, before its next model call (the loop's steering)."""
        await self._hear()
        desk = self.team.lead_desk
        steered = await desk.between_rounds() if desk is not None else None
        waiting = self.queue.inline()
        if not waiting:
            return steered
        own = self._with(waiting, ())
        self._begins(waiting)

        async def seen() -> None:
            self._told(waiting)
            if steered is not None and steered.seen is not None:
                await steered.seen()

        if steered is None:
            return Steered(own.blocks, own.ids, seen)
        return Steered((*own.blocks, *steered.texts), (*own.ids, *steered.ids), seen)

    def _some(self) -> bool:
        """Whether something came that nobody has looked at yet."""
        desk = self.team.lead_desk
        return bool(self.queue or self._unheard) or (desk is not None and desk.rung)

    async def _hear(self) -> None:
        """Words that no hook has seen yet: those that none refuses are prompts now."""
        while self._unheard:
            content = self._unheard[0]
            words = user_prompt_submit(text_of(UNKEYED.with_files(content)))
            said = await self.agent.hooks.fire(PROMPT, lambda words=words: words)
            self._unheard.popleft()
            if said.blocked or said.halted:
                self.refused = said.reason or said.halt_reason
                text = f"a hook refused this prompt, and it was not delivered: {self.refused}"
                self.agent.emit(Notice(member=LEAD, text=text, level="warning"))
            else:
                told = (*self.agent.tags.with_files(content), *self.agent.tags.hook_notes(said.contexts))
                self.queue.put("user", told, f"prompt:{message_id()}")

    async def _run_shell(self) -> None:
        """A person's own commands, oldest first, between turns. Nobody is woken by what they print."""
        while (command := self.queue.to_run()) is not None:
            self.queue.done([command])
            if self.on_shell is not None:
                self.keep(await self.on_shell(command.text))

    async def _kept(self, end: TurnEnd, again: bool) -> str:
        """Why hooks would have the lead go on though it has answered."""
        said = await self.agent.hooks.may_stop(STOP, end.text, again=again)
        return said.reason if said.blocked and not said.halted else ""

    async def _mail(self) -> list[Entry]:
        desk = self.team.lead_desk
        if desk is None:
            return []
        # A prompt takes along whatever is unread, notices without content too; without one only mail that wakes.
        return await desk.unread() if self.queue.inline() else await desk.work()

    def _begins(self, commands: Sequence[Command]) -> None:
        """What is done from now on is done for the newest of these words."""
        if self.on_prompt is not None:
            for one in commands:
                if one.source == "user":
                    self.on_prompt(one.id, text_of(one.blocks[:1]))

    def _told(self, commands: Sequence[Command]) -> None:
        """The transcript has these: only now do they no longer wait."""
        self.queue.done(commands)
        self._asides.clear()

    def _with(self, commands: Sequence[Command], mail: Sequence[Entry]) -> Told:
        """All of it as one line, in the order of the queue: what the runtime says stands behind mail."""
        desk = self.team.lead_desk
        letters = desk.told(mail) if desk is not None and mail else Told()
        first = [one for one in commands if one.when is not When.LATER]
        later = [one for one in commands if one.when is When.LATER]
        blocks = [block for _, block in self._asides]
        blocks += [block for one in first for block in one.blocks]
        blocks += [*letters.blocks, *(block for one in later for block in one.blocks)]
        ids = [*(one for one, _ in self._asides), *(one.id for one in first), *letters.ids, *(one.id for one in later)]
        return Told(tuple(blocks), tuple(ids))

    async def _run(self, told: Told | None, mail: Sequence[Entry], prompts: Sequence[Command] = ()) -> TurnEnd:
        self.turns += 1
        self._set_busy(True)
        begun = self.agent.conversation.length
        try:
            if told is not None:
                self._begins(prompts)
                tell(self.agent, told)
                self._told(prompts)
                if mail and self.team.lead_desk is not None:
                    await self.team.lead_desk.seen(mail)
            self.owing = False
            self.last = await run_past_stops(self.agent, None, self._kept)
            self.usage += self.last.usage
            last = self.last
            self.agent.emit(TurnEnded(member=LEAD, stop=last.stop, text=last.text, detail=last.why))
            return last
        except BaseException:
            # What it had said counts, though the turn was cut short.
            self.last = TurnEnd("done", self.agent.conversation.said_since(begun) or self.last.text)
            raise
        finally:
            await self.team.tasks.finish_drafts(LEAD)
            self._set_busy(False)

    def _set_busy(self, busy: bool) -> None:
        self.busy = busy
        if self.team.lead_desk is not None:
            self.team.lead_desk.busy = busy
        state = "working" if busy else "idle"
        model, effort = self.agent.model.card.name, self.agent.shown_effort
        self.agent.emit(MemberChanged(member=LEAD, state=state, model=model, effort=effort, turn=self.turns))

    async def standing(self) -> list[str]:
        """Members and open tasks, a line each, as reminders tell them."""
        lines = [
            f"- {m.name}: {m.state}" + (f", waits for {harmless(m.waiting_on)}" if m.waiting_on else "")
            for m in self.team.live
        ]
        tasks = await self.team.tasks.all()
        statuses = {task.id: task.status for task in tasks}
        for task in tasks:
            if task.status != "completed":
                blockers = ", ".join(f"#{i}" for i in open_blockers(task, statuses))
                owner = f" ({harmless(task.owner)})" if task.owner else ""
                lines.append(
                    f"- task #{task.id} [{task.status}] {harmless(task.subject)}{owner}"
                    + (f", waits for {blockers}" if blockers else "")
                )
        damaged = self.team.tasks.store.damaged_tasks()
        return [*lines, *(f"- task #{one.id} [damaged] {harmless(str(one))}" for one in damaged)]
