"""W8: the start of a command in the sandbox, by each implementation that works here.

Baseline: the same command without confinement. The rounds alternate, so that a busy machine slows all of them.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.report import Goal, Report
from teamwright.processes.commands import Child, ProcessStart, start_unconfined
from teamwright.sandbox.bubblewrap import Bubblewrap, probe_bubblewrap
from teamwright.sandbox.command_policy import ConfinementRequest, SandboxPaths, make_policy
from teamwright.sandbox.landlock import Landlock, probe_landlock
from teamwright.sandbox.policy import PolicyName

COLUMNS = ("what", "median_ms", "fastest_ms", "over_bare_ms", "cpu_ms")
STARTS = 15
"""Starts in each round."""
MUST_MS = {"landlock": 5.0, "bubblewrap": 15.0}
"""The most that a start may take longer than a bare one."""


def run(rounds: int, *, quick: bool) -> Report:
    """Measure the starts and return them with the goals."""
    report = Report("w8", COLUMNS)
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        ways = _ways(Path(root))
        times: dict[str, list[float]] = {name: [] for name in ways}
        cpu = dict.fromkeys(ways, 0.0)
        for confinement in ways.values():
            _start_ms(confinement, Path(root))  # files are in memory afterwards
        for _ in range(STARTS if quick else rounds * STARTS):
            for name, confinement in ways.items():
                before = _cpu_ms()
                times[name].append(_start_ms(confinement, Path(root)))
                cpu[name] += _cpu_ms() - before
    bare = min(times["bare"])
    for name, taken in times.items():
        over = min(taken) - bare
        row = {"what": name, "median_ms": statistics.median(taken), "fastest_ms": min(taken), "over_bare_ms": over}
        report.rows.append({**row, "cpu_ms": cpu[name] / len(taken)})
        if name in MUST_MS:
            report.goals.append(Goal(f"{name}: the fastest start over a bare one, ms", over, MUST_MS[name]))
    left = ", ".join(name for name in MUST_MS if name not in times)
    report.notes = [f"`bash -c :` in the policy work. {f'Not here: {left}.' if left else ''}".rstrip()]
    return report


def _ways(root: Path) -> dict[str, Bubblewrap | Landlock | None]:
    """Return the implementations that work here with the policy of a command, and None for a bare start."""
    home = os.path.expanduser("~")
    place = SandboxPaths(home, (), (), str(root / "tmp"), dict(os.environ))
    policy = make_policy(ConfinementRequest(PolicyName.WORK, (root,)), place)
    ways: dict[str, Bubblewrap | Landlock | None] = {"bare": None}
    program = shutil.which("bwrap")
    abilities = probe_bubblewrap(program) if program is not None else None
    if abilities is not None:
        ways["bubblewrap"] = Bubblewrap(abilities, policy)
    if version := probe_landlock():
        ways["landlock"] = Landlock(version, policy)
    return ways


def _cpu_ms() -> float:
    """Return the processor time of this process and of its ended children, in milliseconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) * 1000


def _start_ms(confinement: Bubblewrap | Landlock | None, cwd: Path) -> float:
    nothing = subprocess.DEVNULL
    start = ProcessStart(("bash", "-c", ":"), cwd, dict(os.environ), nothing, nothing, nothing)
    began = time.perf_counter()
    child: Child = start_unconfined(start) if confinement is None else confinement.start(start)
    child.wait()
    return (time.perf_counter() - began) * 1000
