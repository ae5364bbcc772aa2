"""W10: entering teams in the event loop of a program that does other work too, and a turn beside a large archive.

Baseline of the loop: what a program sees that sleeps for a millisecond again and again. Its longest wait in CPU time of
the loop's thread is how long entering a team keeps others from running, whatever else the machine does. The homes with
and without an archive alternate, so that a busy machine slows both.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.report import Goal, Report
from bench.turns import InstantModel
from teamwright import Team
from teamwright.storage.paths import Home

COLUMNS = ("case", "held_ms", "enter_ms", "cpu_ms")
AT_ONCE = (1, 10)
ARCHIVED = 600
PAIRS = 10
"""Measurements of each kind in a round."""
HELD_MS = 20.0
"""The longest that the loop may be held after the first team of a process."""
MORE = 1.1
"""The most that a team with a turn may cost beside ARCHIVED archived teams, over one beside none."""


def run(rounds: int, *, quick: bool) -> Report:
    """Measure the cases and return them with the goals."""
    report = Report("w10", COLUMNS)
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        asyncio.run(_measure(report, Path(root), PAIRS * rounds, 20 if quick else ARCHIVED))
    report.notes = ["held: the longest CPU time between two passes of the loop; medians of the measurements."]
    return report


async def _measure(report: Report, root: Path, pairs: int, archived: int) -> None:
    homes = [root / "home", root / "large"]
    (root / "work").mkdir()
    for home in homes:
        await _enter(root, home, ["first"])
        await _enter(root, home, ["first"])  # the first team of a process also loads modules
    _fill_archive(homes[1], archived)
    for teams in AT_ONCE:
        names = [f"crew{number}" for number in range(teams)]
        found = [await _enter(root, homes[0], names) for _ in range(max(2, pairs // teams))]
        held, entering, cpu = (statistics.median(column) for column in zip(*found, strict=True))
        report.rows.append({"case": f"{teams} at once", "held_ms": held, "enter_ms": entering, "cpu_ms": cpu})
        report.goals.append(Goal(f"CPU ms that {teams} entered at once hold the loop", held, HELD_MS))
    costs: list[list[float]] = [[], []]
    for _ in range(pairs):
        for cost, home in zip(costs, homes, strict=True):
            begun = time.process_time()
            await _enter(root, home, ["crew"])
            cost.append((time.process_time() - begun) * 1000)
    for cost, case in zip(costs, ("a turn, no archive", f"a turn, {archived} archived"), strict=True):
        report.rows.append({"case": case, "cpu_ms": statistics.median(cost)})
    ratio = statistics.median(large / small for small, large in zip(*costs, strict=True))
    report.goals.append(Goal(f"a team with a turn beside {archived} archived teams over one beside none", ratio, MORE))


async def _enter(root: Path, home: Path, names: list[str]) -> tuple[float, float, float]:
    """Enter these teams at once, and run a turn in each. Return held, entering and CPU time of entering, in ms."""
    teams = [Team(name, model=InstantModel(0), cwd=root / "work", home=home, keep=False) for name in names]
    cpu = time.process_time()
    held, entering = await _beside(asyncio.gather(*(team.__aenter__() for team in teams)))
    cpu = (time.process_time() - cpu) * 1000
    for team in teams:
        await team.run("Go.")
        await team.__aexit__(None, None, None)
    return held, entering, cpu


async def _beside(work: asyncio.Future[Any]) -> tuple[float, float]:
    """Return the longest CPU time between two passes of the loop during the work, and its duration, in ms."""
    begun, longest, last = time.perf_counter(), 0.0, time.thread_time()
    while not work.done():
        await asyncio.sleep(0.001)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    work.result()
    return longest * 1000, (time.perf_counter() - begun) * 1000


def _fill_archive(home: Path, teams: int) -> None:
    archive = Home.at(home).archive
    [one, *_] = archive.iterdir()
    for number in range(teams):
        shutil.copytree(one, archive / f"{one.name}-{number}")
