"""The origin of a fork: the position in its caller's transcript after the answer that started it.

The first line of a fork's transcript names that file and the number of its bytes that are the fork's history too.
Transcripts are only appended to, so these bytes never change, also when the caller is compacted. Depends on
transcripts. Format: docs/reference/formats/transcript.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from teamwright.agent.agent_type import load_prompt
from teamwright.agent.transcript import (
    ASSISTANT_LINE,
    MESSAGE_KEY,
    QUEUED_LINE,
    USER_MESSAGE,
    History,
    line_blocks,
    messages_backward,
    read_header,
    read_history,
    without_thinking,
)
from teamwright.protocol.errors import StorageError
from teamwright.protocol.messages import Block, message_text
from teamwright.protocol.runtime_tags import FORK, RuntimeTags
from teamwright.storage.json_lines import read_backward_with_offsets, read_lines

FORK_TAG = f"<{FORK}"
"""The beginning of a fork's first message."""

_SEARCHED_LINES = 8
"""The number of first lines of a fork's transcript that are searched for its job: header, queue line, message."""

_MARK = f'"text":"{FORK_TAG}'.encode()


def fork_prompt(tags: RuntimeTags, job: str) -> str:
    """Return the first message of a fork. Only the job, which comes last, differs between forks."""
    return f"{tags.fork(load_prompt('fork'))}\n\n{job}"


def contains_fork_prompt(items: Iterable[bytes]) -> bool:
    """Return True when one of these encoded messages tells an agent that it is a fork. Tool results do not count."""
    return any(_MARK in item and item.startswith(USER_MESSAGE) and _has_fork_tag(item) for item in items)


def _has_fork_tag(item: bytes) -> bool:
    content: Any = json.loads(item)["content"]
    return isinstance(content, list) and any(
        message_text([block]).startswith(FORK_TAG) for block in cast("list[Block]", content)
    )


def read_fork_prompt(transcript: Path) -> str:
    """Return the first message of the fork with this transcript; empty when it cannot be found."""
    for line in islice(read_lines(transcript), 1, _SEARCHED_LINES):
        try:
            content: Any = json.loads(line)["content"] if line.startswith(QUEUED_LINE) else line_blocks(line)
        except (ValueError, KeyError, TypeError):
            continue
        for block in content:
            text = message_text([block])
            if text.startswith(FORK_TAG):
                return text
    return ""


FORK_KEY = "fork"
"""The key of a fork's origin in the first line of its transcript. Only transcripts of forks have it."""


class ForkOrigin(Struct, frozen=True):
    """The history of a fork: the first `size` bytes of its caller's transcript, which end with a complete line.

    `transcript` is the path of that file relative to the directory `projects`, which contains the fork's too, with `/`
    as separator.
    """

    transcript: str
    size: int

    @classmethod
    def at_answer(cls, caller: Path, fork: Path, answer: bytes) -> ForkOrigin:
        """Return the origin after the newest answer in the caller's transcript, which must be `answer`.

        Raises StorageError.
        """
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
        """Return the origin in the first line of a transcript; None when it is not a fork's. Raises StorageError."""
        if FORK_KEY not in header:
            return None
        try:
            origin = cast("Mapping[str, Any]", header[FORK_KEY])
            return cls(str(origin["of"]), int(origin["upto"]))
        except (KeyError, TypeError, ValueError) as problem:
            raise StorageError("damaged-file", "the first line of a fork does not say where it begins") from problem

    @property
    def header_fields(self) -> Mapping[str, Any]:
        """The fields of the first line."""
        return {FORK_KEY: {"of": self.transcript, "upto": self.size}}

    def transcript_path(self, fork: Path) -> Path:
        """Return the path of the caller's transcript.

        Raises StorageError for a name that leads outside the directory.
        """
        parts = self.transcript.split("/")
        is_odd = any(part in {"", ".", ".."} or "\0" in part for part in parts)
        if len(parts) not in _DEPTHS or is_odd or not parts[-1].endswith(".jsonl"):
            raise StorageError(
                "damaged-file", f"{fork} names a history that is no transcript: {self.transcript[:80]!r}"
            )
        return _projects(fork).joinpath(*parts)

    def read(self, fork: Path) -> History:
        """Return the caller's conversation as it was when the fork started. Raises StorageError when it is gone."""
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
"""The number of path parts of a lead's transcript, and of another agent's."""


def _projects(fork: Path) -> Path:
    return fork.parents[min(3, len(fork.parents) - 1)]


def read_conversation(path: Path) -> History:
    """Read the history in a transcript; a fork's begins with its caller's. Raises StorageError (`damaged-file`)."""
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
    """Return all encoded messages, the newest first, with those before compactions and those of a fork's caller."""
    yield from messages_backward(path)
    origin = ForkOrigin.from_header(header)
    if origin is not None:
        yield from messages_backward(origin.transcript_path(path), origin.size)


def is_fork(header: Mapping[str, Any]) -> bool:
    """Return True when the transcript with this first line is a fork's."""
    return FORK_KEY in header


def count_answers(items: list[bytes]) -> int:
    """Return the number of answers among these messages."""
    return sum(not item.startswith(USER_MESSAGE) for item in items)
