"""One agent's conversation: a transcript on disk that is the ledger of what was seen, and its encoded history.

Written before anything depends on it: a line is in the file first and in memory after. Knows `storage.jsonl`,
the prefix as a value, and blocks; knows no model, no tool and no inbox. Format: docs/formats/transcript.md.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from teamwright.models.model import Prefix, Reply
from teamwright.protocol.blocks import Block, ToolCall, encode, text_of, tool_calls, tool_result_block
from teamwright.protocol.clock import iso
from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import keyed_id
from teamwright.storage.jsonl import Journal, read_backward, read_lines

SCHEMA = 1
"""Version of the transcript's lines."""

_MESSAGE = b',"message":'
_USER = b'{"role":"user"'
_INTERRUPT = b'{"type":"interrupt"'
_QUEUED = b'{"type":"queued"'
PAUSED = "pause_turn"
"""The `stop_reason` of an answer that the model goes on with when it is asked again."""
_PAUSED = b'"stop_reason":"pause_turn"'
INTERRUPTED = "The call was interrupted before it ended; what it did until then stays done."


@dataclass(frozen=True, slots=True)
class Told:
    """What an agent is told in one user line: tool results first, then texts; and the ids that it carries."""

    blocks: tuple[Block, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(slots=True)
class Conversation:
    """The history of one agent. Make one with `start` or `load`.

    `items` are the encoded messages, oldest first: hand them to a Request as they are. `owes_round` is true when
    the last thing told, or asked of a tool, has no complete answer behind it, unless a person `interrupted` it: then it
    goes along with what is told next. `lines` counts those of the file but for
    `queued` ones. `queued` are messages by id that the transcript has and the agent was not told yet.
    """

    path: Path
    prefix: Prefix
    header: Mapping[str, Any]
    items: list[bytes] = field(default_factory=list[bytes])
    owes_round: bool = False
    interrupted: bool = False
    lines: int = 0
    queued: dict[str, list[Block]] = field(default_factory=dict[str, "list[Block]"])
    _journal: Journal | None = None
    _unanswered: bool = False
    _closed: bool = False

    @classmethod
    def start(cls, path: Path, prefix: Prefix, about: Mapping[str, Any]) -> Conversation:
        """A new conversation. `about` goes into the first line: session, member, agent id, team, cwd, model.

        Raises StorageError when there is one already, or the disk will not take it.
        """
        if path.exists() and read_header(path) is not None:
            raise StorageError("damaged-file", f"{path} exists already", note="nothing was changed")
        header = {"type": "header", "v": SCHEMA, "at": iso(), "prefix": prefix.digest, **about}
        made = cls(path, prefix, header)
        made._append(encode(header))
        return made

    @classmethod
    def load(cls, path: Path, prefix: Prefix) -> Conversation:
        """A conversation from its file: a torn end is cut; calls that have no result yet are its `unanswered`.

        Raises StorageError (`damaged-file`) when the first line is not a header that we can read.
        """
        journal = Journal.open(path)
        header: Mapping[str, Any] = {}
        items: list[bytes] = []
        queued: dict[str, list[Block]] = {}
        number, beside, interrupted, paused = -1, 0, False, False
        for number, line in enumerate(read_lines(path)):
            if number == 0:
                header = parse_header(line, path)
                continue
            if line.startswith(_QUEUED):
                _wait(line, queued)
                beside += 1
                continue
            at = line.find(_MESSAGE)
            interrupted = at < 0 and line.startswith(_INTERRUPT)
            if at > 0:
                items.append(line[at + len(_MESSAGE) : -1])
                paused = _PAUSED in line[:at]
                if queued:
                    _told(line, at, queued)
        made = cls(path, prefix, header, items, lines=number + 1 - beside, queued=queued, _journal=journal)
        try:
            made._unanswered = bool(items) and not items[-1].startswith(_USER) and bool(tool_calls(made.last_content()))
        except (ValueError, KeyError, TypeError) as problem:
            raise StorageError("damaged-file", f"{path} ends with a line that cannot be read") from problem
        owes = bool(items) and (items[-1].startswith(_USER) or made._unanswered or paused)
        made.owes_round = owes and not interrupted
        made.interrupted = interrupted
        return made

    def interrupt(self) -> None:
        """A person cut the turn short: nothing is owed until something is told, also after a kill.

        Raises StorageError.
        """
        if self.owes_round:
            self._append(encode({"type": "interrupt", "at": iso()}))
            self.owes_round, self.interrupted = False, True

    def queue(self, id: str, blocks: Sequence[Block]) -> None:
        """Append a message that the agent is told later: it is delivered, also through a kill. Raises StorageError."""
        self._append(encode({"type": "queued", "at": iso(), "id": id, "content": list(blocks)}))
        self.lines -= 1  # it is no step of the conversation: names of places in it stay as they are
        self.queued[id] = list(blocks)

    @property
    def answers(self) -> int:
        """How many answers the agent gave: model calls that went well."""
        return sum(not item.startswith(_USER) for item in self.items)

    def unanswered(self) -> list[ToolCall]:
        """The calls of the newest answer, when none of them has a result yet."""
        return tool_calls(self.last_content()) if self._unanswered else []

    def key(self, what: str) -> str:
        """A name for what happens at this place of the conversation: the same one when it is loaded again.

        What is done under such a name can be looked for after a kill, and is done once.
        """
        return keyed_id(self.header.get("session"), self.path.stem, self.lines, what)

    def tell(self, told: Told) -> None:
        """Append what the agent is told; memory only after the file has it. Raises StorageError.

        Calls whose results never reached the file get one first, saying so: no request may lack a result.
        """
        if self._unanswered and told.blocks[0]["type"] != "tool_result":
            self._repair()
        item = encode({"role": "user", "content": told.blocks})
        ids = b',"injected":' + encode(told.ids) if told.ids else b""
        self._append(b'{"type":"user","at":"' + iso().encode() + b'"' + ids + _MESSAGE + item + b"}")
        self.items.append(item)
        for id in told.ids if self.queued else ():
            self.queued.pop(id, None)
        self.owes_round, self.interrupted = True, False
        self._unanswered = False

    def reply(self, reply: Reply) -> None:
        """Append a whole answer. Raises StorageError."""
        item = encode({"role": "assistant", "content": reply.content})
        about = encode(
            {
                "type": "assistant",
                "at": iso(),
                "model": reply.model,
                "stop_reason": reply.stop_reason,
                "request_id": reply.request_id,
                "usage": {**reply.usage.as_json(), "usd": reply.usage.usd},
            }
        )
        self._append(about[:-1] + _MESSAGE + item + b"}")
        self.items.append(item)
        self.owes_round = reply.stop_reason == PAUSED
        self._unanswered = any(block["type"] == "tool_use" for block in reply.content)

    def holds(self, ids: Collection[str]) -> set[str]:
        """Which of these ids the transcript has; looked up backward, and only as far as needed."""
        return ids_held(self.path, ids)

    def last_content(self) -> list[Block]:
        """The blocks of the newest message, or none."""
        return cast("list[Block]", json.loads(self.items[-1])["content"]) if self.items else []

    def said_since(self, number: int) -> str:
        """The newest text that the agent said among the messages from this number on; empty when it said none."""
        for item in reversed(self.items[number:]):
            if item.startswith(b'{"role":"assistant"'):
                text = text_of(cast("list[Block]", json.loads(item)["content"]))
                if text:
                    return text
        return ""

    def close(self) -> None:
        """Close the file: from now on it takes no line. The conversation can be loaded again."""
        self._closed = True
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _append(self, line: bytes) -> None:
        if self._closed:
            # Whoever still speaks is of a life that is over: what it says is not said.
            raise StorageError("io-failed", f"the conversation in {self.path} is closed", note="nothing was written")
        if self._journal is None:
            self._journal = Journal.open(self.path)
        self._journal.append(line)
        self.lines += 1

    def _repair(self) -> None:
        """Answer calls that nobody answered: the next request needs a result for each."""
        calls = self.unanswered()
        if calls:
            self.tell(Told(tuple(tool_result_block(call.id, INTERRUPTED, is_error=True) for call in calls)))


def _wait(line: bytes, queued: dict[str, list[Block]]) -> None:
    """Note a message that waits, from its line; one that cannot be read was never whole."""
    with suppress(ValueError, KeyError, TypeError):
        body = cast("dict[str, Any]", json.loads(line))
        queued[str(body["id"])] = list(body["content"])


def _told(line: bytes, at: int, queued: dict[str, list[Block]]) -> None:
    """What this line told does not wait any longer."""
    if b'"injected":' in line[:at]:
        for id in cast("list[str]", json.loads(line).get("injected", ())):
            queued.pop(id, None)


def ids_held(transcript: Path, ids: Collection[str]) -> set[str]:
    """Which of these ids were told, by that transcript; looked up backward, and only as far as needed."""
    wanted = set(ids)
    found: set[str] = set()
    if not wanted:
        return found
    for line in read_backward(transcript):
        if b'"injected":' not in line[: line.find(_MESSAGE)]:
            continue
        found |= wanted.intersection(cast("list[str]", json.loads(line).get("injected", ())))
        if found == wanted:
            break
    return found


def calls_without_result(transcript: Path) -> int:
    """How many calls of the newest answer have no result: what a kill in the middle of a round leaves."""
    lines = (line for line in read_backward(transcript) if not line.startswith(_QUEUED))
    last = next(lines, b"")
    at = last.find(_MESSAGE)
    item = last[at + len(_MESSAGE) : -1] if at > 0 else _USER
    return 0 if item.startswith(_USER) else len(tool_calls(cast("list[Block]", json.loads(item)["content"])))


def parse_header(line: bytes, path: Path) -> Mapping[str, Any]:
    """The first line of a transcript. Raises StorageError for a file that is none, or from a newer version."""
    try:
        header = cast("dict[str, Any]", json.loads(line))
        version = int(header["v"])
        if header["type"] != "header":
            raise KeyError("type")
    except (ValueError, KeyError, TypeError) as problem:
        raise StorageError("damaged-file", f"{path} does not begin like a transcript") from problem
    if version > SCHEMA:
        raise StorageError("damaged-file", f"{path} was written by a newer version (format {version})")
    return header


def read_header(path: Path) -> Mapping[str, Any] | None:
    """The header of a transcript file, or None when there is none to read."""
    first = next(iter(read_lines(path)), None)
    return None if first is None else parse_header(first, path)
