"""W5: fan-out: what a fresh sub-agent of one turn costs, a hundred one after another and all at once.

Each is a whole one: a transcript, tools and permissions of its own, its beginning and its end in the journal.
"""

from __future__ import annotations

from typing import Any

from bench.fresh import best, figures_of
from bench.report import Goal, Report

COLUMNS = ("what", "agents", "cpu_ms", "floor_ms", "x_floor", "wall_ms", "kb", "files")
SIZES = (("row", 100), ("together", 100), ("row", 1000))
QUICK = (("row", 100), ("together", 100))
FLOOR_MS = 0.04
"""CPU of the floor on the machine that the goals were set on."""


def run(rounds: int, *, quick: bool) -> Report:
    """Both ways and the goals."""
    report = Report("w5", COLUMNS)
    report.rows = [_measured(kind, agents, rounds) for kind, agents in (QUICK if quick else SIZES)]
    row, together = report.rows[:2]
    slow = row["floor_ms"] / FLOOR_MS
    report.goals = [
        Goal("sub-agent of one turn, one after another, CPU ms", row["cpu_ms"], 0.25, 0.1, slow),
        Goal("the same, a hundred at once", together["cpu_ms"], 0.25, 0.1, slow),
    ]
    if not quick:
        report.goals.append(Goal("a thousand over a hundred, each over its floor", _growth(report.rows), 1.1))
    report.notes = [
        "From the call of the lead's Agent tool to its result, instant model. Floor: a file with three encoded lines",
        "made for each, and two lines in an open file. kb: what each leaves in memory. files: open in the process.",
    ]
    return report


def _growth(rows: list[dict[str, Any]]) -> float:
    return rows[2]["x_floor"] / rows[0]["x_floor"]


def _measured(kind: str, agents: int, rounds: int) -> dict[str, Any]:
    ours: list[dict[str, Any]] = []
    floors: list[dict[str, Any]] = []
    for _ in range(rounds):
        spec = {"kind": kind, "agents": agents}
        floors.append(figures_of("bench.w5_floor", spec))
        ours.append(figures_of("bench.w5_process", spec))
    found, least = best(ours), best(floors)
    what = "one after another" if kind == "row" else "all at once"
    made = {"floor_ms": least["cpu_ms"], "x_floor": found["cpu_ms"] / least["cpu_ms"]}
    return {"what": what, "agents": agents, **found, **made}
