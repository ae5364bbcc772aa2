"""The process of one hook: its program and arguments, its end, and its answer that it continues in the background.

A hook that prints `{"async": true}` first is not waited for. Depends on processes and on outcomes of hooks.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec import Struct

from teamwright.hooks.hook_definitions import MAX_TIMEOUT_S, HookSpec
from teamwright.hooks.hook_outcome import REFUSAL_EXIT_CODE, HookOutcome, cut_text, read_outcome
from teamwright.processes.commands import Process, ProcessCommand, ProcessOutput, wait_or_terminate
from teamwright.processes.program_environment import find_program

MAX_OUTPUT = 200_000
"""Characters of a hook's output that are read."""

GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL for a hook that is ended."""

BACKGROUND_TIMEOUT_S = 600.0
"""Seconds that a hook may continue in the background when its answer names no other number."""

_FIRST_ANSWER_BYTES = 4_096
_PLACES = re.compile(r"\$\{(CLAUDE_PROJECT_DIR|TEAMWRIGHT_PROJECT_DIR|CLAUDE_PLUGIN_ROOT|CLAUDE_PLUGIN_DATA)\}")
"""The placeholders in hooks that run without a shell."""


def hook_arguments(hook: HookSpec, shell: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the program and arguments of a hook. Raises OSError when its shell is missing."""
    if hook.arguments is not None:
        parts = (hook.command, *hook.arguments)
        return tuple(_PLACES.sub(lambda found: env.get(found[1], found[0]), part) for part in parts)
    if hook.shell != "powershell":
        return shell, "-c", hook.command
    names = ("pwsh", "powershell")
    found = next((path for name in names if (path := find_program(name, env.get("PATH", os.defpath)))), None)
    if found is None:
        raise OSError("there is no PowerShell here (pwsh)")
    return found, "-NoProfile", "-NonInteractive", "-Command", hook.command


class _FirstAnswer(ProcessOutput):
    """An output that reports the JSON object in its first line as soon as it is there."""

    def __init__(self, report: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(MAX_OUTPUT)
        self._report: Callable[[dict[str, Any]], None] | None = report

    def feed(self, chunk: bytes) -> None:
        super().feed(chunk)
        if self._report is None:
            return
        line, end, _ = self.head().lstrip().partition("\n")
        if not end and not line.rstrip().endswith("}") and self.total < _FIRST_ANSWER_BYTES:
            return
        try:
            answer: Any = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
            if not end and self.total < _FIRST_ANSWER_BYTES:
                return
        report, self._report = self._report, None
        if isinstance(answer, dict):
            report(cast("dict[str, Any]", answer))


class HookProcess(Struct):
    """A running hook. `background_s` is above 0 once it answered that it continues in the background."""

    hook: HookSpec
    process: Process
    output: ProcessOutput
    errors: ProcessOutput
    background_s: float = 0.0

    @classmethod
    def start(cls, hook: HookSpec, command: ProcessCommand) -> HookProcess:
        """Start the hook as this command, whose standard input is the hook's. Raises OSError when it cannot start."""
        running: HookProcess | None = None

        def note_answer(answer: dict[str, Any]) -> None:
            if running is not None and not hook.detached and answer.get("async") is True:
                running.continue_in_background(answer.get("asyncTimeout"))

        output = _FirstAnswer(note_answer)
        errors = ProcessOutput(MAX_OUTPUT)
        running = cls(hook, Process.start(command, output, errors), output, errors)
        return running

    def continue_in_background(self, timeout_ms: object) -> None:
        """Stop waiting for the hook, which may run for so many milliseconds."""
        is_number = isinstance(timeout_ms, int | float) and not isinstance(timeout_ms, bool) and timeout_ms > 0
        seconds = float(cast("float", timeout_ms)) / 1_000 if is_number else BACKGROUND_TIMEOUT_S
        self.background_s = min(seconds, MAX_TIMEOUT_S)
        self.process.moved_to_background.set()

    async def wait(self) -> HookOutcome | None:
        """Wait for its end and return its outcome; None when it continues in the background."""
        in_time = True
        continues = False
        try:
            in_time = await wait_or_terminate(self.process, timeout_s=self.hook.timeout_s, grace_s=GRACE_S)
            continues = in_time and not self.process.exited.is_set()
        finally:
            if not continues:
                self.process.close()
        return None if continues else self._outcome(0 if in_time else self.hook.timeout_s)

    async def wait_in_background(self) -> HookOutcome:
        """Wait for the end of a hook that continues in the background, and return its outcome."""
        if not self.process.exited.is_set():
            self.process.moved_to_background.clear()
        try:
            in_time = await wait_or_terminate(self.process, timeout_s=self.background_s, grace_s=GRACE_S)
        finally:
            self.process.close()
        return self._outcome(0 if in_time else self.background_s)

    def _outcome(self, ended_after_s: float) -> HookOutcome:
        if ended_after_s:
            return HookOutcome(problem=f"it was ended after {ended_after_s:g} s")
        if self.output.is_cut:
            return HookOutcome(problem=f"it printed {self.output.total:,} bytes, more than is read")
        code = self.process.exit_code
        text = self.output.text()
        errors = self.errors.text()
        if self.background_s:
            text = text.lstrip().partition("\n")[2]  # its first line was the answer that it continues
        if self.hook.wakes and code == REFUSAL_EXIT_CODE:
            return HookOutcome(True, cut_text(errors.strip() or text.strip() or "it gave no reason"))
        return read_outcome(self.hook.event, -9 if code is None else code, text, errors)
