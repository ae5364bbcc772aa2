"""Incoming mail of a member: unread messages in wake order, their text for the model, the ids of delivered ones.

The transcript is the record of delivery: its messages are never delivered again, and the read flag follows it. A
delivered message may become unread again: a kill came before its read flag, or another program restored an old inbox.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent import SOURCES, InputQueue
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.protocol.events import Emit, MessageDelivered
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, now_ms, parse_iso_ms
from teamwright.protocol.mail import (
    RUNTIME_SENDERS,
    IdleNotification,
    InboxEntry,
    ModeChangeMessage,
    PermissionResponse,
    ShutdownApproved,
    ShutdownRequest,
    parse_protocol,
)
from teamwright.protocol.messages import Block, ToolCall, text_block, tool_calls
from teamwright.protocol.runtime_tags import TaskEnd, escape_tags

if TYPE_CHECKING:
    from teamwright.mail.mailbox import Mailbox


OnDelivered: TypeAlias = Callable[[Sequence[InboxEntry]], None]
"""Receives the entries that were just delivered."""


class MailRules(Protocol):
    """The rules of a team for the mail of one reader."""

    def is_held(self, sender: str, /) -> bool:
        """Return True for a sender whose mail does not wake the reader now."""
        ...

    def render(self, entry: InboxEntry, /) -> str | None:
        """Return the plain text of a protocol message, None when it has none."""
        ...


class NoMailRules:
    """The rules for mail outside a team: it always wakes, and is shown as it is."""

    def is_held(self, sender: str, /) -> bool:
        return False

    def render(self, entry: InboxEntry, /) -> str | None:
        return None


class IncomingMail(Struct, dict=True):
    """One member's incoming mail."""

    name: str
    inbox: Mailbox
    conversation: Conversation
    emit: Emit
    rules: MailRules = field(default_factory=NoMailRules)
    busy: bool = False
    notices: InputQueue = field(default_factory=InputQueue)
    _wake_event: asyncio.Event = field(default_factory=asyncio.Event)
    _notices_wait: bool = False

    @cached_property
    def _delivered_ids(self) -> DeliveredIds:
        return DeliveredIds(self.conversation)

    def is_held(self, sender: str, /) -> bool:
        """Return True for a sender whose mail does not wake the member now."""
        return self.rules.is_held(sender)

    def wake(self) -> None:
        """Wake the waiting task: there may be new mail."""
        self._wake_event.set()

    @property
    def wake_pending(self) -> bool:
        """True when a wake-up came since the last check."""
        return self._wake_event.is_set()

    async def wait(self) -> None:
        """Wait for a wake-up."""
        await self._wake_event.wait()

    async def unread(self) -> list[InboxEntry]:
        """Return the unread entries that the conversation does not contain; the others are flagged as read."""
        self._wake_event.clear()
        entries = await self.inbox.unread()
        if not entries:
            return []
        old = self._delivered_ids.find_delivered(entries)
        if old:
            await self.inbox.mark_delivered(old)
        fresh = {entry.msg_id: entry for entry in reversed(entries) if entry.msg_id not in old}
        return list(reversed(fresh.values()))  # a copy with the same id is the same message

    async def mark_delivered_read(self) -> None:
        """Flag all delivered mail as read, also that of an earlier process; a pending wake-up stays pending."""
        if old := self._delivered_ids.find_delivered(await self.inbox.unread()):
            await self.inbox.mark_delivered(sorted(old))

    async def next_mail(self) -> list[InboxEntry]:
        """Return the entries that start a turn now: none unless one of them wakes."""
        entries = await self.unread()
        if not any(starts_turn(entry) and not self.is_held(entry.sender) for entry in entries):
            return []
        return self._select(entries)

    def _select(self, unread: Sequence[InboxEntry]) -> list[InboxEntry]:
        """Return the entries to read now. Notices, which come last, wait with what is left."""
        entries = select_for_turn(unread)
        self._notices_wait = len(entries) < len(unread)
        return entries

    async def add_quiet_mail(self, delivery: UserMessage) -> tuple[UserMessage, Sequence[InboxEntry]]:
        """Append the mail that does not wake to a delivery, so that a new mode is known before the first model call."""
        entries = await self.unread()
        quiet = [entry for entry in entries if not starts_turn(entry)]
        if len(quiet) < len(entries):
            self.wake()  # later mail is read between model calls
        mail = self.compose(quiet)
        return UserMessage((*mail.blocks, *delivery.blocks), (*mail.ids, *delivery.ids)), quiet

    def notify(self, notice: str | TaskEnd, key: str = "") -> None:
        """Queue a notice of the runtime, mostly of the end of one of the member's jobs: it is delivered like mail, and
        wakes.

        The transcript stores it as `notice:<key>`; without a key it gets a new one.
        """
        self.notices.put_notice(self.conversation.tags, notice, key)
        self.wake()

    def add_late_answer(self, text: str) -> None:
        """Queue an answer to a request that is gone: it is delivered like a notice, before the others."""
        self.notices.put_late_answer(self.conversation.tags, text)
        self.wake()

    def compose(self, entries: Sequence[InboxEntry]) -> UserMessage:
        """Compose one user message: an envelope for each entry, and the queued notices."""
        tags = self.conversation.tags
        blocks = [text_block(self.rules.render(e) or tags.entry(e, plain=e.sender in RUNTIME_SENDERS)) for e in entries]
        # Mail that waited for a minute or more: the state may have changed.
        now = now_ms()
        waited = [(e.sender, (now - (parse_iso_ms(e.timestamp or "") or now)) // 60_000) for e in entries]
        old = ", ".join(f"{escape_tags(sender)} {minutes} min" for sender, minutes in waited if minutes >= 1)
        blocks += [tags.note(f"Some of this mail waited before you could read it: {old}.")] if old else []
        ids = [f"mail:{e.msg_id}" for e in entries]
        waiting = [] if self._notices_wait else self.notices.texts_in_order()
        self._notices_wait = False
        for one in waiting:
            ids.append(one.id)
            blocks += one.blocks
        self.notices.remove(waiting)
        return UserMessage(tuple(blocks), tuple(ids))

    async def mark_delivered(self, entries: Sequence[InboxEntry]) -> None:
        """Record that the transcript has the entries, and flag them as read."""
        await self.mark_read(self.record_delivery(entries))

    def record_delivery(self, entries: Sequence[InboxEntry]) -> tuple[str, ...]:
        """Record that the transcript has the entries. Returns the ids to flag, for which no model call need wait."""
        ids = tuple(e.msg_id for e in entries if e.msg_id)
        self._delivered_ids.add(ids)
        self.emit(MessageDelivered(member=self.name, message_ids=ids))
        return ids

    async def mark_read(self, ids: Sequence[str]) -> None:
        """Flag delivered entries as read; after a kill before that, the transcript shows that they were delivered."""
        if await self.inbox.mark_delivered(ids):
            self.wake()

    async def next_input(self, on_delivered: OnDelivered = lambda _entries: None) -> UserMessage | None:
        """Return mail for a busy member, before its next model call (the loop's steering).

        `on_delivered` receives the entries once the transcript has them.
        """
        if not self._wake_event.is_set():
            return None
        unread = await self.unread()
        entries = self._select(unread)
        if len(entries) < len(unread):
            self.wake()  # the rest waits for the next model call, not for the next message
        if not entries and not self.notices:
            return None
        delivery = self.compose(entries)

        async def seen() -> None:
            if entries:
                on_delivered(entries)
                await self.mark_delivered(entries)

        return replace(delivery, on_delivered=seen)


WAKE_ORDER = tuple(source for source in SOURCES if source in {"user", "shutdown", "lead", "peer", "task"})
"""The order in which a member, idle or busy, reads mail. A shutdown comes alone, after the words of a user that wait;
all other mail comes together, in this order.
"""


def wake_kind(entry: InboxEntry) -> str:
    """Return the entry's place in WAKE_ORDER."""
    if entry.sender == "user":
        return "user"
    if isinstance(parse_protocol(entry.text), ShutdownRequest) and entry.sender == LEAD:
        return "shutdown"
    if entry.sender in {LEAD, "system"}:
        return "lead"
    return "task" if entry.sender == "task-list" else "peer"


def starts_turn(entry: InboxEntry) -> bool:
    """Return True when the entry may start a model call: an idle notice with a result or a failure does, a new mode
    never.

    The approval of a shutdown does not: the notice that the member has ended follows and includes it.
    """
    match parse_protocol(entry.text):
        case IdleNotification() as notice:
            return notice.wakes_reader
        case ModeChangeMessage() | PermissionResponse() | ShutdownApproved():
            return False
        case _:
            return entry.extra.get("no_reply") is not True


def select_for_turn(entries: Sequence[InboxEntry]) -> list[InboxEntry]:
    """Return the unread entries for one turn or model call, in wake order.

    While a shutdown waits, only the words of a user come before it, then it comes alone; the rest comes after it.
    """
    by_kind: dict[str, list[InboxEntry]] = {kind: [] for kind in WAKE_ORDER}
    for entry in entries:
        by_kind[wake_kind(entry)].append(entry)
    if by_kind["shutdown"]:
        return by_kind["user"] or by_kind["shutdown"]
    return [entry for kind in WAKE_ORDER for entry in by_kind[kind]]


_ASSIGNED_TASK = re.compile(r">\\n[^\s<]+ gave you task #(\d+):|task_assignment[^{}]*?taskId\W+(\d+)")
"""A task assignment by mail, as models read it now and in transcripts of earlier versions."""


MAX_REMEMBERED = 512
"""Ids in memory. The transcript is searched only for older messages, once for each while it is unread."""


class DeliveredIds:
    """The ids of messages that the agent of this conversation has received."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._newest: dict[str, int] = {}  # id → time of delivery
        self._undelivered: set[str] = set()  # unread ids that the transcript was searched for and does not contain
        self._transcript_checked = False
        self._forgotten_ms = -1  # forgotten ids were delivered before this time

    def __len__(self) -> int:
        return len(self._newest)

    def add(self, ids: Iterable[str]) -> None:
        """Add ids that were delivered just now."""
        now = now_ms()
        for id in ids:
            self._newest.pop(id, None)
            self._newest[id] = now
        while len(self._newest) > MAX_REMEMBERED:
            self._forgotten_ms = self._newest.pop(next(iter(self._newest)))

    def find_delivered(self, unread: Sequence[InboxEntry]) -> set[str]:
        """Return the ids of entries delivered before. Raises StorageError when the transcript cannot be read."""
        entries = {entry.msg_id: entry for entry in unread if entry.msg_id}
        known = entries.keys() & self._newest.keys()
        doubtful = {
            id
            for id in entries.keys() - known - self._undelivered
            if not self._transcript_checked or (parse_iso_ms(entries[id].timestamp or "") or 0) <= self._forgotten_ms
        }
        if doubtful:
            delivered_ids = {
                id.removeprefix("mail:") for id in self._conversation.delivered_ids({f"mail:{id}" for id in doubtful})
            }
            self.add(delivered_ids)
            known |= delivered_ids
            self._undelivered |= doubtful - delivered_ids
        self._undelivered &= entries.keys()
        self._transcript_checked = self._transcript_checked or bool(entries)
        return known


def has_written_to_lead(conversation: Conversation) -> bool:
    """Return True when the newest turn sent the lead a message; a refused one does not count."""
    refused: set[str] = set()
    for item in conversation.messages_backward():
        message: dict[str, Any] = json.loads(item)
        content: list[Block] = message["content"]
        if message["role"] == "user":
            if not content or content[0]["type"] != "tool_result":
                return False
            refused = {str(block.get("tool_use_id")) for block in content if block.get("is_error")}
        elif any(_is_message_to_lead(call) and call.id not in refused for call in tool_calls(content)):
            return True
    return False


def known_task_ids(conversation: Conversation) -> set[str]:
    """Return the tasks that the agent took or changed itself, or that were assigned to it by mail."""
    known: set[str] = set()
    for item in conversation.messages_backward():
        if b'"TaskUpdate"' in item:
            calls = tool_calls(json.loads(item)["content"])
            known |= {str(c.input.get("taskId", "")).strip().removeprefix("#") for c in calls if c.name == "TaskUpdate"}
        elif b"gave you task #" in item or b"task_assignment" in item:
            known |= {"".join(found) for found in _ASSIGNED_TASK.findall(item.decode("utf-8", "replace"))}
    return known


def _is_message_to_lead(call: ToolCall) -> bool:
    to = str(call.input.get("to") or call.input.get("recipient") or "")
    return call.name == "SendMessage" and to.split("@")[0].lower() in {LEAD, LEAD_ALIAS, "*"}
