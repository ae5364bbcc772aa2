"""A transcript as it lies on disk: its lines, and what is read of them backward, as far as the last compaction.

The lines of a conversation are never changed; where it was compacted a line says with what it goes on, and what that
stands for. Knows files of lines and encoded messages; keeps no conversation. Format: docs/formats/transcript.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from teamwright.protocol.clock import iso_time
from teamwright.protocol.errors import StorageError
from teamwright.protocol.message_gaps import bridge_gaps
from teamwright.protocol.messages import Block, encode, text_block, tool_calls
from teamwright.protocol.values import dataclass
from teamwright.storage.jsonl import read_backward, read_lines
from teamwright.storage.lost_lines import LOST, LostLines, set_aside_damaged_lines

SCHEMA = 1
"""Version of the transcript's lines."""
FORK_SCHEMA = 2
"""The version of a fork's transcript: its history begins in another file. What is newer than that is not read."""

TAG_KEY = "tag_key"
"""Under which key the first line has the key of the runtime's tags."""

MESSAGE_KEY = b',"message":'
"""What stands before the message of a line, which is its last part."""
USER_MESSAGE = b'{"role":"user"'
"""How a message begins that the agent was told."""
ASSISTANT_LINE = b'{"type":"assistant"'
"""How a line begins that has an answer of the agent."""
INJECTED_KEY = b'"injected":'
_MESSAGE_LINES = (b'{"type":"user"', ASSISTANT_LINE)
_INTERRUPT = b'{"type":"interrupt"'
_QUEUED = b'{"type":"queued"'
_COMPACT = b'{"type":"compact"'
_PREFIX = b'{"type":"prefix"'
_SIZES = re.compile(rb'\{"type":"compact","sizes":\[([0-9]+(?:,[0-9]+)*)\]')
_MESSAGES = b',"messages":['
_PAUSED = b'"stop_reason":"pause_turn"'
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})

MAX_LISTED_IDS = 1_064
"""Ids that a boundary lists, as many as an inbox has unread; older ones are looked for in the lines before it."""


@dataclass(frozen=True, slots=True)
class CompactBoundary:
    """What a compaction left. The conversation goes on with `messages`, encoded: a summary, and what it does not cover.

    `place` is the number of lines before it that count, `covered` the number of messages that the summary stands for,
    `answers` those of them that the agent gave. `told` are the newest ids that were told before, `older` whether there
    are others; `queued` what waits still; `prefix` the digest of the one that is sent from now on.
    """

    line_count: int
    messages: tuple[bytes, ...]
    summarized_count: int = 0
    answer_count: int = 0
    owes_answer: bool = False
    interrupted: bool = False
    delivered_ids: tuple[str, ...] = ()
    has_older_ids: bool = False
    queued: Mapping[str, list[Block]] = field(default_factory=dict[str, "list[Block]"])
    prefix: str = ""

    def encode_line(self, about: Mapping[str, Any]) -> bytes:
        """The line; `about` goes along with it for readers."""
        sizes = ",".join(str(len(message)) for message in self.messages).encode()
        known = {
            "at": iso_time(),
            **about,
            "place": self.line_count,
            "covered": self.summarized_count,
            "answers": self.answer_count,
            "owes": self.owes_answer,
            "interrupted": self.interrupted,
            "prefix": self.prefix,
            "told": self.delivered_ids,
            "older": self.has_older_ids,
            "queued": self.queued,
        }
        head = _COMPACT + b',"sizes":[' + sizes + b"]," + encode(known)[1:-1]
        return b"".join((head, _MESSAGES, b",".join(self.messages), b"]}"))

    @classmethod
    def parse(cls, line: bytes) -> CompactBoundary:
        """The boundary in a line. Raises StorageError (`damaged-file`)."""
        try:
            head, messages = _split_boundary(line)
            return cls(
                line_count=int(head["place"]),
                messages=messages,
                summarized_count=int(head["covered"]),
                answer_count=int(head["answers"]),
                owes_answer=head["owes"] is True,
                interrupted=head["interrupted"] is True,
                delivered_ids=tuple(head["told"]),
                has_older_ids=head["older"] is True,
                queued={str(id): list(content) for id, content in head["queued"].items()},
                prefix=str(head["prefix"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise StorageError("damaged-file", "a line of a compaction cannot be read") from problem


def _split_boundary(line: bytes) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """What a boundary says of itself, and its messages as they were encoded, byte for byte."""
    found = _SIZES.match(line)
    if found is None:
        raise ValueError("sizes")
    sizes = [int(size) for size in found[1].split(b",")]
    at = start = len(line) - sum(sizes) - len(sizes) + 1 - 2
    messages: list[bytes] = []
    for size in sizes:
        messages.append(line[at : at + size])
        at += size + 1
    before = line[: start - len(_MESSAGES)]
    if line[start - len(_MESSAGES) : start] != _MESSAGES:
        raise ValueError("messages")
    return cast("dict[str, Any]", json.loads(before + b"}")), tuple(messages)


def queued_line(id: str, blocks: Sequence[Block]) -> bytes:
    """The line of a message that the agent is told later; whoever appends it is the transcript's one writer."""
    return encode({"type": "queued", "at": iso_time(), "id": id, "content": list(blocks)})


@dataclass(slots=True)
class History:
    """What a transcript comes to: the messages from its last compaction on, and what is still to be done.

    `reported` are the tokens that the service counted with the newest answer, and the number of messages by then;
    `inherited` how many of the messages, the first ones, are those of the agent that a fork was made of.
    """

    header: Mapping[str, Any] = field(default_factory=dict[str, Any])
    items: list[bytes] = field(default_factory=list[bytes])
    lines: int = 0
    queued: dict[str, list[Block]] = field(default_factory=dict[str, "list[Block]"])
    boundary: CompactBoundary | None = None
    owes_answer: bool = False
    has_unanswered: bool = False
    interrupted: bool = False
    reported_tokens: tuple[int, int] = (0, 0)
    later_prefix: str = ""
    """The prefix that was begun behind the last compaction, if one was."""
    inherited_count: int = 0

    @property
    def prefix(self) -> str:
        """The digest of the prefix that is sent."""
        compacted = self.boundary.prefix if self.boundary is not None else ""
        return self.later_prefix or compacted or str(self.header.get("prefix", ""))


def read_history(path: Path, upto: int | None = None) -> History:
    """The transcript from its last compaction on, else all of it. Raises StorageError (`damaged-file`).

    `upto`: as it was when it had so many bytes.
    """
    later: list[bytes] = []
    made = History()
    for line in read_backward(path, upto):
        if line.startswith(_COMPACT):
            made.boundary = CompactBoundary.parse(line)
            break
        later.append(line)
    if made.boundary is not None:
        made.header = read_header(path) or {}
        _apply_boundary(made, made.boundary)
    elif later:
        made.header, made.lines = parse_header(later.pop(), path), 1
    paused, gaps = _read_steps(made, later, path)
    if gaps:
        made.items, made.reported_tokens = bridge_gaps(made.items, gaps), (0, 0)
    _set_owes_answer(made, path, paused=paused)
    return made


def _read_steps(made: History, later: list[bytes], path: Path) -> tuple[bool, list[int]]:
    """Take in the lines, the newest first; whether the last answer paused, and where lines were lost."""
    paused, gaps = False, list[int]()
    while later:  # the newest is first: memory is given back line by line
        line = later.pop()
        if line.startswith(_QUEUED):
            _add_queued(line, made.queued)
            continue
        if line.startswith(_PREFIX):
            _apply_prefix_line(line, made, path)
            continue
        made.lines += 1
        made.interrupted = line.startswith(_INTERRUPT)
        if line.startswith(LOST):
            gaps.append(len(made.items))
        at = line.find(MESSAGE_KEY)
        if at > 0:
            made.items.append(line[at + len(MESSAGE_KEY) : -1])
            made.owes_answer = paused = _PAUSED in line[:at]
            _remove_delivered(line, at, made.queued)
            if line.startswith(ASSISTANT_LINE):
                made.reported_tokens = len(made.items), _reported_tokens(line[:at])
    return paused, gaps


def set_aside_lost_lines(path: Path) -> LostLines | None:
    """Replace the damaged lines behind the last compaction; the history goes on with a note in their place.

    Only the transcript's one writer may call it. None when all lines are whole. Raises StorageError.
    """
    return set_aside_damaged_lines(path, _is_whole, lambda line: line.startswith(_COMPACT), sys.maxsize)


def _is_whole(line: bytes) -> bool:
    try:
        body = json.loads(line)
        if line.startswith(_COMPACT):
            CompactBoundary.parse(line)
        message = body.get("message")
        if line.startswith(_MESSAGE_LINES) and MESSAGE_KEY in line:
            return message["role"] in {"user", "assistant"} and all(block["type"] for block in message["content"])
        return isinstance(body["type"], str) and body["type"] not in {"user", "assistant"}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StorageError):
        return False


def _apply_boundary(made: History, boundary: CompactBoundary) -> None:
    made.items, made.lines = list(boundary.messages), boundary.line_count
    made.queued = dict(boundary.queued)
    made.owes_answer, made.interrupted = boundary.owes_answer, boundary.interrupted


def _apply_prefix_line(line: bytes, made: History, path: Path) -> None:
    """Another prefix from here on: thinking of before is not sent again, and nothing was counted with it yet."""
    try:
        made.later_prefix = str(json.loads(line)["prefix"])
    except (ValueError, KeyError, TypeError) as problem:
        raise StorageError("damaged-file", f"{path}: a line of a new prefix cannot be read") from problem
    made.items, made.reported_tokens = [without_thinking(item) for item in made.items], (0, 0)


def _set_owes_answer(made: History, path: Path, *, paused: bool) -> None:
    """Whether an answer is owed, by the messages behind the last compaction; without any that one knows."""
    boundary, items = made.boundary, made.items
    if boundary is None or len(items) > len(boundary.messages):
        try:
            last = bool(items) and not items[-1].startswith(USER_MESSAGE)
            made.has_unanswered = last and bool(tool_calls(cast("list[Block]", json.loads(items[-1])["content"])))
        except (ValueError, KeyError, TypeError) as problem:
            raise StorageError("damaged-file", f"{path} ends with a line that cannot be read") from problem
        made.owes_answer = bool(items) and (not last or made.has_unanswered or paused)
    made.owes_answer = made.owes_answer and not made.interrupted


def _reported_tokens(head: bytes) -> int:
    """The tokens that an answer came to, by the beginning of its line; 0 when it does not say."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        usage: Mapping[str, Any] = json.loads(head + b"}")["usage"]
        return sum(count for name, count in usage.items() if name.endswith("_tokens"))
    return 0


def _add_queued(line: bytes, queued: dict[str, list[Block]]) -> None:
    """Note a message that waits, from its line; one that cannot be read was never whole."""
    with suppress(ValueError, KeyError, TypeError):
        body = cast("dict[str, Any]", json.loads(line))
        queued[str(body["id"])] = list(body["content"])


def _remove_delivered(line: bytes, at: int, queued: dict[str, list[Block]]) -> None:
    """What this line told does not wait any longer."""
    if queued and INJECTED_KEY in line[:at]:
        for id in _ids(line):
            queued.pop(id, None)


# ── looked up ────────────────────────────────────────────────────────────────────────────────────────────────


def find_delivered_ids(transcript: Path, ids: Collection[str]) -> set[str]:
    """Which of these ids were told, by that transcript; looked up backward, and only as far as needed."""
    wanted = set(ids)
    found: set[str] = set()
    for line in read_backward(transcript) if wanted else ():
        if line.startswith(_COMPACT):
            boundary = CompactBoundary.parse(line)
            found |= wanted.intersection(boundary.delivered_ids)
            if not boundary.has_older_ids:
                break
        elif INJECTED_KEY in line[: line.find(MESSAGE_KEY)]:
            found |= wanted.intersection(_ids(line))
        if found == wanted:
            break
    return found


def newest_delivered_ids(transcript: Path) -> tuple[tuple[str, ...], bool]:
    """The newest ids that were told by now, oldest first, for a boundary; and whether there are older ones."""
    newest: dict[str, None] = {}
    older = False
    for line in read_backward(transcript):
        if line.startswith(_COMPACT):
            boundary = CompactBoundary.parse(line)
            newest |= dict.fromkeys(reversed(boundary.delivered_ids))
            older = boundary.has_older_ids
            break
        if INJECTED_KEY in line[: line.find(MESSAGE_KEY)]:
            newest |= dict.fromkeys(reversed(_ids(line)))
    kept = list(newest)[:MAX_LISTED_IDS]
    return tuple(reversed(kept)), older or len(newest) > len(kept)


def messages_backward(transcript: Path, upto: int | None = None) -> Iterator[bytes]:
    """All encoded messages as they were told and said, the newest first, whatever was compacted. `upto` in bytes."""
    for line in read_backward(transcript, upto):
        if line.startswith(_MESSAGE_LINES) and (at := line.find(MESSAGE_KEY)) > 0:
            yield line[at + len(MESSAGE_KEY) : -1]


def count_calls_without_result(transcript: Path) -> int:
    """How many calls of the newest answer have no result: what a kill in the middle of a round leaves."""
    steps = (line for line in read_backward(transcript) if not line.startswith((_QUEUED, _COMPACT, _PREFIX)))
    last = next(steps, b"")
    at = last.find(MESSAGE_KEY)
    item = last[at + len(MESSAGE_KEY) : -1] if at > 0 else USER_MESSAGE
    return 0 if item.startswith(USER_MESSAGE) else len(tool_calls(cast("list[Block]", json.loads(item)["content"])))


def parse_header(line: bytes, path: Path) -> Mapping[str, Any]:
    """The first line of a transcript. Raises StorageError for a file that is none, or from a newer version."""
    try:
        header = cast("dict[str, Any]", json.loads(line))
        version = int(header["v"])
        if header["type"] != "header":
            raise KeyError("type")
    except (ValueError, KeyError, TypeError) as problem:
        raise StorageError("damaged-file", f"{path} does not begin like a transcript") from problem
    if version > FORK_SCHEMA:
        raise StorageError("damaged-file", f"{path} was written by a newer version (format {version})")
    return header


def read_header(path: Path) -> Mapping[str, Any] | None:
    """The header of a transcript file, or None when there is none to read."""
    first = next(iter(read_lines(path)), None)
    return None if first is None else parse_header(first, path)


def header_tag_key(header: Mapping[str, Any]) -> str:
    """The key of the runtime's tags in a transcript; empty in one of an earlier version."""
    return str(header.get(TAG_KEY) or "")


def without_thinking(item: bytes) -> bytes:
    """An answer as it is kept: thinking is bound to what stood before it, and that is no more."""
    if item.startswith(USER_MESSAGE) or b"thinking" not in item:
        return item
    message = cast("dict[str, Any]", json.loads(item))
    content = cast("list[Block]", message["content"])
    left = [block for block in content if block.get("type") not in _THOUGHTS]
    if len(left) == len(content):
        return item
    return encode({**message, "content": left or [text_block("(no words)")]})


def _ids(line: bytes) -> list[str]:
    with suppress(ValueError, AttributeError):  # a damaged line tells no ids
        return cast("list[str]", json.loads(line).get("injected", ()))
    return []
