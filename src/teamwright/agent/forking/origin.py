"""Where a fork begins: in its caller's transcript, behind the answer that asked for it. Nothing of it is copied.

The first line of a fork's transcript names that file and how many bytes of it are the fork's history too. Transcripts
are appended to only, so these bytes stay what they were, whatever the caller does and however it is compacted. Knows
transcripts; knows no agent. Format: docs/formats/transcript.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from teamwright.agent.transcript import (
    ANSWER,
    MESSAGE,
    USER,
    History,
    messages_backward,
    read_header,
    read_history,
    without_thoughts,
)
from teamwright.protocol.errors import StorageError
from teamwright.protocol.values import dataclass
from teamwright.storage.jsonl import read_backward_at

KEY = "fork"
"""Under which key the first line of a fork's transcript has its origin. A transcript with it is a fork's."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The history of a fork: the first `upto` bytes of its caller's transcript, which end with a whole line.

    `of` is that file as seen from the directory `projects`, which holds the fork's too, with `/` between its parts.
    """

    of: str
    upto: int

    @classmethod
    def behind(cls, caller: Path, fork: Path, answer: bytes) -> Origin:
        """Behind the newest answer in the caller's transcript, which must be this one. Raises StorageError."""
        end, line = next(((end, line) for end, line in read_backward_at(caller) if line.startswith(ANSWER)), (0, b""))
        if not line.endswith(b"".join((MESSAGE, answer, b"}"))):
            raise StorageError("damaged-file", f"{caller} does not end with the answer that asks for a fork")
        try:
            return cls(caller.relative_to(_projects(fork)).as_posix(), end)
        except ValueError:
            raise StorageError("damaged-file", f"{caller} is none of the transcripts beside {fork}") from None

    @classmethod
    def of_header(cls, header: Mapping[str, Any]) -> Origin | None:
        """The origin in the first line of a transcript; None when it is no fork's. Raises StorageError."""
        if KEY not in header:
            return None
        try:
            said = cast("Mapping[str, Any]", header[KEY])
            return cls(str(said["of"]), int(said["upto"]))
        except (KeyError, TypeError, ValueError) as problem:
            raise StorageError("damaged-file", "the first line of a fork does not say where it begins") from problem

    @property
    def about(self) -> Mapping[str, Any]:
        """What stands in the first line."""
        return {KEY: {"of": self.of, "upto": self.upto}}

    def path(self, fork: Path) -> Path:
        """The caller's transcript, for the fork's. Raises StorageError for a name that leads elsewhere."""
        parts = self.of.split("/")
        if len(parts) not in _DEPTHS or not all(map(_plain, parts)) or not parts[-1].endswith(".jsonl"):
            raise StorageError("damaged-file", f"{fork} names a history that is no transcript: {self.of[:80]!r}")
        return _projects(fork).joinpath(*parts)

    def read(self, fork: Path) -> History:
        """The caller's conversation as it was then. Raises StorageError when it is not there any more."""
        path = self.path(fork)
        try:
            whole = path != fork and path.stat().st_size >= self.upto
        except OSError:
            whole = False
        header = read_header(path) if whole else None
        if header is None or KEY in header:
            raise StorageError(
                "damaged-file",
                f"the history of the fork in {fork} is gone: it is the first {self.upto:,} bytes of {path}",
            )
        history = read_history(path, self.upto)
        if not history.unanswered:
            raise StorageError("damaged-file", f"{path} has no answer at byte {self.upto:,}, where a fork begins")
        return history


_DEPTHS = (2, 4)
"""Parts in the name of a lead's transcript, and of another agent's."""


def _projects(fork: Path) -> Path:
    return fork.parents[min(3, len(fork.parents) - 1)]


def _plain(part: str) -> bool:
    return part not in {"", ".", ".."} and "\0" not in part


def read_conversation(path: Path) -> History:
    """What a transcript comes to: for a fork, its caller's history first. Raises StorageError (`damaged-file`)."""
    own = read_history(path)
    origin = Origin.of_header(own.header)
    if origin is None or own.boundary is not None:
        return own
    before = origin.read(path)
    own.inherited = len(before.items)
    own.items[:0] = map(without_thoughts, before.items) if own.moved else before.items
    count, tokens = own.reported
    if count:
        own.reported = count + own.inherited, tokens
    elif not own.moved:
        own.reported = before.reported
    return own


def all_backward(path: Path, header: Mapping[str, Any]) -> Iterator[bytes]:
    """All encoded messages of a conversation, the newest first, whatever was compacted; a fork's caller's too."""
    yield from messages_backward(path)
    origin = Origin.of_header(header)
    if origin is not None:
        yield from messages_backward(origin.path(path), origin.upto)


def is_fork(header: Mapping[str, Any]) -> bool:
    """Whether the transcript with this first line is a fork's."""
    return KEY in header


def answers_in(items: list[bytes]) -> int:
    """How many of these messages an agent gave."""
    return sum(not item.startswith(USER) for item in items)
