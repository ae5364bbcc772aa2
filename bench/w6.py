"""W6: the transcript: one more kilobyte at the end of a long one, and resuming it.

Resuming is measured until the conversation can make its next request: every line is there, encoded as it is sent.
"""

from __future__ import annotations

from typing import Any

from bench.fresh import best, figures_of
from bench.report import Goal, Report

COLUMNS = (
    "messages", "append_us", "floor_append_us", "x_append", "resume_ms", "floor_resume_ms", "x_resume",
    "resume_wall_ms",
)  # fmt: skip
SIZES = (100, 1_000, 10_000)
QUICK = (100, 10_000)
FLOOR_US = 4.9
FLOOR_MS = 64.0
"""CPU of the floors on the machine that the goals were set on."""


def run(rounds: int, *, quick: bool) -> Report:
    """All sizes and the goals."""
    report = Report("w6", COLUMNS)
    report.rows = [_measured(messages, rounds) for messages in (QUICK if quick else SIZES)]
    long, short = report.rows[-1], report.rows[0]
    report.goals = [
        Goal("append at 10,000 messages, CPU µs", long["append_us"], 15, 8, long["floor_append_us"] / FLOOR_US),
        Goal("append at 10,000 over 100, each over its floor", long["x_append"] / short["x_append"], 1.1),
        Goal("resume of 10,000 messages, CPU over its floor", long["x_resume"], 1.3),
        Goal("the same, CPU ms", long["resume_ms"], 1.3 * FLOOR_MS, 3, long["floor_resume_ms"] / FLOOR_MS),
    ]
    report.notes = ["Floors: one encoded line and one write; every line read and parsed. CPU but for the last column."]
    return report


def _measured(messages: int, rounds: int) -> dict[str, Any]:
    ours: list[dict[str, Any]] = []
    floors: list[dict[str, Any]] = []
    for _ in range(rounds):
        floors.append(figures_of("bench.w6_floor", {"messages": messages}))
        ours.append(figures_of("bench.w6_process", {"messages": messages}))
    found, least = best(ours), best(floors)
    return {
        "messages": messages,
        **found,
        "floor_append_us": least["append_us"],
        "x_append": found["append_us"] / least["append_us"],
        "floor_resume_ms": least["resume_ms"],
        "x_resume": found["resume_ms"] / least["resume_ms"],
    }
