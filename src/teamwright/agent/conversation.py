"""One agent's conversation: a transcript on disk that is the ledger of what was seen, and its encoded history.

Written before anything depends on it: a line is in the file first and in memory after. Knows `storage.jsonl`,
the prefix as a value, and blocks; knows no model, no tool and no inbox. Format: docs/formats/transcript.md.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from teamwright.agent.fork import ForkOrigin, all_messages_backward, count_answers, read_conversation
from teamwright.agent.transcript import (
    FORK_SCHEMA,
    MESSAGE_KEY,
    SCHEMA,
    TAG_KEY,
    USER_MESSAGE,
    CompactBoundary,
    History,
    find_delivered_ids,
    header_tag_key,
    newest_delivered_ids,
    queued_line,
    read_header,
    without_thinking,
)
from teamwright.models.model import Prefix, Reply
from teamwright.protocol.clock import iso_time
from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import keyed_id
from teamwright.protocol.message_xml import RuntimeTags
from teamwright.protocol.messages import Block, ToolCall, decode, encode, message_text, tool_calls, tool_result_block
from teamwright.protocol.values import dataclass
from teamwright.storage.jsonl import Journal
from teamwright.storage.lost_lines import LostLines

PAUSE_TURN = "pause_turn"
"""The `stop_reason` of an answer that the model goes on with when it is asked again."""
INTERRUPTED_RESULT = "The call was interrupted before it ended; what it did until then stays done."
CALLERS_RESULT = "The result of this call went to the agent that made it."
"""What stands for the result of every call that a fork's caller made in the answer that began it: the same for all."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What an agent is told in one user line: tool results first, then texts; and the ids that it carries."""

    blocks: tuple[Block, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(slots=True)
class Conversation:
    """The history of one agent. Make one with `start` or `load`.

    `items` are the encoded messages, oldest first: hand them to a Request as they are. `owes_round` is true when
    the last thing told, or asked of a tool, has no complete answer behind it, unless a person `interrupted` it: then it
    goes along with what is told next. `lines` counts those of the file that are a step of it: all but those that queue
    a message, those of compactions and of prefixes. `queued` are messages by id that the transcript has and the agent
    was not told yet. `reported`: so many messages came to so many tokens, by the service's own count; 0 when it told
    none.
    `inherited`: so many of the items, the first ones, are the history of the agent that a fork was made of.
    """

    path: Path
    prefix: Prefix
    header: Mapping[str, Any]
    items: list[bytes] = field(default_factory=list[bytes])
    owes_answer: bool = False
    interrupted: bool = False
    lines: int = 0
    queued: dict[str, list[Block]] = field(default_factory=dict[str, "list[Block]"])
    reported_tokens: tuple[int, int] = (0, 0)
    inherited_count: int = 0
    lost_lines: LostLines | None = None
    """Damaged lines that were set aside when it was loaded."""
    _summarized_count: int = 0
    _folded_answers: int = 0
    _journal: Journal | None = None
    _has_unanswered: bool = False
    _closed: bool = False
    _header_line: bytes = b""
    """The first line, while it waits for the second."""

    @classmethod
    def start(cls, path: Path, prefix: Prefix, about: Mapping[str, Any], *, with_next: bool = False) -> Conversation:
        """A new conversation. `about` goes into the first line: session, member, agent id, team, cwd, model.

        `with_next`: that line is written together with the one behind it, and there is no file before; the path is
        known to be free then. Raises StorageError when there is one already, or the disk will not take it.
        """
        if not with_next and os.path.exists(path) and read_header(path) is not None:
            raise StorageError("damaged-file", f"{path} exists already", note="nothing was changed")
        header = {"type": "header", "v": SCHEMA, "at": iso_time(), "prefix": prefix.digest, **about}
        made = cls(path, prefix, header)
        if with_next:
            made._header_line, made.lines = encode(header), 1
        else:
            made._append(encode(header))
        return made

    @classmethod
    def load(cls, path: Path, prefix: Prefix) -> Conversation:
        """A conversation from its file: a torn end is cut; calls that have no result yet are its `unanswered`.

        Raises StorageError (`damaged-file`) when the first line is not a header that we can read.
        """
        history = read_conversation(path)
        return cls.from_history(path, prefix, Journal.open(path), history)

    @classmethod
    def from_history(cls, path: Path, prefix: Prefix, journal: Journal, history: History) -> Conversation:
        """A conversation from what was read of its file."""
        made = cls(path, prefix, history.header, history.items, history.owes_answer, history.interrupted, history.lines)
        made.queued, made.reported_tokens, made._journal = history.queued, history.reported_tokens, journal
        made._has_unanswered, made.inherited_count = history.has_unanswered, history.inherited_count
        made._folded_answers = -count_answers(made.items[: made.inherited_count])
        if history.boundary is not None:
            made._summarized_count, made._folded_answers = (
                history.boundary.summarized_count,
                history.boundary.answer_count,
            )
        return made

    def fork(self, path: Path, about: Mapping[str, Any]) -> Conversation:
        """A conversation that goes on from this one's newest answer: its prefix and its history are the very same.

        The calls of that answer are this conversation's: for the fork one and the same text stands for each result.
        On disk the history is only named. Raises StorageError.
        """
        if os.path.exists(path) and read_header(path) is not None:
            raise StorageError("damaged-file", f"{path} exists already", note="nothing was changed")
        origin = ForkOrigin.at_answer(self.path, path, self.items[-1])
        header = {
            "type": "header",
            "v": FORK_SCHEMA,
            "at": iso_time(),
            "prefix": self.prefix.digest,
            **about,
            **origin.header_fields,
        }
        header[TAG_KEY] = self.tags.key  # its prefix, which is its caller's, names this one
        made = Conversation(path, self.prefix, header, list(self.items), inherited_count=len(self.items))
        made.reported_tokens, made._folded_answers = self.reported_tokens, -count_answers(self.items)
        made._append(encode(header))
        return made

    def interrupt(self) -> None:
        """A person cut the turn short: nothing is owed until something is told, also after a kill.

        Raises StorageError.
        """
        if self.owes_answer:
            self._append(encode({"type": "interrupt", "at": iso_time()}))
            self.owes_answer, self.interrupted = False, True

    def queue(self, id: str, blocks: Sequence[Block]) -> None:
        """Append a message that the agent is told later: it is delivered, also through a kill. Raises StorageError."""
        self._append(queued_line(id, blocks))
        self.lines -= 1  # it is no step of the conversation: names of places in it stay as they are
        self.queued[id] = list(blocks)

    @property
    def tags(self) -> RuntimeTags:
        """The tags in which the runtime speaks in it, with the key that its system prompt names."""
        return RuntimeTags(header_tag_key(self.header))

    @property
    def answer_count(self) -> int:
        """How many answers the agent gave: model calls that went well."""
        return self._folded_answers + sum(not item.startswith(USER_MESSAGE) for item in self.items)

    @property
    def message_count(self) -> int:
        """How many messages it has, with those that a summary stands for: what `said_since` takes."""
        return self._folded_count + len(self.items)

    @property
    def is_compacted(self) -> bool:
        """Whether it goes on from a summary, which is the first of its messages."""
        return self._summarized_count > 0

    @property
    def is_unstarted_fork(self) -> bool:
        """Whether it is a fork's that was told nothing yet: the newest answer is not its own."""
        return 0 < self.inherited_count == len(self.items)

    def unanswered_calls(self) -> list[ToolCall]:
        """The calls of the newest answer, when none of them has a result yet. A fork never answers its caller's."""
        return tool_calls(self.last_content()) if self._has_unanswered else []

    def step_key(self, what: str) -> str:
        """A name for what happens at this place of the conversation: the same one when it is loaded again.

        What is done under such a name can be looked for after a kill, and is done once.
        """
        return keyed_id(self.header.get("session"), self.path.stem, self.lines, what)

    def append_user_message(self, told: UserMessage) -> None:
        """Append what the agent is told; memory only after the file has it. Raises StorageError.

        Calls whose results never reached the file get one first, saying so: no request may lack a result.
        """
        if self._has_unanswered and told.blocks[0]["type"] != "tool_result":
            self._repair()
        blocks = told.blocks
        if self.is_unstarted_fork:
            blocks = (
                *(tool_result_block(call.id, CALLERS_RESULT) for call in tool_calls(self.last_content())),
                *blocks,
            )
        item = encode({"role": "user", "content": blocks})
        ids = b',"injected":' + encode(told.ids) if told.ids else b""
        self._append(b'{"type":"user","at":"' + iso_time().encode() + b'"' + ids + MESSAGE_KEY + item + b"}")
        self.items.append(item)
        for id in told.ids if self.queued else ():
            self.queued.pop(id, None)
        self.owes_answer, self.interrupted = True, False
        self._has_unanswered = False

    def append_reply(self, reply: Reply) -> None:
        """Append a whole answer. Raises StorageError."""
        item = encode({"role": "assistant", "content": reply.content})
        usage = {**reply.usage.as_json(), "usd": reply.usage.usd}
        about = encode(
            {
                "type": "assistant",
                "at": iso_time(),
                "model": reply.model,
                "stop_reason": reply.stop_reason,
                "request_id": reply.request_id,
                "usage": usage | ({"estimated": True} if reply.is_estimated else {}),
            }
        )
        self._append(about[:-1] + MESSAGE_KEY + item + b"}")
        self.items.append(item)
        self.reported_tokens = len(self.items), reply.usage.tokens
        self.owes_answer = reply.stop_reason == PAUSE_TURN
        self._has_unanswered = any(block["type"] == "tool_use" for block in reply.content)

    def fold(
        self, messages: Sequence[bytes], upto: int, about: Mapping[str, Any], prefix: Prefix | None = None
    ) -> None:
        """Go on with these encoded messages: the first stands for all before that place, the others for the rest.

        The file keeps what it has and gets a line that says so; memory follows. `about` goes into the line; another
        `prefix` is sent from now on. Raises StorageError, and ValueError while calls have no result.
        """
        if self._has_unanswered or self.is_unstarted_fork or len(messages) != 1 + len(self.items) - upto:
            raise ValueError("a conversation is folded only whole rounds at a time")
        told, older = newest_delivered_ids(self.path)
        sent = self.prefix if prefix is None else prefix
        left = sum(not message.startswith(USER_MESSAGE) for message in messages)
        boundary = CompactBoundary(
            line_count=self.lines,
            messages=tuple(messages),
            summarized_count=upto + self._folded_count,
            answer_count=self.answer_count - left,
            owes_answer=self.owes_answer,
            interrupted=self.interrupted,
            delivered_ids=told,
            has_older_ids=older,
            queued=self.queued,
            prefix=sent.digest,
        )
        self._append(boundary.encode_line(about))
        self.lines -= 1  # it is no step of the conversation either
        self.items, self.prefix, self.reported_tokens, self.inherited_count = list(messages), sent, (0, 0), 0
        self._summarized_count, self._folded_answers = boundary.summarized_count, boundary.answer_count

    def clear(self, first: bytes, about: Mapping[str, Any]) -> None:
        """Begin anew with this encoded message, which stands for all before it; nothing is owed any more.

        Calls without a result get one that says so, in the part that is left behind. Raises StorageError.
        """
        self._repair()
        owed = self.owes_answer, self.interrupted
        self.owes_answer = self.interrupted = False
        try:
            self.fold((first,), len(self.items), about)
        except BaseException:
            self.owes_answer, self.interrupted = owed
            raise

    def switch_prefix(self, prefix: Prefix, about: Mapping[str, Any]) -> None:
        """Send another prefix from now on, and thinking of before no more: it is bound to what stood before it.

        `about` goes into the line that says so. Raises StorageError.
        """
        self._append(encode({"type": "prefix", "at": iso_time(), "prefix": prefix.digest, **about}))
        self.lines -= 1  # it is no step of the conversation
        self.items = [without_thinking(item) for item in self.items]
        self.prefix, self.reported_tokens = prefix, (0, 0)

    @property
    def is_closed(self) -> bool:
        """Whether it takes no line any more."""
        return self._closed

    @property
    def _folded_count(self) -> int:
        """What is added to a place among the items to have its number among all messages."""
        return max(0, self._summarized_count - 1)

    def messages_backward(self) -> Iterator[bytes]:
        """All messages as they were told and said, the newest first, whatever was compacted."""
        return all_messages_backward(self.path, self.header) if self.is_compacted else reversed(self.items)

    def delivered_ids(self, ids: Collection[str]) -> set[str]:
        """Which of these ids the transcript has; looked up backward, and only as far as needed."""
        return find_delivered_ids(self.path, ids)

    def last_content(self) -> list[Block]:
        """The blocks of the newest message, or none."""
        return cast("list[Block]", decode(self.items[-1])["content"]) if self.items else []

    def text_since(self, number: int) -> str:
        """The newest text that the agent said among the messages from this number on; empty when it said none."""
        for item in reversed(self.items[max(0, number - self._folded_count) :]):
            if item.startswith(b'{"role":"assistant"'):
                text = message_text(cast("list[Block]", decode(item)["content"]))
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
        if self._header_line:
            self._journal.append(self._header_line, line)
            self._header_line = b""
        else:
            self._journal.append(line)
        self.lines += 1

    def _repair(self) -> None:
        """Answer calls that nobody answered: the next request needs a result for each."""
        calls = self.unanswered_calls()
        if calls:
            self.append_user_message(
                UserMessage(tuple(tool_result_block(call.id, INTERRUPTED_RESULT, is_error=True) for call in calls))
            )
