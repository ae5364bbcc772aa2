"""The conversation of one agent: its encoded history in memory, and the transcript on disk that records it.

A line is written to the file first and added to memory after that. Format: docs/reference/formats/transcript.md.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.agent.fork_origin import ForkOrigin, all_messages_backward, count_answers, read_conversation
from teamwright.agent.transcript import (
    FORK_SCHEMA,
    SCHEMA,
    TAG_KEY,
    USER_MESSAGE,
    CompactBoundary,
    History,
    answer_line,
    find_delivered_ids,
    header_tag_key,
    message_links,
    newest_delivered_ids,
    prompt_uuid,
    queued_line,
    read_header,
    repaired_messages,
    user_line,
)
from teamwright.models.model import Prefix, Reply
from teamwright.protocol.errors import StorageError
from teamwright.protocol.ids import is_uuid, iso_time, keyed_id, message_id
from teamwright.protocol.messages import (
    Block,
    ToolCall,
    decode,
    encode,
    message_text,
    tool_calls,
    tool_result_block,
    with_own_ids,
)
from teamwright.protocol.runtime_tags import RuntimeTags
from teamwright.storage.json_lines import Journal, LostLines

PAUSE_TURN = "pause_turn"
"""The `stop_reason` of an answer that the model continues when it is called again."""
INTERRUPTED_RESULT = (
    "The call was interrupted before it ended: it may have done a part, all or nothing of its work. Look first, and "
    "make it again if its work is missing."
)
NEVER_RAN_RESULT = "The turn was interrupted before this call ran: nothing of it was done."
RUNNING_RESULT = "This call still runs: it has no result yet."
CALLERS_RESULT = "The result of this call went to the agent that made it."
"""The result, in a fork, of every call of the answer that started it. It is the same for all forks."""


class UserMessage(Struct, frozen=True):
    """One user message for an agent: tool results first, then texts; and the ids of the messages that it delivers."""

    blocks: tuple[Block, ...] = ()
    ids: tuple[str, ...] = ()
    on_delivered: Callable[[], Awaitable[None]] | None = None
    """Is called once the transcript has the message."""

    @property
    def is_from_agents(self) -> bool:
        """True when all of it is mail of agents and notices of the runtime, and nothing that a person typed here."""
        return all(id.startswith(("mail:", "notice:")) for id in self.ids)


class Conversation(Struct):
    """The history of one agent, created by `start` or `load`.

    `items` are the encoded messages, oldest first, ready for a request. `owes_answer` is true when the last prompt or
    tool result has no complete answer, unless the user `interrupted` it: it is then sent with the next prompt. `lines`
    counts the lines of the file that are steps: all except queued messages, compactions and prefixes. `queued` are
    messages by id that the transcript has and the agent has not received. `reported_tokens` is a number of messages and
    their tokens by the service's count; 0 without a count. `inherited_count` is the number of items, the first ones,
    that a fork has from its caller.
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
    newest_uuid: str = ""
    """The uuid of the newest message in the file, which the next one follows; empty at a beginning."""
    lost_lines: LostLines | None = None
    """Damaged lines that were set aside when the conversation was loaded."""
    keeps_calls_open: bool = False
    """True when the agent is suspended: calls that are cancelled from now on stay without a result, for the resume."""
    _summarized_count: int = 0
    _folded_answers: int = 0
    _journal: Journal | None = None
    _has_unanswered: bool = False
    _closed: bool = False
    _call_ids: set[str] | None = None
    """The ids of all calls that a request has; None until the first call after the start or a load."""
    _session: str = ""
    _uuid_stem: str = ""
    """The random part of the uuids of the lines that this process writes; the rest of each is counted."""
    _uuid_count: int = 0
    _header_line: bytes = b""
    """The first line, until it is written together with the second."""

    @classmethod
    def start(cls, path: Path, prefix: Prefix, about: Mapping[str, Any], *, with_next: bool = False) -> Conversation:
        """Start a new conversation. `about` goes into the first line: session, member, agent id, team, cwd, model.

        `with_next`: the first line is written together with the second, and the caller knows that the path is free.
        Raises StorageError when a transcript exists already or the disk refuses the write.
        """
        if not with_next and os.path.exists(path) and read_header(path) is not None:
            raise StorageError("damaged-file", f"{path} exists already", note="nothing was changed")
        header = {"type": "header", "v": SCHEMA, "at": iso_time(), "prefix": prefix.digest, **about}
        conversation = cls(path, prefix, header)
        if with_next:
            conversation._header_line = encode(header)
            conversation.lines = 1
        else:
            conversation._append(encode(header))
        return conversation

    @classmethod
    def load(cls, path: Path, prefix: Prefix) -> Conversation:
        """Load a conversation from its file. An incomplete last line is cut;

        `unanswered_calls` returns calls without a result. Raises StorageError (`damaged-file`) when the first line is
        not a readable header.
        """
        history = read_conversation(path)
        return cls.from_history(path, prefix, Journal.open(path), history)

    @classmethod
    def from_history(cls, path: Path, prefix: Prefix, journal: Journal, history: History) -> Conversation:
        """Return a conversation from the history that was read from its file."""
        conversation = cls(
            path, prefix, history.header, history.items, history.owes_answer, history.interrupted, history.lines
        )
        conversation.queued = history.queued
        conversation.reported_tokens = history.reported_tokens
        conversation._journal = journal
        conversation._has_unanswered = history.has_unanswered
        conversation.inherited_count = history.inherited_count
        conversation.newest_uuid = history.newest_uuid
        conversation._folded_answers = -count_answers(conversation.items[: conversation.inherited_count])
        if history.boundary is not None:
            conversation._summarized_count = history.boundary.summarized_count
            conversation._folded_answers = history.boundary.answer_count
        return conversation

    def fork(self, path: Path, about: Mapping[str, Any]) -> Conversation:
        """Return a fork that continues from the newest answer, with the same prefix and history.

        The fork has the calls of that answer too; one fixed text is the result of each. On disk the fork only refers to
        the history. Raises StorageError.
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
        header[TAG_KEY] = self.tags.key  # the fork begins with its caller's messages, which name this key
        conversation = Conversation(path, self.prefix, header, list(self.items), inherited_count=len(self.items))
        conversation.reported_tokens = self.reported_tokens
        conversation._folded_answers = -count_answers(self.items)
        conversation._append(encode(header))
        return conversation

    def copy_for_side_call(self) -> Conversation:
        """Return a closed copy in memory for a request beside the agent's work.

        It begins with the messages of the agent's last request. Calls without a result have one that says that they
        run.
        """
        copy = Conversation(self.path, self.prefix, self.header, list(self.items))
        waiting = CALLERS_RESULT if self.is_unstarted_fork else RUNNING_RESULT
        calls = tool_calls(self.last_content()) if self.is_unstarted_fork else self.unanswered_calls()
        if calls:
            results = [tool_result_block(call.id, waiting) for call in calls]
            copy.items.append(encode({"role": "user", "content": results}))
        copy._closed = True
        return copy

    def interrupt(self) -> None:
        """Record that the user interrupted the turn: no answer is owed until the next message, also after a kill.

        Raises StorageError.
        """
        if self.owes_answer:
            self._append(encode({"type": "interrupt", "at": iso_time()}))
            self.owes_answer = False
            self.interrupted = True

    def queue(self, id: str, blocks: Sequence[Block]) -> None:
        """Append a message that the agent receives later.

        It is then delivered even after a kill. Raises StorageError.
        """
        self._append(queued_line(id, blocks))
        self.lines -= 1  # not a step of the conversation: names of steps stay as they are
        self.queued[id] = list(blocks)

    @property
    def tags(self) -> RuntimeTags:
        """The tags of the runtime's texts in this conversation, with the key that its first message names."""
        return RuntimeTags(header_tag_key(self.header))

    @property
    def answer_count(self) -> int:
        """The number of answers of the agent, which are its successful model calls."""
        return self._folded_answers + sum(not item.startswith(USER_MESSAGE) for item in self.items)

    @property
    def message_count(self) -> int:
        """The number of messages, those that a summary replaces included. `text_since` takes such a number."""
        return self._folded_count + len(self.items)

    @property
    def is_compacted(self) -> bool:
        """True when the first message is a summary of earlier ones."""
        return self._summarized_count > 0

    @property
    def is_unstarted_fork(self) -> bool:
        """True for a fork that has received no message yet: the newest answer is its caller's."""
        return 0 < self.inherited_count == len(self.items)

    def unanswered_calls(self) -> list[ToolCall]:
        """Return the calls of the newest answer when none of them has a result yet.

        A fork never runs its caller's calls.
        """
        return tool_calls(self.last_content()) if self._has_unanswered else []

    def step_key(self, what: str) -> str:
        """Return a name for this step of the conversation. It is the same after the conversation is loaded again.

        An action under such a name can be found after a kill and is done only once.
        """
        return keyed_id(self.header.get("session"), self.path.stem, self.lines, what)

    def append_user_message(self, message: UserMessage) -> None:
        """Append a user message: to the file first, to memory after that. Raises StorageError.

        Calls whose results never reached the file get a result that says so: a request needs a result for each call.
        """
        if self._has_unanswered and message.blocks[0]["type"] != "tool_result":
            self._repair()
        blocks = message.blocks
        if self.is_unstarted_fork:
            blocks = (
                *(tool_result_block(call.id, CALLERS_RESULT) for call in tool_calls(self.last_content())),
                *blocks,
            )
        item = encode({"role": "user", "content": blocks})
        uuid = (prompt_uuid(message.ids) if message.ids else "") or self._next_uuid()
        self._append(user_line(self._links(uuid), message.ids, blocks, item))
        self.newest_uuid = uuid
        self.items.append(item)
        for id in message.ids if self.queued else ():
            self.queued.pop(id, None)
        self.owes_answer = True
        self.interrupted = False
        self._has_unanswered = False

    def append_reply(self, reply: Reply) -> None:
        """Append a complete answer. Raises StorageError."""
        item = encode({"role": "assistant", "content": reply.content})
        usage = {**reply.usage.as_json(), "usd": reply.usage.usd}
        if reply.is_estimated:
            usage["estimated"] = True
        uuid = self._next_uuid()
        about = {
            "model": reply.model,
            "stop_reason": reply.stop_reason,
            "request_id": reply.request_id,
            "usage": usage,
        }
        self._append(answer_line(self._links(uuid), about, item))
        self.newest_uuid = uuid
        self.items.append(item)
        self.reported_tokens = len(self.items), reply.usage.tokens
        self.owes_answer = reply.stop_reason == PAUSE_TURN
        calls = tool_calls(reply.content)
        self._has_unanswered = bool(calls)
        if self._call_ids is not None:
            self._call_ids.update(call.id for call in calls)

    def with_own_ids(self, content: list[Block]) -> list[Block]:
        """Return the blocks of an answer in which no call has the id of another call of the answer or conversation."""
        if not any(block.get("type") == "tool_use" for block in content):
            return content
        if self._call_ids is None:
            answers = (decode(item)["content"] for item in self.items if b'"tool_use"' in item)
            self._call_ids = {call.id for blocks in answers for call in tool_calls(cast("list[Block]", blocks))}
        return with_own_ids(content, self._call_ids)

    def fold(
        self,
        messages: Sequence[bytes],
        upto: int,
        about: Mapping[str, Any],
        prefix: Prefix | None = None,
        *,
        begins_again: bool = False,
    ) -> None:
        """Replace the history by these messages:

        the first stands for all messages before `upto`, the others for the rest. The file keeps its lines and gets one
        that records the change; memory follows. `about` goes into that line; a new `prefix` is sent from now on.
        `begins_again`: other programs show only the messages from now on. Raises StorageError, and ValueError while
        calls have no result.
        """
        if self._has_unanswered or self.is_unstarted_fork or len(messages) != 1 + len(self.items) - upto:
            raise ValueError("a conversation is folded only in whole turns")
        delivered_ids, older = newest_delivered_ids(self.path)
        sent = self.prefix if prefix is None else prefix
        left = sum(not message.startswith(USER_MESSAGE) for message in messages)
        boundary = CompactBoundary(
            line_count=self.lines,
            messages=tuple(messages),
            summarized_count=upto + self._folded_count,
            answer_count=self.answer_count - left,
            owes_answer=self.owes_answer,
            interrupted=self.interrupted,
            delivered_ids=delivered_ids,
            has_older_ids=older,
            queued=self.queued,
            prefix=sent.digest,
            parent="" if begins_again else self.newest_uuid,
        )
        self._append(boundary.encode_line(about))
        self.newest_uuid = boundary.parent
        self.lines -= 1  # not a step of the conversation
        self.items = list(messages)
        self.prefix = sent
        self.reported_tokens = (0, 0)
        self.inherited_count = 0
        self._summarized_count = boundary.summarized_count
        self._folded_answers = boundary.answer_count

    def clear(self, first: bytes, about: Mapping[str, Any]) -> None:
        """Continue with only this encoded message in place of all earlier ones; no answer is owed after that.

        Calls without a result first get one that says so. Raises StorageError.
        """
        self._repair()
        answer_state = self.owes_answer, self.interrupted
        self.owes_answer = self.interrupted = False
        try:
            self.fold((first,), len(self.items), about, begins_again=True)
        except BaseException:
            self.owes_answer, self.interrupted = answer_state
            raise

    def repair(self, about: Mapping[str, Any]) -> None:
        """Send the repaired messages from now on, which the service accepted in place of these. Raises StorageError."""
        self.switch_prefix(self.prefix, about)

    def replace_prefix(self, prefix: Prefix) -> None:
        """Send another prefix from now on, which the transcript does not record."""
        self.prefix = prefix

    def switch_prefix(self, prefix: Prefix, about: Mapping[str, Any]) -> None:
        """Send another prefix from now on, and drop earlier thinking and other blocks of a service, which belong to the
        prefix before.

        `about` goes into the line that records the change. Raises StorageError.
        """
        self._append(encode({"type": "prefix", "at": iso_time(), "prefix": prefix.digest, **about}))
        self.lines -= 1  # not a step of the conversation
        self.items = repaired_messages(self.items)
        self.prefix = prefix
        self.reported_tokens = (0, 0)
        self._call_ids = None

    @property
    def is_closed(self) -> bool:
        """True when the file is closed and takes no more lines."""
        return self._closed

    @property
    def _folded_count(self) -> int:
        """The difference between a position in `items` and the number of that message in the whole history."""
        return max(0, self._summarized_count - 1)

    def messages_backward(self) -> Iterator[bytes]:
        """Return all messages of the file, the newest first, those before compactions included."""
        return all_messages_backward(self.path, self.header) if self.is_compacted else reversed(self.items)

    def delivered_ids(self, ids: Collection[str]) -> set[str]:
        """Return which of these ids the transcript has. The file is searched backward and only as far as needed."""
        return find_delivered_ids(self.path, ids)

    def last_content(self) -> list[Block]:
        """Return the blocks of the newest message, or none."""
        return cast("list[Block]", decode(self.items[-1])["content"]) if self.items else []

    def text_since(self, number: int) -> str:
        """Return the newest text of the agent among the messages from number `number` on; empty when there is none."""
        for item in reversed(self.items[max(0, number - self._folded_count) :]):
            if item.startswith(b'{"role":"assistant"'):
                text = message_text(cast("list[Block]", decode(item)["content"]))
                if text:
                    return text
        return ""

    def close(self) -> None:
        """Close the file, which takes no more lines. The conversation can be loaded again."""
        self._closed = True
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _next_uuid(self) -> str:
        """Return a new uuid, which costs less than a random one for each line."""
        if not self._uuid_stem:
            self._uuid_stem = message_id()[:-12]
        self._uuid_count += 1
        return f"{self._uuid_stem}{self._uuid_count:012x}"

    def _links(self, uuid: str) -> dict[str, str | None]:
        if not self._session:  # a copied conversation has the id of its file, other agents their session's
            named = str(self.header.get("session", ""))
            self._session = next(filter(is_uuid, (self.path.stem, named)), "")
        return message_links(self._session, uuid, self.newest_uuid)

    def _append(self, line: bytes) -> None:
        if self._closed:
            # A writer that is still active belongs to a terminated agent; its message is refused.
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
        """Append results for calls without one: the next request needs a result for each."""
        calls = self.unanswered_calls()
        if calls:
            self.append_user_message(
                UserMessage(tuple(tool_result_block(call.id, INTERRUPTED_RESULT, is_error=True) for call in calls))
            )
