"""Evidence from one transcript: whether it loads, its deliveries, and the results of its sends.

Reads a file of any size line by line, once. Depends on the format of transcripts and message envelopes, and reads no
inbox, so that its evidence is independent.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec import Struct, field

from teamwright.agent.fork_origin import ForkOrigin, read_conversation
from teamwright.agent.prompt import load_prefix
from teamwright.agent.transcript import line_blocks
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, inbox_stem
from teamwright.protocol.mail import fence_protocol
from teamwright.protocol.messages import Block, message_text
from teamwright.storage.json_lines import read_lines
from teamwright.views.audit.team_location import TranscriptFile

_MAIL = "mail:"
_ENVELOPE = re.compile(r'<teammate-message teammate_id="([^"]*)"[^>]*>\n(.*)\n</teammate-message>\Z', re.DOTALL)
_MOST_PROBLEMS = 5


class DeliveredMessage(NamedTuple):
    """A message in one conversation: the number of deliveries, the last one's time, and a hash of sender and text."""

    times: int
    at: str
    words: int | None


class FailedSend(NamedTuple):
    """A send that failed by its tool result: the addressee (`*`: all), and a hash of its text."""

    to: str
    text: int


class TranscriptEvidence(Struct):
    """One transcript. `deliveries` are by message id; `again` are prompts and notices that were delivered again.

    `accepted`: messages that were sent successfully, by id, with reader and time. `failed`: failed sends. `unanswered`:
    ids in the last lines, which no answer follows; `owes` is True when there is such a line.
    """

    transcript: TranscriptFile
    deliveries: dict[str, DeliveredMessage] = field(default_factory=dict[str, DeliveredMessage])
    again: list[str] = field(default_factory=list[str])
    accepted: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    failed: list[FailedSend] = field(default_factory=list[FailedSend])
    problems: list[str] = field(default_factory=list[str])
    unanswered: set[str] = field(default_factory=set[str])
    owes: bool = False
    torn: bool = False
    _calls: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict[str, tuple[str, dict[str, Any]]])
    _others: set[str] = field(default_factory=set[str])
    _agreed: bool = False

    @property
    def loads(self) -> bool:
        """True when the conversation can be resumed from this file."""
        return not self.problems

    def inherits(self, answer: bytes) -> None:
        """Note that the transcript is a fork's. Results for the calls in `answer`, its caller's newest answer, are
        ignored.
        """
        blocks = _blocks(json.loads(answer)["content"])
        self._calls = {str(block.get("id")): ("", {}) for block in blocks if _is_call(block)}

    def line(self, number: int, raw: bytes) -> None:
        """Add one line after the header."""
        try:
            value: object = json.loads(raw)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            self._wrong(f"line {number} is not whole")
            return
        data = cast("dict[str, Any]", value)
        message: object = data.get("message")
        if not isinstance(message, dict):
            return
        content = cast("dict[str, Any]", message).get("content")
        blocks = _blocks(line_blocks(raw) if isinstance(content, str) else content)
        if cast("dict[str, Any]", message).get("role") == "assistant":
            self._add_assistant_message(number, blocks)
        else:
            self._add_user_message(number, data, blocks)

    def _add_assistant_message(self, number: int, blocks: Sequence[Block]) -> None:
        self._refuse_open(number)
        self._calls = {str(b.get("id")): (str(b.get("name")), _mapping(b.get("input"))) for b in blocks if _is_call(b)}
        self.owes = False
        self.unanswered.clear()

    def _add_user_message(self, number: int, data: Mapping[str, Any], blocks: Sequence[Block]) -> None:
        at = str(data.get("at", ""))
        for block in blocks:
            if block.get("type") == "tool_result":
                call = self._calls.pop(str(block.get("tool_use_id")), None)
                if call is None:
                    self._wrong(f"line {number} has a result that no call asked for")
                else:
                    self._result(call, block, at)
        self._refuse_open(number)
        self._calls = {}
        self.owes = not self._agreed
        self._agreed = False
        ids = [one for one in _list(data.get("injected")) if isinstance(one, str)]
        mail = [one.removeprefix(_MAIL) for one in ids if one.startswith(_MAIL)]
        words = [hash(found.groups()) for b in blocks if (found := _envelope(b))] if mail else []
        for place, id in enumerate(mail):
            before = self.deliveries.get(id)
            text_hash = words[place] if len(words) == len(mail) else None
            self.deliveries[id] = DeliveredMessage(1 + (before.times if before else 0), at, text_hash)
            self.unanswered.add(id)
        self._note_others(ids)

    def _note_others(self, ids: Sequence[str]) -> None:
        for one in ids:
            if not one.startswith(("prompt:", "notice:")):
                continue
            if one in self._others:
                self.again.append(one)
            self._others.add(one)

    def _result(self, call: tuple[str, dict[str, Any]], block: Block, at: str) -> None:
        name, tool_input = call
        if name not in {"SendMessage", "Agent", "Task"}:
            return
        if block.get("is_error"):
            attempt = _attempt(tool_input)
            if attempt is not None:
                self.failed.append(attempt)
        elif name == "SendMessage":
            answer = _mapping(tool_input.get("message")) or tool_input
            self._agreed |= answer.get("type") == "shutdown_response" and answer.get("approve") is True
            sent = _sent(block)
            if sent is not None:
                self.accepted[sent[0]] = (sent[1], at)

    def _refuse_open(self, number: int) -> None:
        if self._calls:
            self._wrong(f"line {number} comes before the results of {len(self._calls)} calls")

    def _wrong(self, what: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(what)


def read_transcript(transcript: TranscriptFile) -> TranscriptEvidence:
    """Read one transcript. Faults are in `problems`; nothing is raised."""
    ledger = TranscriptEvidence(transcript)
    if transcript.header:
        ledger.problems.append(transcript.header)
    try:
        for number, raw in enumerate(read_lines(transcript.path), 1):
            if number > 1:
                ledger.line(number, raw)
            elif not transcript.header:
                _check_beginning(ledger)
        ledger.torn = _is_torn(transcript.path)
    except OSError as problem:
        ledger.problems.append(f"it cannot be read: {problem.strerror}")
    return ledger


def _check_beginning(ledger: TranscriptEvidence) -> None:
    """Check the prefix that the first line or the last compaction names, because a resume needs it.

    A fork begins with results for calls of its caller.
    """
    path = ledger.transcript.path
    session = path.with_suffix("") if ledger.transcript.reader == LEAD else path.parent.parent
    try:
        history = read_conversation(path)
        load_prefix(session / "prefixes", history.prefix)
        origin = ForkOrigin.from_header(history.header)
        if origin is not None:
            ledger.inherits(origin.read(path).items[-1])
    except TeamwrightError as problem:
        ledger.problems.append(problem.what)


def _is_torn(path: Path) -> bool:
    """Return True when the last line is incomplete. The next load cuts it, and no record depends on it."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return size > 0 and file.read(1) != b"\n"


def _attempt(tool_input: Mapping[str, Any]) -> FailedSend | None:
    """Return the text of a failed send call, in the form of an inbox entry; None for other calls."""
    text = tool_input.get("message", tool_input.get("content", tool_input.get("prompt")))
    to = (
        tool_input.get("to")
        or tool_input.get("recipient")
        or tool_input.get("name")
        or ("*" if "message" in tool_input else "")
    )
    if not to:
        return None  # a failed sub-agent is not an addressee
    return FailedSend(reader_of(str(to)), hash(fence_protocol(text)) if isinstance(text, str) else 0)


def _sent(block: Block) -> tuple[str, str] | None:
    """Return id and reader of a message from the tool result of a successful send."""
    content = block.get("content")
    text = content if isinstance(content, str) else message_text(_blocks(content))
    if '"msg_id"' not in text:
        return None
    try:
        body = _mapping(json.loads(text))
    except (ValueError, RecursionError):
        return None
    id = body.get("msg_id")
    target = _mapping(body.get("routing")).get("target")
    return (id, reader_of(str(target).removeprefix("@"))) if isinstance(id, str) and id and target else None


def reader_of(name: str) -> str:
    """Return the reader that a name in a `to` means: the stem of its inbox, lower case; `*` stays."""
    bare = name.strip().partition("@")[0].lower()
    return LEAD if bare == LEAD_ALIAS else bare if bare == "*" else inbox_stem(bare)


def _envelope(block: Block) -> re.Match[str] | None:
    text = block.get("text")
    return _ENVELOPE.search(text) if block.get("type") == "text" and isinstance(text, str) else None


def _is_call(block: Block) -> bool:
    return block.get("type") == "tool_use"


def _blocks(content: object) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [cast("Block", block) for block in _list(content) if isinstance(block, dict)]


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
