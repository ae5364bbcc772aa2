"""The figures of a workload, the table at the end, and the JSON lines that are stored."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure and the most that it may be. `what` names figure and unit; `must` is None when there is only an aim.

    `slowness` is the baseline of this run over the baseline on the machine of the goals. The verdict divides the figure
    by it, when it is above 1.
    """

    what: str
    value: float
    must: float | None
    aim: float | None = None
    slowness: float = 1.0

    @property
    def scaled(self) -> float:
        """The figure on the machine of the goals."""
        return self.value / max(1.0, self.slowness)

    @property
    def verdict(self) -> str:
        """The goal that the figure keeps, or how far it is above."""
        if self.aim is not None and self.scaled <= self.aim:
            return "aim reached"
        if self.must is None:
            return "above the aim"
        return "must kept" if self.scaled <= self.must else f"ABOVE by {self.scaled / self.must:.2f} ×"


@dataclass(slots=True)
class Report:
    """The figures of a workload. The keys of `rows` are in `columns`; a missing one and None are shown as a dash."""

    workload: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    goals: list[Goal] = field(default_factory=list[Goal])
    notes: list[str] = field(default_factory=list[str])


def show(report: Report) -> None:
    """Print the table, the goals and the notes."""
    cells = [list(report.columns), *([_cell(row.get(name)) for name in report.columns] for row in report.rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(report.columns))]
    for row in cells:
        others = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print("  " + "  ".join([row[0].ljust(widths[0]), *others]))
    for goal in report.goals:
        bounds = [f"{name} {bound:g}" for name, bound in (("must", goal.must), ("aim", goal.aim)) if bound is not None]
        scaled = f", {goal.scaled:.3g} at the baseline of the goal" if goal.slowness > 1 else ""
        print(f"  {goal.what}: {goal.value:.3g}{scaled} ({', '.join(bounds)}): {goal.verdict}")
    for note in report.notes:
        print(f"  {note}")


def store(path: Path, reports: list[Report]) -> None:
    """Write one JSON line a row and a goal, with the time, the interpreter and the load."""
    path.parent.mkdir(exist_ok=True)
    about = {"at": round(time.time(), 3), "python": platform.python_version(), "load": round(os.getloadavg()[0], 2)}
    with path.open("a", encoding="utf-8") as file:
        for report in reports:
            for row in report.rows:
                file.write(json.dumps({"workload": report.workload, **about, **row}) + "\n")
            for goal in report.goals:
                file.write(json.dumps({"workload": report.workload, **about, "goal": asdict(goal)}) + "\n")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"
    return str(value)
