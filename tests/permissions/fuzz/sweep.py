"""The systematic run: all lines are judged first, and those that are allowed run many in one order of the sandbox.

Depends on the judge and on rounds, which run a line alone when there is any doubt about it. Does not make lines.
"""

from __future__ import annotations

import time

from tests.permissions.fuzz.judging import PLAIN, READING, Configuration, Judge
from tests.permissions.fuzz.rounds import Report, Round
from tests.permissions.fuzz.systematic import systematic_lines

_TOGETHER = 100
"""Lines of one order."""


class Sweep:
    """Tries all lines of programs, each once, under the strictest of two configurations that allows it.

    Rules that deny only take away, so a line that is refused without rules is not judged with them; and what shows
    nothing of all secrets shows nothing of some.
    """

    def __init__(self, judge: Judge, made: Round) -> None:
        self._judge = judge
        self._made = made
        self._found: dict[str, Configuration | None] = {}
        self._waiting: dict[str, list[str]] = {READING.name: [], PLAIN.name: []}
        self.report: Report = made.report

    def try_program(self, name: str) -> Report:
        """Try every line of a program; return what this program alone came to."""
        before = self.report.tried, self.report.allowed, self.report.runs, self.report.wrong_lines
        began, known = time.monotonic(), len(self.report.wrong)
        tried: set[str] = set()
        for line in systematic_lines([name], lambda line: self._configuration(line) is not None):
            if line not in tried:
                tried.add(line)
                self._try(line)
        for configuration in (READING, PLAIN):
            self._run(configuration)
        self._found.clear()
        after = self.report.tried, self.report.allowed, self.report.runs, self.report.wrong_lines
        seconds = time.monotonic() - began
        self.report.seconds += seconds
        counts = dict(zip(("tried", "allowed", "runs", "wrong_lines"), map(int.__sub__, after, before), strict=True))
        return Report(self.report.seed, **counts, seconds=seconds, wrong=self.report.wrong[known:])

    def _configuration(self, line: str) -> Configuration | None:
        """The configuration under which the line is run, or None when it is not allowed."""
        if line not in self._found:
            allowed = self._judge.allowed(line, PLAIN) is not None
            denied = allowed and self._judge.allowed(line, READING) is None
            self._found[line] = (PLAIN if denied else READING) if allowed else None
        return self._found[line]

    def _try(self, line: str) -> None:
        self.report.tried += 1
        configuration = self._configuration(line)
        if configuration is not None:
            self.report.allowed += 1
            self._waiting[configuration.name].append(line)
            if len(self._waiting[configuration.name]) == _TOGETHER:
                self._run(configuration)

    def _run(self, configuration: Configuration) -> None:
        lines, self._waiting[configuration.name] = self._waiting[configuration.name], []
        for line in self._judge.suspects(lines, configuration) if lines else ():
            self._made.examine(line, configuration)
        self.report.runs, self.report.timed_out = self._judge.runs, self._judge.timed_out
