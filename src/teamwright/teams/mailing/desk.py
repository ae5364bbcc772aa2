"""A member's desk: its unread mail, in the order in which it wakes, as its model will read it.

The transcript is the ledger: what it holds is never told again, and the read flag follows only after it. Knows
inboxes, envelopes and the conversation; does not know who may write to whom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field

from teamwright.agent.agent import Steered
from teamwright.agent.commands import SOURCES, CommandQueue
from teamwright.agent.conversation import Conversation, Told
from teamwright.mail.inbox import Inbox
from teamwright.protocol.blocks import Block, text_block
from teamwright.protocol.clock import ms_of, now_ms
from teamwright.protocol.envelope import RuntimeTags, harmless
from teamwright.protocol.events import Emit, MessageSeen
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import (
    RUNTIME_SENDERS,
    Entry,
    IdleNotification,
    ModeChanged,
    PermissionResponse,
    ShutdownApproved,
    ShutdownRequest,
    parse_protocol,
)
from teamwright.protocol.values import dataclass
from teamwright.teams.mailing.told import ToldIds

WAKE_ORDER = tuple(source for source in SOURCES if source in {"user", "shutdown", "lead", "peer", "task"})
"""Whose mail wakes an idle member first. A shutdown comes alone; all else comes in one turn, in this order."""


def kind_of(entry: Entry) -> str:
    """The entry's place in WAKE_ORDER."""
    if entry.sender == "user":
        return "user"
    if isinstance(parse_protocol(entry.text), ShutdownRequest) and entry.sender == LEAD:
        return "shutdown"
    if entry.sender in {LEAD, "system"}:
        return "lead"
    return "task" if entry.sender == "task-list" else "peer"


def wakes(entry: Entry) -> bool:
    """Return True when the entry may start a model call: an idle notice with a result or a failure, never a new mode.

    The approval of a shutdown does not: the notice that the member has ended follows and takes it along.
    """
    match parse_protocol(entry.text):
        case IdleNotification() as notice:
            return notice.wakes
        case ModeChanged() | PermissionResponse() | ShutdownApproved():
            return False
        case _:
            return entry.extra.get("no_reply") is not True


def _how_old(tags: RuntimeTags, entries: Sequence[Entry]) -> list[Block]:
    """A note on mail that waited for a minute or more: much may have happened since."""
    now = now_ms()
    waited = [(e.sender, (now - (ms_of(e.timestamp or "") or now)) // 60_000) for e in entries]
    old = ", ".join(f"{harmless(sender)} {minutes} min" for sender, minutes in waited if minutes >= 1)
    return [tags.note(f"Some of this mail waited before you could read it: {old}.")] if old else []


def pick(entries: Sequence[Entry]) -> list[Entry]:
    """What one turn takes of the unread entries: the highest kind decides whether a shutdown comes alone."""
    by_kind: dict[str, list[Entry]] = {kind: [] for kind in WAKE_ORDER}
    for entry in entries:
        by_kind[kind_of(entry)].append(entry)
    if by_kind["shutdown"] and not by_kind["user"]:
        return by_kind["shutdown"]
    return [entry for kind in WAKE_ORDER if kind != "shutdown" for entry in by_kind[kind]]


@dataclass(slots=True)
class Desk:
    """One member's incoming mail. `held` says of a sender that its mail may not wake us for now.

    `words` says in plain words what a message of the protocol means, None where it has none for it.
    """

    name: str
    inbox: Inbox
    conversation: Conversation
    emit: Emit
    held: Callable[[str], bool] = field(default=lambda _sender: False)
    on_seen: Callable[[Sequence[Entry]], None] | None = None
    words: Callable[[Entry], str | None] = field(default=lambda _entry: None)
    busy: bool = False
    notices: CommandQueue = field(default_factory=CommandQueue)
    _rung: asyncio.Event = field(default_factory=asyncio.Event)
    _told: ToldIds = field(init=False)

    def __post_init__(self) -> None:
        self._told = ToldIds(self.conversation)

    def ring(self) -> None:
        """Something may be new: wake whoever waits."""
        self._rung.set()

    @property
    def rung(self) -> bool:
        """Whether somebody rang and nobody has looked since."""
        return self._rung.is_set()

    async def wait(self) -> None:
        """Wait until somebody rings."""
        await self._rung.wait()

    async def unread(self) -> list[Entry]:
        """Unread entries that the conversation does not hold yet; those it holds are flagged on the way."""
        self._rung.clear()
        entries = await self.inbox.unread()
        if not entries:
            return []
        old = self._told.among(entries)
        if old:
            await self.inbox.mark_read(old)
        fresh = {entry.msg_id: entry for entry in reversed(entries) if entry.msg_id not in old}
        return list(reversed(fresh.values()))  # a copy under the same id is the same message

    async def flag_told(self) -> None:
        """Flag whatever lies unread and was told, in this life or before; who rang is heard afterwards all the same."""
        if old := self._told.among(await self.inbox.unread()):
            await self.inbox.mark_read(sorted(old))

    async def work(self) -> list[Entry]:
        """What should start a turn now: nothing unless some entry wakes."""
        entries = await self.unread()
        if not any(wakes(entry) and not self.held(entry.sender) for entry in entries):
            return []
        return pick(entries)

    async def beside(self, told: Told) -> tuple[Told, Sequence[Entry]]:
        """What is told, behind the mail that would have woken nobody: a new mode is known before the first call."""
        entries = await self.unread()
        quiet = [entry for entry in entries if not wakes(entry)]
        if len(quiet) < len(entries):
            self.ring()  # what came meanwhile is read between the rounds
        mail = self.told(quiet)
        return Told((*mail.blocks, *told.blocks), (*mail.ids, *told.ids)), quiet

    def notice(self, text: str, key: str = "") -> None:
        """A note of the runtime for this member alone (a job of its own has ended): told like mail, and it wakes.

        The transcript will hold it as `notice:<key>`; without a key it gets a new one.
        """
        self.notices.notice(self.conversation.tags, text, key)
        self.ring()

    def late(self, text: str) -> None:
        """An answer to a request that is gone: told like a notice, before those."""
        self.notices.late(self.conversation.tags, text)
        self.ring()

    def told(self, entries: Sequence[Entry]) -> Told:
        """The entries as one user line, an envelope each, and the notices that wait."""
        tags = self.conversation.tags
        blocks = [text_block(self.words(e) or tags.entry(e, plain=e.sender in RUNTIME_SENDERS)) for e in entries]
        blocks += _how_old(tags, entries)
        ids = [f"mail:{e.msg_id}" for e in entries]
        waiting = self.notices.inline()
        for one in waiting:
            ids.append(one.id)
            blocks += one.blocks
        self.notices.done(waiting)
        return Told(tuple(blocks), tuple(ids))

    async def seen(self, entries: Sequence[Entry]) -> None:
        """The transcript has them: say so, and flag them."""
        await self.flag(self.saw(entries))

    def saw(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        """The transcript has them: say so. Returns the ids to `flag`, for which no model call need wait."""
        ids = tuple(e.msg_id for e in entries if e.msg_id)
        self._told.add(ids)
        if self.on_seen is not None:
            self.on_seen(entries)
        self.emit(MessageSeen(member=self.name, message_ids=ids))
        return ids

    async def flag(self, ids: Sequence[str]) -> None:
        """Flag what was seen; after a kill before it, the transcript tells that they were."""
        await self.inbox.mark_read(ids)
        if self.inbox.more:
            self.ring()

    async def between_rounds(self) -> Steered | None:
        """Mail for a busy member, before its next model call (the loop's steering)."""
        if not self._rung.is_set():
            return None
        unread = await self.unread()
        entries = pick(unread)
        if len(entries) < len(unread):
            self.ring()  # a shutdown comes alone; the rest waits for the next round, not for the next letter
        if not entries and not self.notices:
            return None
        told = self.told(entries)

        async def seen() -> None:
            if entries:
                await self.seen(entries)

        return Steered(told.blocks, told.ids, seen)
