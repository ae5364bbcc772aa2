"""Background commands that are silent because they wait for an input. Each is reported once.

A silent command has one timer, and none before it prints again. Depends on jobs' processes and outputs.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from teamwright.processes.input_waits import find_question, reads_terminal
from teamwright.processes.process_tree import ProcessSnapshot

if TYPE_CHECKING:
    from teamwright.processes.commands import Process, ProcessOutput

SILENT_S = 45.0
"""Seconds without output after which a background command is looked at."""


class Timer(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None:
        """Cancel it."""


def call_later(delay_s: float, callback: Callable[[], None]) -> Timer:
    """Call `callback` in `delay_s` seconds, in the running loop."""
    return asyncio.get_running_loop().call_later(delay_s, callback)


class SilenceSettings(Struct, frozen=True):
    """How long a command is silent before it is looked at, in seconds, and what makes its timer."""

    silent_s: float = SILENT_S
    call_later: Callable[[float, Callable[[], None]], Timer] = call_later


class SilentJob:
    """Watches the output of one running command, from its construction until `close`."""

    def __init__(
        self, process: Process, output: ProcessOutput, on_waiting: Callable[[], None], settings: SilenceSettings
    ) -> None:
        """Start. `on_waiting` is called at most once: the command seems to wait for an input."""
        self._process = process
        self._output = output
        self._on_waiting = on_waiting
        self._settings = settings
        self._timer: Timer | None = None
        self._arm(settings.silent_s)

    def close(self) -> None:
        """Stop watching."""
        self._output.call_at_growth(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, delay_s: float) -> None:
        self._timer = self._settings.call_later(delay_s, self._check)

    def _check(self) -> None:
        self._timer = None
        left_s = self._output.grown_at + self._settings.silent_s - time.monotonic()
        if left_s > 0:
            self._arm(left_s)
        elif find_question(self._output.end()) or self._reads_terminal():
            self._on_waiting()
        else:
            self._output.call_at_growth(lambda: self._arm(self._settings.silent_s))

    def _reads_terminal(self) -> bool:
        try:
            members = self._process.tree.members(ProcessSnapshot(self._process.pid))
        except (OSError, subprocess.SubprocessError):  # the processes cannot be listed
            return False
        return reads_terminal(row.pid for row in members)
