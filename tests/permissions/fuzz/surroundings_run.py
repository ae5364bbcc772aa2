"""The fuzz of surroundings as a program: `python -m tests.permissions.fuzz --surroundings [--seconds N] [--seed S]`.

Starts itself once more under bubblewrap or Landlock, where only its own directory can be written. Each case is played
in a forked process. Ends with 1 when a call that ran unasked, or the program itself, started a program of the project
or changed what it must not.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import re
import secrets
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from teamwright.processes.commands import Child, ProcessStart
from teamwright.sandbox.landlock import Restrictions, landlock_version, start_restricted
from tests.permissions.fuzz.minimise import minimise
from tests.permissions.fuzz.sandbox import ROOT, bubblewrap_works
from tests.permissions.fuzz.surroundings import MEMBER, Case, pick_case
from tests.permissions.fuzz.surroundings_calls import CallMaker
from tests.permissions.fuzz.surroundings_world import SYSTEM_PATH, SurroundedWorld
from tests.support.programs import reason

_CALLS = 40
"""Calls of one session."""
_STALLED_S = 45.0
_SAME, _SAME_NAME = 2, 8
"""After so many findings of one kind, or of one program, the others are counted only."""
_MOST_JUDGEMENTS = 24
_SHORTENING_SHARE = 0.3
"""The share of the time that findings may be made short."""
_WRITING = 1 << 1 | sum(1 << bit for bit in range(4, 15))
"""The rights of linux/landlock.h that change files: write, remove and make entries, link and move, truncate."""
_LEAST_LANDLOCK = 3
"""The version that knows all of these rights."""
_CHANGING_DEVICES = (1 << 1) | (1 << 14)


@dataclass(frozen=True, slots=True)
class Marker:
    """A finding: the shortest case that shows it, the step that left something, and what."""

    case: Case
    step: str
    left: str

    def __str__(self) -> str:
        words = " ".join(shlex.quote(one) for one in self.case.words())
        again = f"make fuzz ARGS={shlex.quote('--surroundings ' + words)}"
        trust = ", trusted" if self.case.trusted else ""
        lines = [f"MARKER {self.step}", f"    left: {self.left}"]
        lines += [f"    mode {self.case.mode}, sandbox {self.case.sandbox}{trust}"]
        lines += [f"    with: {one}" for one in self.case.surroundings]
        lines += [f"    call: {one!r}" for one in self.case.calls]
        return "\n".join([*lines, f"    again: {again}"])


@dataclass(slots=True)
class Totals:
    """What a run did."""

    seed: str
    worlds: int = 0
    ran: int = 0
    asked: int = 0
    denied: int = 0
    acts: int = 0
    markers: int = 0
    distinct: int = 0
    failures: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        pace = (self.ran + self.asked + self.denied) / max(self.seconds, 0.1) * 60
        calls = f"{self.ran} calls run, {self.asked} asked, {self.denied} denied, {self.acts} acts"
        found = f"{self.markers} markers ({self.distinct} distinct), {self.failures} cases cut off"
        return (
            f"seed {self.seed}: {self.worlds} worlds, {calls}, {found}, {pace:.0f} calls a minute, {self.seconds:.0f} s"
        )


class CasePlayer:
    """Plays cases, each in a process of its own, and ends what they leave running."""

    def __init__(self, base: Path) -> None:
        from tests.permissions.fuzz import surroundings_session  # it imports the whole program

        self._session = surroundings_session
        surroundings_session.load_program()
        self._world = SurroundedWorld(base)

    def play(self, case: Case, until: float = float("inf")) -> list[dict]:
        """Return the steps of the case as JSON values; the last one is `cut off` when it did not end.

        At `until`, of the monotonic clock, the case is ended without that.
        """
        snapshot = self._world.build(case)
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reads)
            os.setsid()
            self._session.play_case(case, self._world, snapshot, writes)
        os.close(writes)
        try:
            text, ended = _read_all(reads, until)
        finally:
            os.close(reads)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            _end_descendants()
        steps = [json.loads(line) for line in text.splitlines() if line.endswith(b"}")]
        return steps if ended else [*steps, {"what": "cut off", "outcome": "", "marks": [], "changes": {}, "check": ""}]


def _read_all(reads: int, until: float) -> tuple[bytes, bool]:
    """Return what comes until the end of the pipe, and whether it came, or the time was over."""
    chunks: list[bytes] = []
    while True:
        left_s = max(0.0, until - time.monotonic())
        ready, _, _ = select.select([reads], [], [], min(_STALLED_S, left_s))
        if not ready:
            return b"".join(chunks), time.monotonic() >= until
        chunk = os.read(reads, 65_536)
        chunks.append(chunk)
        if not chunk:
            return b"".join(chunks), True


def _end_descendants() -> None:
    """End all processes that are left: they have become children of this one."""
    for _ in range(200):
        found = Path("/proc/self/task").glob("*/children")
        children = [int(pid) for one in found for pid in one.read_text().split()]
        if not children:
            return
        for pid in children:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0)


class SurroundingsFuzz:
    """Makes cases from a seed, plays them and makes findings short."""

    def __init__(self, player: CasePlayer, seed: str, show: Callable[[Marker], None]) -> None:
        self._player, self._show = player, show
        self._seed = seed
        self._known: set[tuple[str, ...]] = set()
        self._names: Counter[str] = Counter()
        self._shortening_s = 0.0
        self.totals = Totals(seed)
        self.slow: float | None = None

    def play(self, seconds: float, worlds: int) -> None:
        """Play cases until the time is over or so many worlds were made."""
        began = time.monotonic()
        while time.monotonic() - began < seconds and self.totals.worlds < worlds:
            pick = random.Random(f"{self._seed} {self.totals.worlds}")
            case = pick_case(pick)
            case = replace(case, calls=CallMaker(pick).calls(_CALLS, case.mode))
            self.totals.worlds += 1
            self._play_one(case, began + seconds)
            self.totals.seconds = time.monotonic() - began

    def _play_one(self, case: Case, until: float) -> None:
        steps = self._player.play(case, until)
        for number, step in enumerate(steps):
            self._count(case, step)
            left = _left_by(step)
            if left is None:
                continue
            self.totals.markers += 1
            kind = _kind(step["what"], left)
            self.totals.kinds[kind] += 1
            self._names[_name(left)] += 1
            if self.totals.kinds[kind] <= _SAME and self._names[_name(left)] <= _SAME_NAME:
                before = [one["what"] for one in steps[:number] if one["what"] in case.calls]
                self._take(case, before, step["what"], left, until)

    def _count(self, case: Case, step: dict) -> None:
        if self.slow is not None and step.get("seconds", 0) > self.slow:
            print(f"slow {step['seconds']:.1f} s: {step['what'][:150]!r} {case.sandbox}", flush=True)
        if step["what"] in {"cut off", "failure"}:
            print(f"{step['what']} {step['marks']} {case.words()[:12]} after {step['outcome'][-900:]}", flush=True)
        totals = self.totals
        totals.ran += step["outcome"] == "ran"
        totals.asked += step["outcome"] == "asked"
        totals.denied += step["outcome"] == "denied"
        totals.acts += step["what"] in case.acts
        totals.failures += step["what"] in {"cut off", "failure"}

    def _take(self, case: Case, before: list[str], what: str, left: str, until: float) -> None:
        """Make a finding short and show it, unless a finding of the same short form was shown."""
        began = time.monotonic()
        allowance = max(20.0, _SHORTENING_SHARE * (self.totals.seconds + 20.0))
        if self._shortening_s < allowance and began < until:
            short, what = self._shorten(case, before, what, _name(left), until)
        else:
            short = replace(case, calls=(*before[-3:], what) if what in case.calls else (), acts=())
        self._shortening_s += time.monotonic() - began
        key = (*short.surroundings, *short.calls, _name(left))
        if key not in self._known:
            self._known.add(key)
            self.totals.distinct += 1
            self._show(Marker(short, what, left))

    def _shorten(self, case: Case, before: list[str], what: str, name: str, until: float) -> tuple[Case, str]:
        judgements = _MOST_JUDGEMENTS

        def leaves(one: Case, last: str) -> bool:
            nonlocal judgements
            judgements -= 1
            return (
                judgements >= 0
                and time.monotonic() < until
                and any(
                    step["what"] == last and (found := _left_by(step)) is not None and _name(found) == name
                    for step in self._player.play(one)
                )
            )

        is_call = what in case.calls
        alone = replace(case, calls=(what,) if is_call else (), acts=(what,) if what in case.acts else ())
        if not leaves(alone, what):
            alone = replace(alone, calls=(*before, *([what] if is_call else [])))
            for size in (16, 8, 4, 2, 1, 1, 1):  # leave out what comes before it, from the front
                shorter = replace(alone, calls=alone.calls[size:])
                if len(alone.calls) > size and leaves(shorter, what):
                    alone = shorter
        for changed in ({"trusted": False}, {"sandbox": "off"}, {"mode": "default"}):
            plainer = replace(alone, **changed)
            if plainer != alone and leaves(plainer, what):
                alone = plainer
        for one in alone.surroundings:
            fewer = replace(alone, surroundings=tuple(other for other in alone.surroundings if other != one))
            if leaves(fewer, what):
                alone = fewer
        program = name.removeprefix("ran ") if name.startswith("ran ") else ""
        for one in alone.surroundings:
            if one.startswith("path ") and one.count(" ") > 1:
                plain = " ".join([*one.split(" ")[:2], program]).rstrip()
                kept = tuple(plain if other == one else other for other in alone.surroundings)
                fewer = replace(alone, surroundings=kept)
                alone = fewer if leaves(fewer, what) else alone
        if len(alone.calls) == 1 and is_call and what.startswith("Bash("):
            fixed = alone

            def with_line(line: str) -> Case:
                return replace(fixed, calls=(f"Bash({line})",))

            line = minimise(what[5:-1], lambda line: leaves(with_line(line), f"Bash({line})"), judgements)
            alone, what = with_line(line), f"Bash({line})"
        return alone, what


def _left_by(step: dict) -> str | None:
    """Return what a step left that it must not; None for nothing."""
    if step["marks"]:
        return f"ran {step['marks'][0]}"
    if step["changes"]:
        path, what = next(iter(step["changes"].items()))
        return f"{path} {what}"
    return step["check"] or None


def _name(left: str) -> str:
    """Return what of a mark stays the same when the call is made shorter: the program or the path."""
    first, second, *_ = left.split()
    return f"{'/'.join(first.split('/')[:3])} {second}"


def _kind(what: str, left: str) -> str:
    words = re.findall(r"[\w.-]+", what)
    return " ".join([*words[: 3 if "git" in words[:2] else 2], _name(left)])


# ── the process inside ──────────────────────────────────────────────────────────────────────────────────────────


def run_inside(options: argparse.Namespace) -> int:
    """Play in this process, whose files are confined to the base directory."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what a case leaves running becomes our child
    player = CasePlayer(Path(options.inside))
    if options.cases:
        for case in json.loads(Path(options.cases).read_text()):
            print(json.dumps(player.play(Case(**{name: _frozen(value) for name, value in case.items()}))), flush=True)
        return 0
    if options.with_ or options.call or options.act:
        return _play_again(player, options)
    fuzz = SurroundingsFuzz(player, options.seed, lambda marker: print(marker, flush=True))
    fuzz.slow = 1.0 if options.verbose else None
    fuzz.play(options.seconds, options.worlds)
    print(fuzz.totals, flush=True)
    if options.verbose:
        for kind, count in fuzz.totals.kinds.most_common():
            print(f"{count:6} {kind}")
    if fuzz.totals.ran < fuzz.totals.worlds:
        print("fewer calls ran than worlds were made: this proves nothing")
        return 1
    return 1 if fuzz.totals.markers else 0


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _play_again(player: CasePlayer, options: argparse.Namespace) -> int:
    """Play one case and print its steps."""
    case = Case(
        tuple(options.with_), options.mode, options.sandbox, options.trusted, tuple(options.call), tuple(options.act)
    )
    found = False
    for step in player.play(case):
        left = _left_by(step)
        found = found or left is not None
        print(f"{step['what']}: {step['outcome'] or 'done'}{f'  MARKER {left}' if left else ''}", flush=True)
    return 1 if found else 0


# ── the process outside ─────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: list[str]) -> int:
    """Start the fuzz in a confined process and return its exit code."""
    options = parse(arguments)
    if options.inside:
        return run_inside(options)
    if missing := missing_for_surroundings():
        print(f"{missing}: nothing was run")
        return 3
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="surroundings-fuzz-")))
    inside = base / "inside"
    inside.mkdir()
    words = [sys.executable, "-I", "-c", _MAIN, str(ROOT), *arguments, f"--seed={options.seed}", f"--inside={inside}"]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(inside), "TMPDIR": str(inside)}
    try:
        print(f"seed {options.seed}", flush=True)
        child = _start_confined(words, env, inside)
        try:
            return child.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    finally:
        shutil.rmtree(base, ignore_errors=True)


_MAIN = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tests.permissions.fuzz.surroundings_run import main;"
    " sys.exit(main(sys.argv[2:]))"
)


def missing_for_surroundings() -> str:
    """Why no case can be played safely on this machine, or an empty text."""
    if not sys.platform.startswith("linux"):
        return "the fuzz of surroundings needs Linux"
    for name in ("bash", "git"):
        if shutil.which(name, path=SYSTEM_PATH) is None:
            return reason(name)
    if bubblewrap_works() or landlock_version() >= _LEAST_LANDLOCK:
        return ""
    return "neither bubblewrap nor Landlock confines a process here"


def _start_confined(words: list[str], env: dict[str, str], base: Path) -> Child:
    """Start the process; only `base` and devices can be written."""
    if bubblewrap_works():
        outer = [
            "bwrap",
            "--unshare-user",
            "--unshare-ipc",
            "--unshare-net",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
        ]
        outer += ["--dev-bind", "/proc", "/proc", "--dev", "/dev", "--bind", str(base), str(base), "--"]
        return subprocess.Popen([*outer, *words], env=env, cwd=base, start_new_session=True)
    rules = [(str(base), _WRITING), ("/dev", _CHANGING_DEVICES), ("/proc", _CHANGING_DEVICES)]
    restrictions = Restrictions(struct.pack("Q", _WRITING), rules, [], b"")
    return start_restricted(restrictions, ProcessStart(tuple(words), base, env, subprocess.DEVNULL, 1, 2))


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the flags. `--with`, `--call` and `--act` play one case again."""
    parser = argparse.ArgumentParser(prog="fuzz --surroundings")
    parser.add_argument("--surroundings", action="store_true")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--worlds", type=int, default=1 << 40, help="end after so many worlds")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--with", dest="with_", action="append", default=[], help="a surrounding: 'path bin:*'")
    parser.add_argument("--mode", default="default")
    parser.add_argument("--sandbox", default="off")
    parser.add_argument("--trusted", action="store_true")
    parser.add_argument("--call", action="append", default=[], help="a call: 'Bash(egrep one a.py)'")
    parser.add_argument("--act", action="append", default=[], help=f"a command of teamwright, or '{MEMBER}'")
    parser.add_argument("--cases", default="", help="a JSON file with cases: play each, and print its steps as JSON")
    parser.add_argument("--verbose", action="store_true", help="count the markers of each kind")
    parser.add_argument("--inside", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)
