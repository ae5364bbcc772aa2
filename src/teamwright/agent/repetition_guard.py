"""Detection of repetition: the same calls again and again.

While nothing else changes, the model receives a note after three times in a row, and its turn ends after six. A change
that the call makes itself, and a notice about it, are no change. What may still bring something (a wait for what runs,
a command that changes files, a result that differs) has a longer limit, so no loop is endless.
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
from typing import Any, Protocol

from teamwright.agent.tool import ToolResult
from teamwright.protocol.messages import Block, ToolCall, encode, message_text

MAX_ENTRIES = 5_000
"""The number of files that are examined. Changes in further files of a larger tree are not seen."""

MAX_HASHED_BYTES = 1024 * 1024
"""The largest file that is hashed. A larger one is compared by its modification time."""

SKIPPED_DIRECTORIES = frozenset({"node_modules", "__pycache__", "target", "build", "dist", "venv"})


def directory_stamp(directories: Iterable[Path], since: float) -> bytes:
    """Return a stamp of these directories. It covers the contents of files that were written after `since`."""
    digest = blake2b(digest_size=16)
    left = MAX_ENTRIES
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
"""Repetitions in a row without any change after which the agent receives a note."""

END_AT = 6
"""Repetitions in a row without any change after which the turn ends."""

LONG_WARN_AT = 50
"""Repetitions of the same calls in a row, with any results, after which the agent receives a note."""

LONG_END_AT = 100
"""Repetitions of the same calls in a row, with any results, after which the turn ends."""

LONGEST_CYCLE = 3
"""The most model calls in one repetition: a call, or two or three that alternate."""

CLOCK_SLACK_S = 0.5
"""The tolerance between a file's modification time and the clock."""

WARNING = (
    f"You have made the same tool call {WARN_AT} times in a row with the same result, and no file or task changed in "
    "between. Do not make it again: try another way, or end your turn and say what is in the way. Your turn ends "
    f"after {END_AT} times."
)

LONG_WARNING = (
    f"You have made the same tool call {LONG_WARN_AT} times in a row. If you wait for something that you are notified "
    "of, end your turn; otherwise try another way, or wait longer in each call. Your turn ends after "
    f"{LONG_END_AT} times."
)

_VARYING = re.compile(
    r"\bc[0-9]+-[0-9a-f]{8}\b|\bagentId: a[0-9a-f]{6}\b|<usage>.*?</usage>"
    r"|\d\d:\d\d:\d\d(?:[.,]\d+)?|\b\d+(?:[.,]\d+)?\s?(?:ns|µs|us|ms|s|secs?|seconds?)\b",
    re.DOTALL,
)
"""Parts that differ between two equal results: names of output files, ids of sub-agents and what they used, times of
day, durations."""

_IDS = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[ab][0-9a-f]{6}\b"
    r"|<(tool-use-id|output-file)>.*?</\1>|\d{4}-\d\d-\d\dT[0-9:.]+Z?",
    re.DOTALL,
)
"""Parts that differ between two notices of the runtime about the same: ids, files, usage, times."""


class KnownTools(Protocol):
    """Answers the guard about an agent's calls (see `Tool.is_wait` and `Tool.makes_known_change`)."""

    def is_wait(self, call: ToolCall, result: ToolResult | None, /) -> bool:
        """Return True when the call waited for what may still come."""
        ...

    def makes_known_change(self, call: ToolCall, /) -> bool:
        """Return True when all that the call changes is what its input says."""
        ...


class RepetitionGuard:
    """The model calls of one turn with tool calls. `end_reason` is set after too many repetitions.

    `directories` are those in which a change counts.
    """

    __slots__ = (
        "_directories",
        "_equal",
        "_inputs",
        "_last_stamp",
        "_rounds",
        "_same_calls",
        "_since",
        "_tools",
        "_warned",
        "end_reason",
    )

    def __init__(self, directories: Callable[[], Sequence[Path]], tools: KnownTools) -> None:
        self.end_reason = ""
        self._directories = directories
        self._tools = tools
        self.reset()

    def reset(self) -> None:
        """Start again: a person wrote to the agent, so a repeated call may have a new reason."""
        self._rounds: list[_Round] = []
        self._equal = [0] * LONGEST_CYCLE
        """For cycles of one, two and three model calls: how many in a row equal the one a cycle before."""
        self._same_calls = [0] * LONGEST_CYCLE
        """The same for the calls alone, without their results and other changes."""
        self._inputs: set[str] = set()
        self._forget_stamp()
        self._since = 0.0

    async def begin(self, calls: Sequence[ToolCall]) -> None:
        """Note the state before calls that change something themselves, so that only changes of others count."""
        if self._last_stamp is None or not any(map(self._tools.makes_known_change, calls)):
            return
        if await self._files_changed():
            self._start_again()

    async def check(
        self, calls: Sequence[ToolCall], results: Mapping[str, ToolResult], began: float, arrived: Sequence[Block] = ()
    ) -> str:
        """Count a round that began at this time. Return the note for the agent, or an empty text.

        `arrived` are messages and notices that the agent reads with the results.
        """
        newest = _Round(calls, results, began, self._tools)
        for cycle in range(1, LONGEST_CYCLE + 1):
            before = self._rounds[-cycle] if len(self._rounds) >= cycle else None
            same = before is not None and newest.has_calls_of(before)
            self._same_calls[cycle - 1] = self._same_calls[cycle - 1] + 1 if same else 0
            equal = same and before is not None and newest == before
            self._equal[cycle - 1] = self._equal[cycle - 1] + 1 if equal else 0
        self._rounds = [*self._rounds[1 - 2 * LONGEST_CYCLE :], newest]
        if not any(self._same_calls):
            self._inputs.clear()
        # The notices that the repeated call causes itself are the same each time.
        texts = {_IDS.sub("", _VARYING.sub("", message_text([block]))) for block in arrived}
        is_new = not texts <= self._inputs
        self._inputs |= texts
        if not any(self._same_calls):
            self._forget_stamp()
            return ""
        if is_new or any(self._tools.is_wait(call, results.get(call.id)) for call in calls):
            self._start_again()
        times, often = _times(self._equal), _times(self._same_calls)
        if times < WARN_AT - 1:
            self._forget_stamp()
        elif await self._files_changed() and not newest.makes_known_change:
            self._start_again()
            times = 1
        return self._judge(calls, times, often)

    def _judge(self, calls: Sequence[ToolCall], times: int, often: int) -> str:
        names = ", ".join(dict.fromkeys(call.name[:60] for call in calls))
        if times >= END_AT:
            self.end_reason = f"the same tool call was made {times} times in a row with the same result: {names}"
        elif often >= LONG_END_AT:
            self.end_reason = f"the same tool call was made {often} times in a row: {names}"
        if times >= WARN_AT and not self._warned:
            self._warned = True
            return WARNING
        is_first = any(streak == cycle * (LONG_WARN_AT - 1) for cycle, streak in enumerate(self._same_calls, 1))
        return LONG_WARNING if often == LONG_WARN_AT and is_first else ""

    def _start_again(self) -> None:
        self._equal = [0] * LONGEST_CYCLE
        self._warned = False

    def _forget_stamp(self) -> None:
        self._last_stamp: bytes | None = None
        self._warned = False

    async def _files_changed(self) -> bool:
        """Return True when a file has changed since the last call."""
        if self._last_stamp is None:
            self._since = self._rounds[0].began - CLOCK_SLACK_S
        before = self._last_stamp
        places = tuple(self._directories())
        self._last_stamp = await asyncio.to_thread(directory_stamp, places, self._since)
        return before is not None and before != self._last_stamp


def _times(streaks: Sequence[int]) -> int:
    """Return how often the newest calls were made in a row, for the cycle with the most."""
    return max(streak // cycle + 1 for cycle, streak in enumerate(streaks, 1))


def file_time() -> float:
    """Return the time by which a round began, as files have it."""
    return time()


class _Round:
    """The tool calls of one answer and their results. Two objects with the same calls and results are equal.

    Of calls that say themselves what they change only success counts: their results name new ids.
    """

    __slots__ = ("_calls", "_digest", "_made", "_results", "_tools", "began", "makes_known_change")

    def __init__(
        self, calls: Sequence[ToolCall], results: Mapping[str, ToolResult], began: float, tools: KnownTools
    ) -> None:
        found = [results.get(call.id) for call in calls]
        # A call that could not run is the same mistake with any arguments.
        self._calls = [_call_key(call, result) for call, result in zip(calls, found, strict=True)]
        self._results: list[ToolResult | None] = found
        self._made = calls
        self._tools = tools
        self.makes_known_change = False
        self._digest = b""
        self.began = began

    def has_calls_of(self, other: _Round) -> bool:
        """Return True when the other round has the same calls."""
        return self._calls == other._calls

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
            own = [self._tools.makes_known_change(call) for call in self._made]
            self.makes_known_change = all(own)  # a command beside them may have changed something
            for is_own, result in zip(own, self._results, strict=True):
                failed = result is not None and result.is_error
                digest.update(encode(["" if is_own and not failed else _text(result), failed]))
            self._digest = digest.digest()
            self._results = []
            self._made = ()
        return self._digest


def _call_key(call: ToolCall, result: ToolResult | None) -> tuple[str, str, Any]:
    unfit = result.invalid if result is not None else ""
    return (unfit, "" if unfit == "tool" else call.name, None if unfit else call.input)


def _text(result: ToolResult | None) -> str:
    if result is None or result.invalid in {"tool", "json"}:
        return ""
    content = result.content if isinstance(result.content, str) else encode(list(result.content)).decode()
    return _VARYING.sub("", content)
