"""What one member of a running session was told and said: the newest of it, and what comes from now on.

Read from its transcript, backward as far as is wanted, so that it costs the same however long the conversation is; for
a member of this process and for one that has its own. Knows transcripts; knows no screen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from teamwright.agent.transcript import MESSAGE_KEY, header_tag_key, messages_backward, read_header
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, parse_recipient
from teamwright.protocol.message_xml import NO_KEY_TAGS, RuntimeTags
from teamwright.protocol.values import dataclass
from teamwright.session.session import Session
from teamwright.teams.external.external_member import ExternalMember
from teamwright.teams.in_process_teammate import InProcessTeammate

Message = Mapping[str, Any]
"""`{"role", "content"}`, as a model is sent it."""

_MOST_READ = 4_000_000
"""Bytes of a transcript that are looked at when one catches up: what is older is passed over."""


@dataclass(slots=True)
class ConversationReader:
    """One member's transcript, read on. `live`: it runs in this process, where events tell of its words at once.

    `foreign`: another program runs it, and keeps its conversation to itself.
    """

    path: Path
    live: bool
    foreign: bool = False
    _at: int = 0
    _tags: RuntimeTags | None = None

    def __post_init__(self) -> None:
        self._at = self._size()

    def recent(self, most: int) -> list[Message]:
        """At most so many messages, the newest ones, oldest first."""
        with suppress(OSError, ValueError):
            newest = [self._message(message) for message in islice(messages_backward(self.path), most)]
            return newest[::-1]
        return []

    def new_messages(self) -> list[Message]:
        """What was written since the last look, whole lines only."""
        size = self._size()
        begin = max(self._at, size - _MOST_READ)
        if size <= begin:
            return []
        with suppress(OSError, ValueError):
            with open(self.path, "rb", buffering=0) as file:
                read = os.pread(file.fileno(), size - begin, begin)
            whole = read.rpartition(b"\n")[0]
            self._at = begin + len(whole) + (1 if whole else 0)
            return [self._message(one) for line in whole.split(b"\n") if (one := _message(line))]
        self._at = size
        return []

    def _message(self, item: bytes) -> Message:
        """A message as people see it: without the key of the runtime's tags."""
        if self._tags is None:
            with suppress(TeamwrightError):
                self._tags = RuntimeTags(header_tag_key(read_header(self.path) or {}))
        message: dict[str, Any] = json.loads(item)
        return {**message, "content": (self._tags or NO_KEY_TAGS).without_key(message["content"])}

    def _size(self) -> int:
        with suppress(OSError):
            return self.path.stat().st_size
        return 0


def conversation_of(session: Session, name: str) -> ConversationReader | None:
    """The conversation of the lead, or of a live member; None when nobody is called that."""
    if parse_recipient(name, session.team.names) == LEAD:
        return ConversationReader(session.lead.agent.conversation.path, live=True)
    mate = session.team.find(parse_recipient(name, session.team.names))
    return (
        None
        if mate is None
        else ConversationReader(
            mate.transcript_path, isinstance(mate, InProcessTeammate), isinstance(mate, ExternalMember)
        )
    )


def _message(line: bytes) -> bytes:
    """The message of a line of a transcript; empty for a line that has none."""
    said = line.startswith((b'{"type":"user"', b'{"type":"assistant"'))
    at = line.find(MESSAGE_KEY) if said else -1
    return line[at + len(MESSAGE_KEY) : -1] if at > 0 else b""


def describe_input(call: Mapping[str, Any]) -> str:
    """What a call in a transcript is about: the value that names it, else its first words."""
    given: Mapping[str, Any] = call.get("input") or {}
    texts = [str(given[key]) for key in _TELLING if isinstance(given.get(key), str | int) and given[key] != ""]
    others = [value for value in given.values() if isinstance(value, str)]
    return next(iter((*texts, *others)), "")


_TELLING: Sequence[str] = ("command", "file_path", "path", "pattern", "url", "query", "to", "taskId", "subject", "name")
"""Keys of a call's input that say what it is about, the most telling first."""
