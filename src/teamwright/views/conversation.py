"""The conversation of one member of a running session: its newest messages, and new ones as they come.

The transcript is read backward as far as needed, so the cost does not depend on its length. It works for members in
this process and in processes of their own. Depends on transcripts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct

from teamwright.agent.transcript import MESSAGE_KEY, header_tag_key, read_header, shown_messages_backward
from teamwright.external.external_member import ExternalMember
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.runtime_tags import NO_KEY_TAGS, RuntimeTags
from teamwright.saved.saved_members import transcripts_of
from teamwright.session.session import Session
from teamwright.teams.local_teammate import LocalTeammate
from teamwright.teams.teammate import Teammate

Message = Mapping[str, Any]
"""`{"role", "content"}`, as it is sent to a model."""

_MOST_READ = 4_000_000
"""Maximum bytes of a transcript that are read for earlier messages; older ones are skipped."""


class ConversationReader(Struct):
    """A reader of one member's transcript. `live`: the member runs in this process and emits events at once.

    `foreign`: an external member, whose transcript is not accessible.
    """

    path: Path
    live: bool
    foreign: bool = False
    _at: int = 0
    _tags: RuntimeTags | None = None

    def __post_init__(self) -> None:
        self._at = self._size()

    def recent(self, most: int) -> list[Message]:
        """Return the newest messages, at most `most`, oldest first."""
        with suppress(OSError, ValueError):
            newest = [self._message(message) for message in islice(shown_messages_backward(self.path), most)]
            return newest[::-1]
        return []

    def new_messages(self) -> list[Message]:
        """Return the messages that were written since the last call, complete lines only."""
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
        """Return a message as shown to people, without the key of the runtime's tags."""
        if self._tags is None:
            with suppress(TeamwrightError):
                self._tags = RuntimeTags(header_tag_key(read_header(self.path) or {}))
        message: dict[str, Any] = json.loads(item)
        return {**message, "content": (self._tags or NO_KEY_TAGS).without_key(message["content"])}

    def _size(self) -> int:
        with suppress(OSError):
            return self.path.stat().st_size
        return 0


def conversation_of(teammate: Teammate) -> ConversationReader:
    """Return the conversation of a live member."""
    return ConversationReader(
        teammate.transcript_path, isinstance(teammate, LocalTeammate), isinstance(teammate, ExternalMember)
    )


def saved_conversation(session: Session, name: str) -> ConversationReader | None:
    """Return the conversation of a member that has ended, or of a sub-agent by its id; None without a transcript."""
    agent_factory = session.agent_factory
    paths = transcripts_of(agent_factory.home.session(agent_factory.cwd, session.id), name)
    found = [path for path in paths if path.exists()]
    return ConversationReader(max(found, key=lambda path: path.stat().st_mtime_ns), live=False) if found else None


def _message(line: bytes) -> bytes:
    """Return the message of a transcript line; empty for a line without one."""
    is_message = line.startswith((b'{"type":"user"', b'{"type":"assistant"'))
    at = line.find(MESSAGE_KEY) if is_message else -1
    return line[at + len(MESSAGE_KEY) : -1] if at > 0 else b""


def describe_input(call: Mapping[str, Any]) -> str:
    """Return a short description of a call's input: the value that names its subject, else its beginning."""
    tool_input: Mapping[str, Any] = call.get("input") or {}
    texts = [
        str(tool_input[key]) for key in _TELLING if isinstance(tool_input.get(key), str | int) and tool_input[key] != ""
    ]
    others = [value for value in tool_input.values() if isinstance(value, str)]
    return next(iter((*texts, *others)), "")


_TELLING: Sequence[str] = ("command", "file_path", "path", "pattern", "url", "query", "to", "taskId", "subject", "name")
"""Keys of a call's input that describe its subject, the most specific first."""
