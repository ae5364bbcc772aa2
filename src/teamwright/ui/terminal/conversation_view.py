"""The viewed conversation of a terminal: the lead's, or that of a member, with its history and then live.

    lead ──open NAME──▶ NAME ──back, the member has ended──▶ lead

While a member is viewed, its texts are shown as the lead's were, and the lead's texts get its name as a prefix. No text
is lost. A conversation is shown as messages to the member, its answers, and one line for each call. Depends on the
package `session`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, cast

from msgspec import Struct

from teamwright.protocol.errors import UnknownMember
from teamwright.protocol.events import (
    AssistantText,
    MemberChanged,
    MessageDelivered,
    ModelCallEnded,
    TeamChanged,
    TeamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCalled,
    TurnEnded,
)
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.messages import Block
from teamwright.protocol.runtime_tags import (
    MESSAGE_PATTERN,
    NOTIFICATION_PATTERN,
    REMINDER_PATTERN,
    parse_sender,
    unescape_tags,
)
from teamwright.session.control.live_agents import find_member
from teamwright.session.control.person_actions import interrupt_member, live_members, members_at_work
from teamwright.session.session import Session
from teamwright.ui.display_text import cell_width, clean, cut, one_line, pad
from teamwright.ui.protocol_text import message_words
from teamwright.ui.terminal.agent_output import AgentTextOutput, ends_text
from teamwright.ui.terminal.events import NAME_WIDTH, EventFormatter, display_name
from teamwright.views.log import ConversationReader, Message, conversation_of, describe_input, saved_conversation

MAX_HISTORY_LINES = 40
"""The number of lines of a conversation that are shown when a member is opened."""

_OF_ITS_PROCESS = (MessageDelivered, ModelCallEnded, ToolCalled, TurnEnded)
"""Events that come from a member process after the partial texts of the answer before."""

ShowLines = Callable[[Sequence[str]], None]


class ConversationView(Struct):
    """The view: `name` is the viewed agent, at first the lead."""

    session: Session
    formatter: EventFormatter
    show: ShowLines
    texts: AgentTextOutput
    name: str = LEAD
    _conversation: ConversationReader | None = None
    _streamed: str = ""
    """The text of a member process that was shown as it came, before its answer was read from the transcript."""

    @property
    def viewed_member(self) -> str:
        """The member that is viewed; empty for the lead."""
        return "" if self.name == LEAD else self.name

    @property
    def is_working(self) -> bool:
        """True while the viewed member is working."""
        return self.viewed_member in members_at_work(self.session)

    def label(self) -> str:
        """Return the label before the input line."""
        return f"@{display_name(self.name)}> " if self.viewed_member else "> "

    # ── open and return ─────────────────────────────────────────────────────────────────────────────────────────

    def open(self, name: str) -> None:
        """Show the last messages and answers of a member, then its events. Raises UnknownMember, InvalidName.

        The conversation of an ended member or of a sub-agent is only shown: the viewed agent stays.
        """
        try:
            teammate = find_member(self.session.team, name, "nothing was changed")
        except UnknownMember:
            if not self._show_saved(name):
                raise
            return
        if teammate is None:
            self.return_to_lead()
            return
        conversation = conversation_of(teammate)
        member = next(one for one in live_members(self.session) if one.name == teammate.name)
        self.texts.end(self.name)
        self.name = member.name
        self._conversation = conversation
        self._streamed = ""
        gap = " " * max(1, NAME_WIDTH + 1 - cell_width(LEAD_ALIAS))
        self.texts.heads[LEAD] = f"{self.formatter.name(LEAD)}{gap}"
        about = f"{display_name(member.name)} · {member.state} · {clean(member.model)} · {clean(member.place)}"
        self.show(
            [
                self._heading(about),
                *self._history_lines(conversation, self.name),
                "  your lines go to it · Esc or /view: back to the lead",
            ]
        )

    def _show_saved(self, name: str) -> bool:
        """Show the end of the conversation of an ended member or a sub-agent. Return False when there is none."""
        reader = saved_conversation(self.session, name)
        if reader is None:
            return False
        run = self.session.agents.find(name)
        about = "has ended" if run is None else f"sub-agent of {display_name(run.owner)}, {run.state}"
        end = f"  your lines go to {display_name(self.name)}"
        more = "; /view shows its newest lines again" if run is not None and run.is_running else ""
        self.show(
            [
                self._heading(f"{display_name(name)} · {about}"),
                *self._history_lines(reader, name, LEAD if run is None else run.owner),
                end + more,
            ]
        )
        return True

    def return_to_lead(self) -> None:
        """Return to the lead; no effect when the lead is viewed."""
        if not self.viewed_member:
            return
        self.texts.end(self.name)
        self.name = LEAD
        self._conversation = None
        self._streamed = ""
        self.texts.heads.clear()
        self.show([self._heading(LEAD_ALIAS)])

    def interrupt(self) -> None:
        """Interrupt the turn of the viewed member only."""
        name = display_name(self.name)
        if interrupt_member(self.session, self.name):
            self.show([f"{name}'s turn was ended; it waits for your message. All others continue."])
        else:
            self.show([f"{name}'s turn cannot be cut from here; /stop ends {name}"])

    # ── events ─────────────────────────────────────────────────────────────────────────────────────────────────

    def handle_before(self, event: TeamEvent) -> bool:
        """Show the text of an event, before its other lines. Return True when it needs no other line."""
        if isinstance(event, TextDelta):
            if event.member in {LEAD, self.name}:
                self.texts.add(event.member, event.text)
            if event.member == self.name and self._conversation is not None and not self._conversation.live:
                self._streamed += event.text
            return True
        if isinstance(event, ThinkingDelta):
            return True
        if ends_text(event):
            self.texts.end(event.member)
        if not self.viewed_member or event.member != self.name or self._conversation is None:
            return isinstance(event, AssistantText)
        if isinstance(event, AssistantText):
            is_received = self._conversation.live and event.message["role"] == "user"
            self.texts.print(received_lines(event.content, self.name, self.formatter) if is_received else [])
            return True
        if not self._conversation.live and isinstance(event, _OF_ITS_PROCESS):
            self._catch_up(self._conversation)
        return False

    def handle_after(self, event: TeamEvent) -> None:
        """Return to the lead when the viewed member has ended."""
        if (
            self.viewed_member
            and isinstance(event, MemberChanged | TeamChanged)
            and self.session.team.find(self.name) is None
        ):
            self.return_to_lead()

    def flush_lead(self) -> None:
        """Show the rest of the lead's text at the end of its turn."""
        self.texts.end(LEAD)

    def _catch_up(self, reader: ConversationReader) -> None:
        for message in reader.new_messages():
            if message["role"] == "user":
                self.texts.print(received_lines(message["content"], self.name, self.formatter))
            elif not self._was_streamed(message):
                self.texts.print(answer_lines([message]))

    def _was_streamed(self, message: Message) -> bool:
        """Return True for an answer that was shown as it was written. Parts may be missing when a process is busy."""
        text = "".join(str(block.get("text", "")) for block in _blocks([message], "text")).strip()
        at = self._streamed.find(text)
        self._streamed = self._streamed[at + len(text) :] if at >= 0 else ""
        return at >= 0

    def _history_lines(self, reader: ConversationReader, name: str, prompts_by: str = LEAD) -> list[str]:
        if reader.foreign:
            return ["  another program runs it, and has its conversation; what it writes to the team is shown here"]
        lines = history_lines(reader.recent(MAX_HISTORY_LINES), name, self.formatter, prompts_by)
        return lines if len(lines) <= MAX_HISTORY_LINES else ["  …", *lines[-MAX_HISTORY_LINES:]]

    def _heading(self, about: str) -> str:
        room = max(20, self.formatter.width - 1)
        head = cut(f"── {about} ", room)
        return self.formatter.paint("bold", head + "─" * (room - cell_width(head)))


MAX_MESSAGE_LINES = 12
"""The number of lines of a message to the member that are shown; the rest is counted."""

MIN_WIDTH = 20
YOU, AGENT = "You", "Agent"
"""The speakers of a conversation."""

_ENVELOPE = re.compile(MESSAGE_PATTERN, re.DOTALL)
_NOTIFICATION = re.compile(NOTIFICATION_PATTERN, re.DOTALL)
_REMINDER = re.compile(REMINDER_PATTERN, re.DOTALL)
SENDERS_SHOWN_ELSEWHERE: Collection[str] = frozenset({"user", "task-list"})
"""Senders whose messages have another line when they are sent."""


def history_lines(
    messages: Sequence[Message], name: str, formatter: EventFormatter, prompts_by: str = LEAD
) -> list[str]:
    """Return received and written texts, oldest first. A call is one line, without its result unless it failed."""
    failed = {str(block["tool_use_id"]) for block in _blocks(messages, "tool_result") if block.get("is_error")}
    lines: list[str] = []
    for message in messages:
        if message["role"] == "user":
            lines += received_lines(message["content"], name, formatter, shown_elsewhere=(), prompts_by=prompts_by)
        else:
            lines += answer_lines([message])
            lines += [_call(call, name, formatter, failed) for call in _blocks([message], "tool_use")]
    return lines


def last_exchange(messages: Sequence[Message]) -> tuple[str, str]:
    """Return the last prompt of a person to the lead, and the last text of the lead after it."""
    prompt = answer = ""
    for speaker, text in exchanges(messages):
        prompt, answer = (text, "") if speaker == YOU else (prompt, text)
    return prompt, answer


def exchanges(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Return the texts of the person and of the agent, oldest first, each with its speaker."""
    found: list[tuple[str, str]] = []
    for message in messages:
        texts = [str(block.get("text", "")) for block in _blocks([message], "text")]
        is_prompt = message["role"] == "user"
        if is_prompt:
            texts = [_without_tagged(text) for text in texts]
        if content := "\n".join(texts).strip():
            found.append((YOU if is_prompt else AGENT, content))
    return found


def answer_lines(messages: Sequence[Message]) -> list[str]:
    """Return the lines of the member's answers."""
    texts = [str(block.get("text", "")) for block in _blocks(messages, "text")]
    return [clean(line) for text in texts if text.strip() for line in text.strip("\n").split("\n")]


def _blocks(messages: Sequence[Message], kind: str) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        for block in cast("list[Block]", message["content"]):
            if block.get("type") == kind:
                yield block


def _call(call: Mapping[str, Any], name: str, formatter: EventFormatter, failed: Collection[str]) -> str:
    room = max(formatter.width, MIN_WIDTH) - NAME_WIDTH - 1
    end = " — failed" if call.get("id") in failed else ""
    line = f"{clean(str(call.get('name', '')))} {one_line(describe_input(call))}".rstrip()
    painted = formatter.name(name) + pad("", max(0, NAME_WIDTH - cell_width(display_name(name))))
    return f"{painted} {cut(line, room - cell_width(end))}{end}"


def received_lines(
    content: Sequence[Block],
    name: str,
    formatter: EventFormatter,
    *,
    shown_elsewhere: Collection[str] = SENDERS_SHOWN_ELSEWHERE,
    prompts_by: str = "",
) -> list[str]:
    """Return the lines of received messages with their senders, except those from `shown_elsewhere`.

    With `prompts_by` texts without an envelope are included: prompts of the user or of that agent, which started the
    member.
    """
    lines: list[str] = []
    for sender, body in _mail(content, prompts_by):
        if sender in shown_elsewhere:
            continue
        head = f"{formatter.name(sender)} → {formatter.name(name)}: "
        room = max(formatter.width, MIN_WIDTH) - 1
        first, *rest = _wrap(body, room - 2, room - cell_width(f"{display_name(sender)} → {display_name(name)}: "))
        lines += [head + first, *(f"  {line}" for line in rest[: MAX_MESSAGE_LINES - 1])]
        if len(rest) >= MAX_MESSAGE_LINES:
            lines.append(formatter.paint("dim", f"  … {len(rest) - MAX_MESSAGE_LINES + 1} more lines"))
    return lines


def _mail(content: Sequence[Block], prompts_by: str) -> Iterator[tuple[str, str]]:
    for block in content:
        if block.get("type") == "text":
            text = str(block.get("text", ""))
            for found in _ENVELOPE.finditer(text):
                yield parse_sender(found[1]) or LEAD, message_words(unescape_tags(found[2]))
            if prompts_by:
                yield from (("system", unescape_tags(found[1])) for found in _NOTIFICATION.finditer(text))
                if bare := _without_tagged(text):
                    yield prompts_by, bare


def _without_tagged(text: str) -> str:
    """Return a text without what the runtime put between tags."""
    for pattern in (_ENVELOPE, _NOTIFICATION, _REMINDER):
        text = pattern.sub("", text)
    return text.strip()


def _wrap(text: str, room: int, first: int) -> list[str]:
    """Wrap the text; the first line is shorter by the width of its label."""
    lines: list[str] = []
    for part in clean(text).split("\n"):
        indent = "" if lines else " " * max(room - first, 0)
        lines += wrap(part, max(room, MIN_WIDTH), initial_indent=indent, break_long_words=True) or [""]
    return [lines[0].strip(), *lines[1:]]
