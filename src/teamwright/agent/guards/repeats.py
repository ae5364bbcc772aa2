"""When an agent repeats itself: the same calls with the same results, again and again, while nothing else changes.

After three times in a row the model receives a note; after six its turn ends. Commands that wait are no repetition,
and neither is a call after which a file or a task has changed. Knows calls, results and directories; runs nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from time import time
from typing import Any

from teamwright.agent.guards.stamp import stamp
from teamwright.agent.tool import ToolResult
from teamwright.protocol.blocks import ToolCall, encode

NOTED = 3
"""Repetitions in a row after which the agent receives a note."""

ENDED = 6
"""So many times in a row, and its turn ends."""

LONGEST_CYCLE = 3
"""So many model calls at most make one repetition: a call, or two or three that take turns."""

CLOCK_SLACK_S = 0.5
"""Files may have been written this much before the time that a clock shows."""

NOTE = (
    f"You have made the same tool call {NOTED} times in a row with the same result, and no file or task changed in "
    "between. Do not make it again: try another way, or end your turn and say what is in the way. Your turn ends "
    f"after {ENDED} times."
)

_VARYING = re.compile(
    r"\bc[0-9]+-[0-9a-f]{8}\b|\d\d:\d\d:\d\d(?:[.,]\d+)?|\b\d+(?:[.,]\d+)?\s?(?:ns|µs|us|ms|s|secs?|seconds?)\b"
)
"""Parts that differ between two equal results: names of output files, times of day, durations."""


class Repeats:
    """The model calls of one turn that asked for tools, newest last. `why` is set once they were repeated too often.

    `places` are the directories in which a change counts; `waits` says whether a call waits for something.
    """

    __slots__ = ("_last", "_noted", "_places", "_rounds", "_since", "_waits", "why")

    def __init__(self, places: Callable[[], Sequence[Path]], waits: Callable[[ToolCall], bool]) -> None:
        self.why = ""
        self._places, self._waits = places, waits
        self._rounds: list[_Round] = []
        self._last: bytes | None = None
        self._noted = False
        self._since = 0.0

    def forget(self) -> None:
        """The agent learned something new: what it does now is no repetition of what it did before."""
        self._rounds.clear()
        self._last, self._noted = None, False

    async def note(self, calls: Sequence[ToolCall], results: Mapping[str, ToolResult], began: float) -> str:
        """Count a round that began at this time. Return the note for the agent, or an empty text."""
        newest, recent = _Round(calls, results, began), self._rounds[-LONGEST_CYCLE:]
        if newest not in recent:
            # No repetition that is found later reaches back before these.
            self._rounds = [*recent[1 - LONGEST_CYCLE :], newest]
            self._last, self._noted = None, False
            return ""
        self._rounds = [*self._rounds, newest][-ENDED * LONGEST_CYCLE :]
        times, cycle = self._repeated()
        if times < NOTED - 1:
            self._last, self._noted = None, False
            return ""
        if any(map(self._waits, calls)):
            self.forget()
            return ""
        if await self._changed(times * cycle):
            del self._rounds[:-cycle]
            self._noted = False
            return ""
        if times >= ENDED:
            names = ", ".join(dict.fromkeys(call.name[:60] for call in calls))
            self.why = f"the same tool call was made {times} times in a row with the same result: {names}"
        if times < NOTED or self._noted:
            return ""
        self._noted = True
        return NOTE

    def _repeated(self) -> tuple[int, int]:
        """How often the newest calls were made in a row, and how many model calls that is each time."""
        made = self._rounds
        found = (1, 1)
        for cycle in range(1, LONGEST_CYCLE + 1):
            times = 1
            while made[-cycle:] == made[-cycle * (times + 1) : -cycle * times]:
                times += 1
            found = max(found, (times, cycle), key=lambda one: one[0])
        return found

    async def _changed(self, rounds: int) -> bool:
        """Return True when the file has changed since the last call."""
        if self._last is None:
            self._since = self._rounds[-rounds].began - CLOCK_SLACK_S
        before, places = self._last, tuple(self._places())
        self._last = await asyncio.to_thread(stamp, places, self._since)
        return before is not None and before != self._last


def now() -> float:
    """The time by which a round began, as files have it."""
    return time()


class _Round:
    """The tool calls of one answer and their results. Equal to another one with the same calls and results."""

    __slots__ = ("_calls", "_digest", "_results", "began")

    def __init__(self, calls: Sequence[ToolCall], results: Mapping[str, ToolResult], began: float) -> None:
        found = [results.get(call.id) for call in calls]
        # A call that could not be run is the same mistake with any arguments.
        self._calls = [_made(call, result) for call, result in zip(calls, found, strict=True)]
        self._results: list[ToolResult | None] = found
        self._digest = b""
        self.began = began

    def __eq__(self, other: object) -> bool:
        # Results are compared last: most calls differ, and results are long.
        return isinstance(other, _Round) and self._calls == other._calls and self._told() == other._told()

    def _told(self) -> bytes:
        if not self._digest:
            digest = blake2b(digest_size=16)
            for result in self._results:
                digest.update(encode([_text(result), result is not None and result.is_error]))
            self._digest = digest.digest()
            self._results = []
        return self._digest


def _made(call: ToolCall, result: ToolResult | None) -> tuple[str, str, Any]:
    unfit = result.unfit if result is not None else ""
    return (unfit, "" if unfit == "tool" else call.name, None if unfit else call.input)


def _text(result: ToolResult | None) -> str:
    if result is None or result.unfit in {"tool", "json"}:
        return ""
    content = result.content if isinstance(result.content, str) else encode(list(result.content)).decode()
    return _VARYING.sub("", content)
