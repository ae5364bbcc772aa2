"""Detection of repetition: the same calls with the same results, again and again, while nothing else changes.

After three times in a row the model receives a note; after six its turn ends. Commands that wait do not count, and
neither does a call after which a file or a task has changed.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from time import time
from typing import Any

from teamwright.agent.tool import ToolResult
from teamwright.protocol.messages import ToolCall, encode

MAX_ENTRIES = 5_000
"""The number of files that are examined. Changes in further files of a larger tree are not seen."""

MAX_HASHED_BYTES = 1024 * 1024
"""The largest file that is hashed. A larger one is compared by its modification time."""

SKIPPED_DIRECTORIES = frozenset({"node_modules", "__pycache__", "target", "build", "dist", "venv"})


def directory_stamp(directories: Iterable[Path], since: float) -> bytes:
    """Return a stamp of these directories. It covers the contents of files that were written after `since`."""
    digest, left = blake2b(digest_size=16), MAX_ENTRIES
    for place in directories:
        for entry in _files(place):
            if not left:
                return digest.digest()
            left -= 1
            with suppress(OSError):
                digest.update(f"{entry.path}\0{_file_state(entry, since)}\0".encode("utf-8", "surrogateescape"))
    return digest.digest()


def _file_state(entry: os.DirEntry[str], since: float) -> str:
    stat = entry.stat(follow_symlinks=False)
    if stat.st_mtime < since or not entry.is_file(follow_symlinks=False):
        return str(stat.st_size)
    if stat.st_size > MAX_HASHED_BYTES:
        return f"{stat.st_size} {stat.st_mtime_ns}"
    return blake2b(Path(entry.path).read_bytes(), digest_size=16).hexdigest()


def _files(place: Path) -> Iterator[os.DirEntry[str]]:
    waiting = [str(place)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in SKIPPED_DIRECTORIES:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                yield entry


WARN_AT = 3
"""Repetitions in a row after which the agent receives a note."""

END_AT = 6
"""Repetitions in a row after which the turn ends."""

LONGEST_CYCLE = 3
"""The most model calls in one repetition: a call, or two or three that alternate."""

CLOCK_SLACK_S = 0.5
"""The tolerance between a file's modification time and the clock."""

WARNING = (
    f"You have made the same tool call {WARN_AT} times in a row with the same result, and no file or task changed in "
    "between. Do not make it again: try another way, or end your turn and say what is in the way. Your turn ends "
    f"after {END_AT} times."
)

_VARYING = re.compile(
    r"\bc[0-9]+-[0-9a-f]{8}\b|\d\d:\d\d:\d\d(?:[.,]\d+)?|\b\d+(?:[.,]\d+)?\s?(?:ns|µs|us|ms|s|secs?|seconds?)\b"
)
"""Parts that differ between two equal results: names of output files, times of day, durations."""


class RepetitionGuard:
    """The model calls of one turn with tool calls, newest last. `why` is set after too many repetitions.

    `directories` are those in which a change counts; `is_wait` returns True for a call that waits for an outside event.
    """

    __slots__ = ("_directories", "_is_wait", "_last_stamp", "_rounds", "_since", "_warned", "end_reason")

    def __init__(self, directories: Callable[[], Sequence[Path]], is_wait: Callable[[ToolCall], bool]) -> None:
        self.end_reason = ""
        self._directories, self._is_wait = directories, is_wait
        self._rounds: list[_Round] = []
        self._last_stamp: bytes | None = None
        self._warned = False
        self._since = 0.0

    def reset(self) -> None:
        """Start again: the agent has new input, so a repeated call may have a new reason."""
        self._rounds.clear()
        self._last_stamp, self._warned = None, False

    async def check(self, calls: Sequence[ToolCall], results: Mapping[str, ToolResult], began: float) -> str:
        """Count a round that began at this time. Return the note for the agent, or an empty text."""
        newest, recent = _Round(calls, results, began), self._rounds[-LONGEST_CYCLE:]
        if newest not in recent:
            # A repetition that is found later cannot reach back before these.
            self._rounds = [*recent[1 - LONGEST_CYCLE :], newest]
            self._last_stamp, self._warned = None, False
            return ""
        self._rounds = [*self._rounds, newest][-END_AT * LONGEST_CYCLE :]
        times, cycle = self._count_repetitions()
        if times < WARN_AT - 1:
            self._last_stamp, self._warned = None, False
            return ""
        if any(map(self._is_wait, calls)):
            self.reset()
            return ""
        if await self._files_changed(times * cycle):
            del self._rounds[:-cycle]
            self._warned = False
            return ""
        if times >= END_AT:
            names = ", ".join(dict.fromkeys(call.name[:60] for call in calls))
            self.end_reason = f"the same tool call was made {times} times in a row with the same result: {names}"
        if times < WARN_AT or self._warned:
            return ""
        self._warned = True
        return WARNING

    def _count_repetitions(self) -> tuple[int, int]:
        """How often the newest calls were made in a row, and how many model calls that is each time."""
        rounds = self._rounds
        found = (1, 1)
        for cycle in range(1, LONGEST_CYCLE + 1):
            times = 1
            while rounds[-cycle:] == rounds[-cycle * (times + 1) : -cycle * times]:
                times += 1
            found = max(found, (times, cycle), key=lambda one: one[0])
        return found

    async def _files_changed(self, rounds: int) -> bool:
        """Return True when the file has changed since the last call."""
        if self._last_stamp is None:
            self._since = self._rounds[-rounds].began - CLOCK_SLACK_S
        before, places = self._last_stamp, tuple(self._directories())
        self._last_stamp = await asyncio.to_thread(directory_stamp, places, self._since)
        return before is not None and before != self._last_stamp


def file_time() -> float:
    """The time by which a round began, as files have it."""
    return time()


class _Round:
    """The tool calls of one answer and their results. Two objects with the same calls and results are equal."""

    __slots__ = ("_calls", "_digest", "_results", "began")

    def __init__(self, calls: Sequence[ToolCall], results: Mapping[str, ToolResult], began: float) -> None:
        found = [results.get(call.id) for call in calls]
        # A call that could not run is the same mistake with any arguments.
        self._calls = [_call_key(call, result) for call, result in zip(calls, found, strict=True)]
        self._results: list[ToolResult | None] = found
        self._digest = b""
        self.began = began

    def __eq__(self, other: object) -> bool:
        # Results are compared last: most calls differ, and results are long.
        return (
            isinstance(other, _Round)
            and self._calls == other._calls
            and self._results_digest() == other._results_digest()
        )

    def _results_digest(self) -> bytes:
        if not self._digest:
            digest = blake2b(digest_size=16)
            for result in self._results:
                digest.update(encode([_text(result), result is not None and result.is_error]))
            self._digest = digest.digest()
            self._results = []
        return self._digest


def _call_key(call: ToolCall, result: ToolResult | None) -> tuple[str, str, Any]:
    unfit = result.invalid if result is not None else ""
    return (unfit, "" if unfit == "tool" else call.name, None if unfit else call.input)


def _text(result: ToolResult | None) -> str:
    if result is None or result.invalid in {"tool", "json"}:
        return ""
    content = result.content if isinstance(result.content, str) else encode(list(result.content)).decode()
    return _VARYING.sub("", content)
