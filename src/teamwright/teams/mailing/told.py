"""What one member was told, and what it said of it: the newest ids in memory, the rest in its transcript, the ledger.

A message may come unread again: a kill came before its flag, another program wrote an old copy of the inbox back.
Below it: the conversation. Refuses to know inboxes, and who is told of what.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from teamwright.agent.conversation import Conversation
from teamwright.protocol.blocks import Block, ToolCall, tool_calls
from teamwright.protocol.clock import ms_of, now_ms
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.mail import Entry

_ASSIGNED = re.compile(r">\\n[^\s<]+ gave you task #(\d+):|task_assignment[^{}]*?taskId\W+(\d+)")
"""A task that was given by mail, as models read it now and in transcripts of earlier versions."""

REMEMBERED = 512
"""Ids in memory. The transcript is asked for older messages alone, once for each as long as it lies unread."""


class ToldIds:
    """What the agent of this conversation was told, by the ids of messages."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._newest: dict[str, int] = {}  # id → when it was told
        self._new: set[str] = set()  # unread ones that the transcript was asked for, and does not have
        self._asked = False
        self._forgotten_ms = -1  # what is forgotten was told by then, and written before

    def __len__(self) -> int:
        return len(self._newest)

    def add(self, ids: Iterable[str]) -> None:
        """These were told just now."""
        now = now_ms()
        for id in ids:
            self._newest.pop(id, None)
            self._newest[id] = now
        while len(self._newest) > REMEMBERED:
            self._forgotten_ms = self._newest.pop(next(iter(self._newest)))

    def among(self, unread: Sequence[Entry]) -> set[str]:
        """The ids of those that were told before. Raises StorageError when the transcript cannot be read."""
        entries = {entry.msg_id: entry for entry in unread if entry.msg_id}
        known = entries.keys() & self._newest.keys()
        doubtful = {id for id in entries.keys() - known - self._new if self._may_be_forgotten(entries[id])}
        if doubtful:
            held = {id.removeprefix("mail:") for id in self._conversation.holds({f"mail:{id}" for id in doubtful})}
            self.add(held)
            known |= held
            self._new |= doubtful - held
        self._new &= entries.keys()
        self._asked = self._asked or bool(entries)
        return known

    def _may_be_forgotten(self, entry: Entry) -> bool:
        """Whether it is old enough; at the first look anything may have been told in a life before this one."""
        return not self._asked or (ms_of(entry.timestamp or "") or 0) <= self._forgotten_ms


def wrote_lead(conversation: Conversation) -> bool:
    """Whether the newest turn of the conversation sent the lead a message; one that was refused does not count."""
    refused: set[str] = set()
    for item in conversation.backward():
        message: dict[str, Any] = json.loads(item)
        content: list[Block] = message["content"]
        if message["role"] == "user":
            if not content or content[0]["type"] != "tool_result":
                return False
            refused = {str(block.get("tool_use_id")) for block in content if block.get("is_error")}
        elif any(_to_lead(call) and call.id not in refused for call in tool_calls(content)):
            return True
    return False


def worked_on(conversation: Conversation) -> set[str]:
    """The tasks that the agent took or changed itself, or that were assigned to it by mail: it knows of them."""
    known: set[str] = set()
    for item in conversation.backward():
        if b'"TaskUpdate"' in item:
            calls = tool_calls(json.loads(item)["content"])
            known |= {str(c.input.get("taskId", "")).strip().removeprefix("#") for c in calls if c.name == "TaskUpdate"}
        elif b"gave you task #" in item or b"task_assignment" in item:
            known |= {"".join(found) for found in _ASSIGNED.findall(item.decode("utf-8", "replace"))}
    return known


def _to_lead(call: ToolCall) -> bool:
    to = str(call.input.get("to") or call.input.get("recipient") or "")
    return call.name == "SendMessage" and to.split("@")[0].lower() in {LEAD, LEAD_ALIAS, "*"}
