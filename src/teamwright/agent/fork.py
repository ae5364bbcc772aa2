"""Where a fork begins: in its caller's transcript, behind the answer that asked for it. Nothing of it is copied.

The first line of a fork's transcript names that file and how many bytes of it are the fork's history too. Transcripts
are appended to only, so these bytes stay what they were, whatever the caller does and however it is compacted. Knows
transcripts; knows no agent. Format: docs/formats/transcript.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

from teamwright.agent.agent_type import load_prompt
from teamwright.agent.transcript import (
    ASSISTANT_LINE,
    MESSAGE_KEY,
    USER_MESSAGE,
    History,
    messages_backward,
    read_header,
    read_history,
    without_thinking,
)
from teamwright.protocol.errors import StorageError
from teamwright.protocol.message_xml import FORK, RuntimeTags
from teamwright.protocol.messages import Block, message_text
from teamwright.protocol.values import dataclass
from teamwright.storage.jsonl import read_backward_with_offsets, read_lines

FORK_TAG = f"<{FORK}"
"""How what a fork is told begins."""

_SEARCHED_LINES = 8
"""Lines of a fork's transcript among which its job is: behind the header, queued and then told."""

_MARK = f'"text":"{FORK_TAG}'.encode()


def fork_prompt(tags: RuntimeTags, job: str) -> str:
    """What a fork is told: the same for all but for the job, which is last."""
    return f"{tags.fork(load_prompt('fork'))}\n\n{job}"


def contains_fork_prompt(items: Iterable[bytes]) -> bool:
    """Whether one of these encoded messages tells an agent that it is a fork; what a tool's result says does not."""
    return any(_MARK in item and item.startswith(USER_MESSAGE) and _has_fork_tag(item) for item in items)


def _has_fork_tag(item: bytes) -> bool:
    content: Any = json.loads(item)["content"]
    return isinstance(content, list) and any(
        message_text([block]).startswith(FORK_TAG) for block in cast("list[Block]", content)
    )


def read_fork_prompt(transcript: Path) -> str:
    """What the fork of this transcript was told when it began; empty when that cannot be found."""
    for line in islice(read_lines(transcript), 1, _SEARCHED_LINES):
        try:
            body = cast("dict[str, Any]", json.loads(line))
            content: Any = body["content"] if body["type"] == "queued" else body["message"]["content"]
        except (ValueError, KeyError, TypeError):
            continue
        for block in content:
            text = message_text([block])
            if text.startswith(FORK_TAG):
                return text
    return ""


FORK_KEY = "fork"
"""Under which key the first line of a fork's transcript has its origin. A transcript with it is a fork's."""


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """The history of a fork: the first `upto` bytes of its caller's transcript, which end with a whole line.

    `of` is that file as seen from the directory `projects`, which holds the fork's too, with `/` between its parts.
    """

    transcript: str
    size: int

    @classmethod
    def at_answer(cls, caller: Path, fork: Path, answer: bytes) -> ForkOrigin:
        """Behind the newest answer in the caller's transcript, which must be this one. Raises StorageError."""
        end, line = next(
            ((end, line) for end, line in read_backward_with_offsets(caller) if line.startswith(ASSISTANT_LINE)),
            (0, b""),
        )
        if not line.endswith(b"".join((MESSAGE_KEY, answer, b"}"))):
            raise StorageError("damaged-file", f"{caller} does not end with the answer that asks for a fork")
        try:
            return cls(caller.relative_to(_projects(fork)).as_posix(), end)
        except ValueError:
            raise StorageError("damaged-file", f"{caller} is none of the transcripts beside {fork}") from None

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> ForkOrigin | None:
        """The origin in the first line of a transcript; None when it is no fork's. Raises StorageError."""
        if FORK_KEY not in header:
            return None
        try:
            said = cast("Mapping[str, Any]", header[FORK_KEY])
            return cls(str(said["of"]), int(said["upto"]))
        except (KeyError, TypeError, ValueError) as problem:
            raise StorageError("damaged-file", "the first line of a fork does not say where it begins") from problem

    @property
    def header_fields(self) -> Mapping[str, Any]:
        """What stands in the first line."""
        return {FORK_KEY: {"of": self.transcript, "upto": self.size}}

    def transcript_path(self, fork: Path) -> Path:
        """The caller's transcript, for the fork's. Raises StorageError for a name that leads elsewhere."""
        parts = self.transcript.split("/")
        if len(parts) not in _DEPTHS or not all(map(_is_plain_name, parts)) or not parts[-1].endswith(".jsonl"):
            raise StorageError(
                "damaged-file", f"{fork} names a history that is no transcript: {self.transcript[:80]!r}"
            )
        return _projects(fork).joinpath(*parts)

    def read(self, fork: Path) -> History:
        """The caller's conversation as it was then. Raises StorageError when it is not there any more."""
        path = self.transcript_path(fork)
        try:
            whole = path != fork and path.stat().st_size >= self.size
        except OSError:
            whole = False
        header = read_header(path) if whole else None
        if header is None or FORK_KEY in header:
            raise StorageError(
                "damaged-file",
                f"the history of the fork in {fork} is gone: it is the first {self.size:,} bytes of {path}",
            )
        history = read_history(path, self.size)
        if not history.has_unanswered:
            raise StorageError("damaged-file", f"{path} has no answer at byte {self.size:,}, where a fork begins")
        return history


_DEPTHS = (2, 4)
"""Parts in the name of a lead's transcript, and of another agent's."""


def _projects(fork: Path) -> Path:
    return fork.parents[min(3, len(fork.parents) - 1)]


def _is_plain_name(part: str) -> bool:
    return part not in {"", ".", ".."} and "\0" not in part


def read_conversation(path: Path) -> History:
    """What a transcript comes to: for a fork, its caller's history first. Raises StorageError (`damaged-file`)."""
    own = read_history(path)
    origin = ForkOrigin.from_header(own.header)
    if origin is None or own.boundary is not None:
        return own
    before = origin.read(path)
    own.inherited_count = len(before.items)
    own.items[:0] = map(without_thinking, before.items) if own.later_prefix else before.items
    count, tokens = own.reported_tokens
    if count:
        own.reported_tokens = count + own.inherited_count, tokens
    elif not own.later_prefix:
        own.reported_tokens = before.reported_tokens
    return own


def all_messages_backward(path: Path, header: Mapping[str, Any]) -> Iterator[bytes]:
    """All encoded messages of a conversation, the newest first, whatever was compacted; a fork's caller's too."""
    yield from messages_backward(path)
    origin = ForkOrigin.from_header(header)
    if origin is not None:
        yield from messages_backward(origin.transcript_path(path), origin.size)


def is_fork(header: Mapping[str, Any]) -> bool:
    """Whether the transcript with this first line is a fork's."""
    return FORK_KEY in header


def count_answers(items: list[bytes]) -> int:
    """How many of these messages an agent gave."""
    return sum(not item.startswith(USER_MESSAGE) for item in items)
