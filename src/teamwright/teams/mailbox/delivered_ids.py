"""The ids of delivered messages: the newest in memory, the others in the transcript, which is the record of delivery.

A delivered message may become unread again: a kill came before its read flag, or another program restored an old inbox.
Depends on the conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from teamwright.agent.conversation import Conversation
from teamwright.protocol.clock import now_ms, parse_iso_ms
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.messages import Block, ToolCall, tool_calls

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
        doubtful = {id for id in entries.keys() - known - self._undelivered if self._may_be_forgotten(entries[id])}
        if doubtful:
            held = {
                id.removeprefix("mail:") for id in self._conversation.delivered_ids({f"mail:{id}" for id in doubtful})
            }
            self.add(held)
            known |= held
            self._undelivered |= doubtful - held
        self._undelivered &= entries.keys()
        self._transcript_checked = self._transcript_checked or bool(entries)
        return known

    def _may_be_forgotten(self, entry: InboxEntry) -> bool:
        """Return True when the entry is old enough; at the first check an earlier process may have
        delivered any entry.
        """
        return not self._transcript_checked or (parse_iso_ms(entry.timestamp or "") or 0) <= self._forgotten_ms


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
