"""Transcripts on disk: their lines, and reading them backward as far as the last compaction.

The lines of a conversation are never changed. The line of a compaction has the messages with which the conversation
continues. Depends on JSONL files and encoded messages. Format: docs/reference/formats/transcript.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec.json
from msgspec import Struct, field

from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import is_uuid, iso_time
from teamwright.protocol.messages import Block, ToolCall, bridge_gaps, encode, text_block, tool_calls, with_own_ids
from teamwright.protocol.runtime_tags import is_note
from teamwright.storage.json_lines import LOST, LostLines, read_backward, read_lines, set_aside_damaged_lines

SCHEMA = 1
"""The version of the transcript's lines."""
FORK_SCHEMA = 2
"""The version of a fork's transcript: its history begins in another file. Newer versions are refused."""

TAG_KEY = "tag_key"
"""The key, in the first line, of the runtime tags' key."""

WORKTREE_KEY = "worktree"
"""The key of the session's worktree in that line: its name, and the directory in it in which agents work."""

MESSAGE_KEY = b',"message":'
"""The bytes before the message of a line, which is its last part."""
USER_MESSAGE = b'{"role":"user"'
"""The beginning of an encoded user message."""
ASSISTANT_LINE = b'{"type":"assistant"'
"""The beginning of a line with an answer of the agent."""
INJECTED_KEY = b'"injected":'
USER_LINE = b'{"type":"user"'
"""The beginning of a line with input of the agent."""
_MESSAGE_LINES = (USER_LINE, ASSISTANT_LINE)
_UUID = re.compile(rb'\{"type":"(?:user|assistant)","uuid":"([^"]*)"')
PROMPT_ID = "prompt:"
"""The beginning of the id of a prompt."""
_NOTES_KEY = b',"notes":['
_BEFORE = re.compile(rb',"before":([0-9]+)\Z')
_RESULT_ITEM = b'{"role":"user","content":[{"type":"tool_result"'
_TEXT_ITEM = b'{"role":"user","content":[{"type":"text","text":"'
_PLAIN_MESSAGE = b'{"role":"user","content":"'
_INTERRUPT = b'{"type":"interrupt"'
QUEUED_LINE = b'{"type":"queued"'
"""The beginning of a line with a message for later delivery."""
REWIND = "rewind"
"""The trigger of a rewind in the line of a compaction."""
_COMPACT = b'{"type":"compact"'
_PREFIX = b'{"type":"prefix"'
_SIZES = re.compile(rb'\{"type":"compact","sizes":\[([0-9]+(?:,[0-9]+)*)?\]')
_MESSAGES = b',"messages":['
_PAUSED = b'"stop_reason":"pause_turn"'
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})

MAX_LISTED_IDS = 1_064
"""The most ids in a compaction line: the limit of unread mail in an inbox. Older ids are found in earlier lines."""


class CompactBoundary(Struct, frozen=True):
    """The line of a compaction. The conversation continues with its encoded `messages`:

    a summary, and messages after it. `line_count` is the number of steps before it, `summarized_count` the number of
    messages that the summary replaces, `answer_count` the number of answers among them. `delivered_ids` are the newest
    ids delivered before, `has_older_ids` says that there are others; `queued` are messages still waiting; `prefix` is
    the digest of the prefix from now on.
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
    parent: str = ""
    """The uuid of the message that the next one follows; empty when the conversation begins again."""

    def encode_line(self, about: Mapping[str, Any]) -> bytes:
        """Encode the line; `about` adds fields for readers."""
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
            "parent": self.parent,
            "queued": self.queued,
        }
        return _join_boundary(known, self.messages)

    @classmethod
    def parse(cls, line: bytes) -> CompactBoundary:
        """Parse the compaction in a line. Raises StorageError (`damaged-file`)."""
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
                parent=str(head.get("parent", "")),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise StorageError("damaged-file", "a line of a compaction cannot be read") from problem


def _split_boundary(line: bytes) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """Return the fields of a compaction line, and its messages byte for byte."""
    found = _SIZES.match(line)
    if found is None:
        raise ValueError("sizes")
    sizes = [int(size) for size in (found[1] or b"").split(b",") if size]
    at = start = len(line) - sum(sizes) - max(0, len(sizes) - 1) - len(b"]}")
    messages: list[bytes] = []
    for size in sizes:
        messages.append(line[at : at + size])
        at += size + 1
    before = line[: start - len(_MESSAGES)]
    if line[start - len(_MESSAGES) : start] != _MESSAGES:
        raise ValueError("messages")
    return cast("dict[str, Any]", json.loads(before + b"}")), tuple(messages)


def compact_line(entry: Mapping[str, Any]) -> bytes:
    """Return the line of a compaction from its parsed fields, as `CompactBoundary.encode_line` writes it."""
    messages = [encode({"role": one["role"], "content": one["content"]}) for one in entry["messages"]]
    about = {name: value for name, value in entry.items() if name not in {"type", "sizes", "messages"}}
    return _join_boundary(about, messages)


def _join_boundary(about: Mapping[str, Any], messages: Sequence[bytes]) -> bytes:
    sizes = ",".join(str(len(message)) for message in messages).encode()
    head = b"".join((_COMPACT, b',"sizes":[', sizes, b"],", encode(about)[1:-1]))
    return b"".join((head, _MESSAGES, b",".join(messages), b"]}"))


def message_links(session: str, uuid: str, parent: str) -> dict[str, str | None]:
    """Return the fields by which other programs put the messages of a transcript in order."""
    return {"uuid": uuid, "parentUuid": parent or None, "sessionId": session}


def prompt_uuid(ids: Sequence[str]) -> str:
    """Return the uuid of the first prompt among the ids of a message; empty when it has none.

    So a client finds its prompt by the uuid that it gave it.
    """
    prompts = (id.removeprefix(PROMPT_ID) for id in ids if id.startswith(PROMPT_ID))
    return next(filter(is_uuid, prompts), "")


def answer_line(links: Mapping[str, str | None], about: Mapping[str, Any], item: bytes) -> bytes:
    """Return the line of an answer; `item` is the encoded message, `about` are other fields."""
    head = encode({"type": "assistant", **links, "at": iso_time(), **about})
    return b"".join((head[:-1], MESSAGE_KEY, item, b"}"))


def user_line(links: Mapping[str, str | None], ids: Sequence[str], blocks: Sequence[Block], item: bytes) -> bytes:
    """Return the line of a user message; `item` is the encoded message with these blocks.

    A text to which the runtime added notes is stored as text, as other programs read it, with the notes before it.
    """
    notes, message = _split_notes(blocks, item)
    injected = {"injected": ids} if ids else {}
    head = encode({"type": "user", **links, "at": iso_time(), **injected})
    return b"".join((head[:-1], notes, MESSAGE_KEY, message, b"}"))


def _split_notes(blocks: Sequence[Block], item: bytes) -> tuple[bytes, bytes]:
    """Return the keys with the runtime's notes, and the message without them: a text, if the rest is one."""
    if item.startswith(_RESULT_ITEM):
        return b"", item
    said = [at for at, block in enumerate(blocks) if not is_note(block)]
    # A client's block may have more keys, or another order of them: what is read again must be the same bytes.
    if len(said) != 1 or list(text := blocks[said[0]]) != ["type", "text"] or text["type"] != "text":
        return b"", item
    if len(blocks) == 1 and item.startswith(_TEXT_ITEM):  # then the text is encoded already
        return b"", b"".join((_PLAIN_MESSAGE, item[len(_TEXT_ITEM) : -len(b"}]}")], b"}"))
    before = f',"before":{said[0]}'.encode() if said[0] else b""
    rest = [*blocks[: said[0]], *blocks[said[0] + 1 :]]
    notes = b"".join((before, _NOTES_KEY, encode(rest)[1:])) if rest else b""
    return notes, encode({"role": "user", "content": text["text"]})


def line_message(line: bytes, at: int) -> bytes:
    """Return the encoded message of a line, as a request has it; `at` is the position of its key."""
    start = at + len(MESSAGE_KEY)
    if not line.startswith(_PLAIN_MESSAGE, start):
        return line[start:-1]
    text = line[start + len(_PLAIN_MESSAGE) : -len(b'"}}')]
    notes_at = line.find(_NOTES_KEY, 0, at)
    if notes_at < 0:
        return b"".join((_TEXT_ITEM, text, b'"}]}'))
    blocks = [b"".join((b'{"type":"text","text":"', text, b'"}')), line[notes_at + len(_NOTES_KEY) : at - 1]]
    if (found := _BEFORE.search(line[:notes_at])) is not None:
        notes = [encode(note) for note in json.loads(b"[" + blocks[1] + b"]")]
        count = int(found[1])
        blocks = [*notes[:count], blocks[0], *notes[count:]]
    return b"".join((b'{"role":"user","content":[', b",".join(blocks), b"]}"))


def line_blocks(line: bytes) -> list[Block]:
    """Return the blocks of a line's message. Raises ValueError, KeyError or TypeError for a line without them."""
    at = line.find(MESSAGE_KEY)
    if at < 0:
        raise ValueError("a line without a message")
    return list(json.loads(line_message(line, at))["content"])


def line_uuid(line: bytes) -> str:
    """Return the uuid of a line with a message; empty for one of an earlier version."""
    found = _UUID.match(line)
    return found[1].decode() if found is not None else ""


def queued_line(id: str, blocks: Sequence[Block]) -> bytes:
    """Return the line of a message that the agent receives later. Only the transcript's one writer may append it."""
    return encode({"type": "queued", "at": iso_time(), "id": id, "content": list(blocks)})


class History(Struct):
    """The state that a transcript describes: the messages from its last compaction on, and the work that is open.

    `reported_tokens` are the tokens that the service counted with the newest answer, and the number of messages then.
    `inherited_count` is the number of messages, the first ones, that a fork has from its caller.
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
    """The prefix that was set after the last compaction, if any."""
    inherited_count: int = 0
    newest_uuid: str = ""
    """The uuid of the newest message, which the next one follows."""

    @property
    def prefix(self) -> str:
        """The digest of the prefix that is sent."""
        compacted = self.boundary.prefix if self.boundary is not None else ""
        return self.later_prefix or compacted or str(self.header.get("prefix", ""))


def read_history(path: Path, upto: int | None = None) -> History:
    """Read a transcript from its last compaction on, else all of it. Raises StorageError (`damaged-file`).

    `upto`: read only that many bytes.
    """
    later: list[bytes] = []
    history = History()
    for line in read_backward(path, upto):
        if line.startswith(_COMPACT):
            history.boundary = CompactBoundary.parse(line)
            break
        later.append(line)
    if history.boundary is not None:
        history.header = read_header(path) or {}
        history.items = list(history.boundary.messages)
        history.lines = history.boundary.line_count
        history.queued = dict(history.boundary.queued)
        history.owes_answer = history.boundary.owes_answer
        history.interrupted = history.boundary.interrupted
        history.newest_uuid = history.boundary.parent
    elif later:
        history.header = parse_header(later.pop(), path)
        history.lines = 1
    paused, gaps = _read_steps(history, later, path)
    if gaps:
        history.items = bridge_gaps(history.items, gaps)
        history.reported_tokens = (0, 0)
    _set_owes_answer(history, path, paused=paused)
    return history


def _read_steps(history: History, later: list[bytes], path: Path) -> tuple[bool, list[int]]:
    """Add the lines, the newest first. Return whether the last answer paused, and the positions of damaged lines."""
    paused = False
    gaps = list[int]()
    answer, count = b"", 0
    newest = b""
    while later:  # the newest is first: memory is freed line by line
        line = later.pop()
        if line.startswith(QUEUED_LINE):
            # An unreadable line was never complete.
            with suppress(ValueError, KeyError, TypeError):
                body = cast("dict[str, Any]", json.loads(line))
                history.queued[str(body["id"])] = list(body["content"])
            continue
        if line.startswith(_PREFIX):
            _apply_prefix_line(line, history, path)
            answer = b""  # no tokens are counted with the new prefix yet
            continue
        history.lines += 1
        history.interrupted = line.startswith(_INTERRUPT)
        if line.startswith(LOST):
            gaps.append(len(history.items))
        at = line.find(MESSAGE_KEY)
        if at > 0:
            history.items.append(line_message(line, at))
            newest = line
            if history.queued and INJECTED_KEY in line[:at]:
                for id in line_ids(line):
                    history.queued.pop(id, None)
            if line.startswith(ASSISTANT_LINE):
                answer, count = line, len(history.items)
    if answer:
        history.reported_tokens = count, _reported_tokens(answer[: answer.find(MESSAGE_KEY)])
    if newest:
        history.newest_uuid = line_uuid(newest)
        history.owes_answer = paused = _PAUSED in newest[: newest.find(MESSAGE_KEY)]
    return paused, gaps


def set_aside_lost_lines(path: Path) -> LostLines | None:
    """Replace the damaged lines after the last compaction. The history continues with a note in their place.

    Only the transcript's one writer may call it. Return None when no line is damaged. Raises StorageError.
    """
    return set_aside_damaged_lines(path, _is_whole, lambda line: line.startswith(_COMPACT), sys.maxsize)


def _is_whole(line: bytes) -> bool:
    try:
        body = _parse(line)
        if line.startswith(_COMPACT):
            CompactBoundary.parse(line)
        message = body.get("message")
        if line.startswith(_MESSAGE_LINES) and MESSAGE_KEY in line:
            has_content = _is_text(message) or all(block["type"] for block in message["content"])
            return message["role"] in {"user", "assistant"} and has_content
        return isinstance(body["type"], str) and body["type"] not in {"user", "assistant"}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StorageError):
        return False


def _is_text(message: Mapping[str, Any]) -> bool:
    """Return True for a message that is stored as text."""
    return message["role"] == "user" and isinstance(message["content"], str)


def _parse(line: bytes) -> Any:
    """Return the value of a line, also of one that only the slower parser accepts. Raises ValueError."""
    with suppress(ValueError):
        return msgspec.json.decode(line)
    return json.loads(line)


def _apply_prefix_line(line: bytes, history: History, path: Path) -> None:
    """Apply a new prefix: earlier thinking and other blocks of a service are not sent again."""
    try:
        history.later_prefix = str(json.loads(line)["prefix"])
    except (ValueError, KeyError, TypeError) as problem:
        raise StorageError("damaged-file", f"{path}: a line of a new prefix cannot be read") from problem
    history.items = repaired_messages(history.items)


def _set_owes_answer(history: History, path: Path, *, paused: bool) -> None:
    """Set whether an answer is owed, from the messages after the last compaction, or from it when there are none."""
    boundary, items = history.boundary, history.items
    if boundary is None or len(items) > len(boundary.messages):
        try:
            last = bool(items) and not items[-1].startswith(USER_MESSAGE)
            history.has_unanswered = last and bool(tool_calls(cast("list[Block]", json.loads(items[-1])["content"])))
        except (ValueError, KeyError, TypeError) as problem:
            raise StorageError("damaged-file", f"{path} ends with a line that cannot be read") from problem
        history.owes_answer = bool(items) and (not last or history.has_unanswered or paused)
    history.owes_answer = history.owes_answer and not history.interrupted


def _reported_tokens(head: bytes) -> int:
    """Return the tokens that an answer reports at the beginning of its line; 0 without a count."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        usage: Mapping[str, Any] = json.loads(head + b"}")["usage"]
        return sum(count for name, count in usage.items() if name.endswith("_tokens"))
    return 0


# ── lookup ────────────────────────────────────────────────────────────────────────────────────────────────


def find_delivered_ids(transcript: Path, ids: Collection[str]) -> set[str]:
    """Return which of these ids the transcript has delivered. It is searched backward, only as far as needed."""
    searched_ids = set(ids)
    found: set[str] = set()
    for line in read_backward(transcript) if searched_ids else ():
        if line.startswith(_COMPACT):
            boundary = CompactBoundary.parse(line)
            found |= searched_ids.intersection(boundary.delivered_ids)
            if not boundary.has_older_ids:
                break
        elif INJECTED_KEY in line[: line.find(MESSAGE_KEY)]:
            found |= searched_ids.intersection(line_ids(line))
        if found == searched_ids:
            break
    return found


def newest_delivered_ids(transcript: Path) -> tuple[tuple[str, ...], bool]:
    """Return the newest delivered ids for a compaction line, oldest first, and whether there are older ones."""
    newest: dict[str, None] = {}
    older = False
    for line in read_backward(transcript):
        if line.startswith(_COMPACT):
            boundary = CompactBoundary.parse(line)
            newest |= dict.fromkeys(reversed(boundary.delivered_ids))
            older = boundary.has_older_ids
            break
        if INJECTED_KEY in line[: line.find(MESSAGE_KEY)]:
            newest |= dict.fromkeys(reversed(line_ids(line)))
    listed_ids = list(newest)[:MAX_LISTED_IDS]
    return tuple(reversed(listed_ids)), older or len(newest) > len(listed_ids)


def messages_backward(transcript: Path, upto: int | None = None) -> Iterator[bytes]:
    """Return all encoded messages, the newest first, those before compactions included. `upto` is in bytes."""
    for line in read_backward(transcript, upto):
        if line.startswith(_MESSAGE_LINES) and (at := line.find(MESSAGE_KEY)) > 0:
            yield line_message(line, at)


def shown_messages_backward(transcript: Path) -> Iterator[bytes]:
    """Return the encoded messages that a person is shown, the newest first: all but those that a rewind took back."""
    for line in read_backward(transcript):
        if line.startswith(_COMPACT) and _split_boundary(line)[0].get("trigger") == REWIND:
            yield from reversed(CompactBoundary.parse(line).messages)
            return
        if line.startswith(_MESSAGE_LINES) and (at := line.find(MESSAGE_KEY)) > 0:
            yield line_message(line, at)


def calls_without_result(transcript: Path) -> list[ToolCall]:
    """Return the calls of the newest answer that have no result, as after a kill between them."""
    steps = (line for line in read_backward(transcript) if not line.startswith((QUEUED_LINE, _COMPACT, _PREFIX)))
    last = next(steps, b"")
    at = last.find(MESSAGE_KEY)
    item = line_message(last, at) if at > 0 else USER_MESSAGE
    return [] if item.startswith(USER_MESSAGE) else tool_calls(cast("list[Block]", json.loads(item)["content"]))


def parse_header(line: bytes, path: Path) -> Mapping[str, Any]:
    """Parse the first line of a transcript. Raises StorageError for another file or a newer version."""
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
    """Return the header of a transcript file, or None when there is no readable one."""
    first = next(iter(read_lines(path)), None)
    return None if first is None else parse_header(first, path)


def header_tag_key(header: Mapping[str, Any]) -> str:
    """Return the key of the runtime's tags; empty in a transcript of an earlier version."""
    return str(header.get(TAG_KEY) or "")


def without_thinking(item: bytes) -> bytes:
    """Return an answer without thinking blocks, which are valid only after the messages they came from."""
    if item.startswith(USER_MESSAGE) or b"thinking" not in item:
        return item
    message = cast("dict[str, Any]", json.loads(item))
    content = cast("list[Block]", message["content"])
    return _with_blocks(item, message, [block for block in content if block.get("type") not in _THOUGHTS])


def _with_text_and_calls(item: bytes) -> bytes:
    """Return an answer without blocks of other kinds: thinking, and what only one service or one key accepts."""
    if item.startswith(USER_MESSAGE):
        return item
    message = cast("dict[str, Any]", json.loads(item))
    content = cast("list[Block]", message["content"])
    return _with_blocks(item, message, [block for block in content if block.get("type") in ("text", "tool_use")])


def _with_blocks(item: bytes, message: Mapping[str, Any], left: Sequence[Block]) -> bytes:
    if len(left) == len(message["content"]):
        return item
    return encode({**message, "content": left or [text_block("(no words)")]})


def repaired_messages(items: Sequence[bytes]) -> list[bytes]:
    """Return the messages as a service accepts them that refused them before: answers have text and calls alone, each
    call with an id that no other call has.

    A message without a fault is returned as the same object.
    """
    used_ids: set[str] = set()
    renamed: dict[str, str] = {}
    repaired: list[bytes] = []
    for item in map(_with_text_and_calls, items):
        if item.startswith(USER_MESSAGE):
            item, renamed = _with_renamed_results(item, renamed) if renamed else item, {}
        elif b'"tool_use"' in item:
            message = cast("dict[str, Any]", json.loads(item))
            before: list[Block] = message["content"]
            content = with_own_ids(before, used_ids)
            changes = [(old["id"], new["id"]) for old, new in zip(before, content, strict=True) if old is not new]
            renamed = dict(changes)
            used_ids |= {call.id for call in tool_calls(content)}
            item = encode({**message, "content": content}) if renamed else item
        repaired.append(item)
    return repaired


def _with_renamed_results(item: bytes, renamed: Mapping[str, str]) -> bytes:
    message = cast("dict[str, Any]", json.loads(item))
    content: list[Block] = message["content"]
    results = [
        block | {"tool_use_id": renamed[block["tool_use_id"]]} if block.get("tool_use_id") in renamed else block
        for block in content
    ]
    return encode({**message, "content": results})


def line_ids(line: bytes) -> list[str]:
    """Return the ids that a line delivers."""
    with suppress(ValueError, AttributeError):  # a damaged line has no ids
        return cast("list[str]", json.loads(line).get("injected", ()))
    return []
