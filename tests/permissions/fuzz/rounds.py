"""Rounds of the fuzz: lines are made, judged, counted; what is wrong is made short and told once.

Depends on the generator and the judge. Prints nothing.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.permissions.fuzz.generator import Generator, option_rows
from tests.permissions.fuzz.judging import CONFIGURATIONS, OWN_SHELL, READING, Configuration, Judge, Wrong
from tests.permissions.fuzz.minimise import minimise
from tests.permissions.fuzz.product_runs import framed

LEAST_ALLOWED = 0.2
"""The share of lines that must be allowed, or a run proves nothing."""
_AIM = 0.3
_INTERESTING = re.compile(r"\.\.|[~/$*?\[{]|env|peek|gone|out|up|MARK|mark|[Ss]ecret|SECRET|names|export|declare|set")
_DULL = 0.3
"""The share of other lines that are tried: they name neither a secret nor a mark."""
_SAME = 3
"""After so many of one kind of wrong lines the others are counted only."""
_PLAIN = (
    "",
    " a.py",
    " x a.py",
    " a.py b.py",
    " p a.py",
    " '{print}' a.py",
    " --version",
    " src",
    " -l",
    " -v x",
    " .",
)
SHARES = {"reading": 10, "plain": 3, "editing": 3, "rules": 2, "bypass": 2}
SHARES_IN_A_SHELL = {"own_shell": 4, "reading": 1, "editing": 1}
SHARES_IN_THE_READ_POLICY = {"confined": 1}


@dataclass(slots=True)
class Report:
    """What a run did. `wrong`: distinct wrong allows, made short; `wrong_lines` counts all of them."""

    seed: str
    tried: int = 0
    allowed: int = 0
    runs: int = 0
    timed_out: int = 0
    wrong_lines: int = 0
    seconds: float = 0.0
    wrong: list[Wrong] = field(default_factory=list[Wrong])

    @property
    def share(self) -> float:
        """The share of lines that were allowed."""
        return self.allowed / max(1, self.tried)

    def __str__(self) -> str:
        allowed = f"{self.allowed} allowed ({self.share:.0%})"
        wrong = f"{self.wrong_lines} wrong allows ({len(self.wrong)} distinct)"
        return f"seed {self.seed}: {self.tried} lines, {allowed}, {wrong}, {self.runs} runs in {self.seconds:.0f} s"


class Round:
    """One seed in one sandbox. `found` is called with each distinct wrong allow."""

    def __init__(
        self,
        judge: Judge,
        seed: str,
        favour: Sequence[str] = (),
        shares: dict[str, int] = SHARES,
        found: Callable[[Wrong], None] = lambda wrong: None,
        shorten: bool = True,
    ) -> None:
        self._judge = judge
        self._generator = Generator(seed, favour)
        self._random = random.Random(f"{seed} configurations")
        self._configurations = [CONFIGURATIONS[name] for name in shares]
        self._weights = list(shares.values())
        self._found = found
        self._shorten = shorten
        self._kinds: dict[tuple[str, ...], int] = {}
        self._known: set[str] = set()
        self._seen: set[tuple[str, str]] = set()
        self.report = Report(seed)

    def play(self, lines: int = 1 << 60, seconds: float = 1e9, stop_at: int = 1 << 30) -> Report:
        """Try so many lines, for so long, until so many distinct wrong allows were found."""
        began = time.monotonic()
        while self.report.tried < lines and len(self.report.wrong) < stop_at:
            if time.monotonic() - began > seconds:
                break
            configuration = self._random.choices(self._configurations, self._weights)[0]
            line = self._generator.line(configuration.name, self.report.share < _AIM)
            if configuration is OWN_SHELL:
                line = framed(line, self._random)
            if _INTERESTING.search(line) or self._random.random() < _DULL:
                self.try_line(line, configuration)
        self.report.seconds += time.monotonic() - began
        return self.report

    def try_line(self, line: str, configuration: Configuration) -> None:
        """Judge one line, unless it was tried before."""
        report = self.report
        if (line, configuration.name) in self._seen:
            return
        self._seen.add((line, configuration.name))
        report.tried += 1
        if self._judge.allowed(line, configuration) is None:
            return
        report.allowed += 1
        self.examine(line, configuration)

    def examine(self, line: str, configuration: Configuration) -> None:
        """Run an allowed line alone, and take it into the report when that was wrong."""
        wrong = self._judge.judge(line, configuration)
        self.report.runs, self.report.timed_out = self._judge.runs, self._judge.timed_out
        if wrong is None:
            self._generator.keep(line, configuration.name)
        else:
            self._take(wrong, configuration)

    def _take(self, wrong: Wrong, configuration: Configuration) -> None:
        self.report.wrong_lines += 1
        kind = (configuration.name, wrong.effect, _program_of(wrong.line))
        if self._kinds.get(kind, 0) >= _SAME:
            return
        self._kinds[kind] = self._kinds.get(kind, 0) + 1

        def same(line: str) -> bool:
            found = self._judge.judge(line, configuration)
            return found is not None and found.effect == wrong.effect

        short = minimise(wrong.line, same) if self._shorten else wrong.line
        if short in self._known:
            return
        self._known.add(short)
        shown = self._judge.judge(short, configuration) or wrong
        group = self._judge.group_of(shown)
        shown = replace(shown, detail=f"({group}) {shown.detail}") if group else shown
        kind = (configuration.name, wrong.effect, "short", _program_of(shown.line))
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        if self._kinds[kind] <= _SAME:
            self.report.wrong.append(shown)
            self._found(shown)


def _program_of(line: str) -> str:
    words = line.split()
    return " ".join(words[:2] if words[:1] == ["git"] else words[:1])


def allowed_programs(judge: Judge) -> tuple[str, ...]:
    """The programs with which a plain line is allowed: those of the tables, whatever their form."""
    return tuple(name for name in option_rows() if any(judge.allowed(name + rest, READING) for rest in _PLAIN))
