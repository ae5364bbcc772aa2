"""What a workload gives back, the table at the end, and the JSON lines that are kept."""

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
    """One figure and what it should be at most. `what` names figure and unit.

    `slowness` says how much slower the machine is than the one that the goal was set on, as its floor shows: the
    verdict is on the figure divided by it.
    """

    what: str
    value: float
    must: float
    aim: float | None = None
    slowness: float = 1.0

    @property
    def scaled(self) -> float:
        """The figure as it would be where the goal was set."""
        return self.value / max(1.0, self.slowness)

    @property
    def verdict(self) -> str:
        """Aim, must, or how far above."""
        if self.aim is not None and self.scaled <= self.aim:
            return "aim reached"
        return "must kept" if self.scaled <= self.must else f"ABOVE by {self.scaled / self.must:.2f} ×"


@dataclass(slots=True)
class Report:
    """A workload's figures: `rows` all have the keys of `columns`; None is shown as a dash."""

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
        aim = f", aim {goal.aim:g}" if goal.aim is not None else ""
        scaled = f", {goal.scaled:.3g} at the floor of the goal" if goal.slowness > 1 else ""
        print(f"  {goal.what}: {goal.value:.3g}{scaled} (must {goal.must:g}{aim}): {goal.verdict}")
    for note in report.notes:
        print(f"  {note}")


def store(path: Path, reports: list[Report]) -> None:
    """One JSON line a row and a goal, with when and where it was measured."""
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
