"""W6: the transcript: one more kilobyte at the end of a long conversation, and resuming it.

A resume is measured until the conversation can send its next request. A conversation that was compacted needs only what
the compaction left: a window of a model never contains 10,000 messages of one kilobyte.
"""

from __future__ import annotations

from typing import Any

from bench.fresh import best, figures_of
from bench.report import Goal, Report

COLUMNS = (
    "messages", "kept", "append_us", "floor_append_us", "x_append", "resume_ms", "floor_resume_ms", "x_resume",
    "resume_wall_ms",
)  # fmt: skip
SIZES = (100, 1_000, 10_000)
QUICK = (100, 10_000)
COMPACTED = 10_000, 100
"""Messages of a compacted conversation, and those after its compaction."""
FLOOR_US = 4.9
FLOOR_MS = 64.0
"""CPU time of the baselines on the machine of the goals."""
READY_MS = 3.0
"""CPU time after which the next turn can begin."""


def run(rounds: int, *, quick: bool) -> Report:
    """Measure all sizes and return them with the goals."""
    report = Report("w6", COLUMNS)
    report.rows = [_measure(messages, rounds) for messages in (QUICK if quick else SIZES)]
    long, short = report.rows[-1], report.rows[0]
    compacted = best([_process(*COMPACTED) for _ in range(rounds)])
    report.rows.append({"messages": COMPACTED[0], "kept": COMPACTED[1], **compacted})
    slowness = long["floor_resume_ms"] / FLOOR_MS
    report.goals = [
        Goal("append at 10,000 messages, CPU µs", long["append_us"], 15, 8, long["floor_append_us"] / FLOOR_US),
        Goal("append at 10,000 over 100, each over its baseline", long["x_append"] / short["x_append"], 1.1),
        Goal("resume of 10,000 messages, CPU over its baseline", long["x_resume"], 1.3),
        Goal("ready for the next turn, 10,000 messages, CPU ms", long["resume_ms"], None, READY_MS, slowness),
        Goal("ready for the next turn, compacted, CPU ms", compacted["resume_ms"], None, READY_MS, slowness),
    ]
    report.notes = [
        "Baselines: one encoded line and one write; every line read and parsed. CPU time but for the last column.",
        "kept: messages after the compaction of the conversation; without it nothing was compacted.",
    ]
    return report


def _process(messages: int, kept: int = 0) -> dict[str, Any]:
    return figures_of("bench.w6_process", {"messages": messages, "kept": kept})


def _measure(messages: int, rounds: int) -> dict[str, Any]:
    ours: list[dict[str, Any]] = []
    floors: list[dict[str, Any]] = []
    for _ in range(rounds):
        floors.append(figures_of("bench.w6_floor", {"messages": messages}))
        ours.append(_process(messages))
    found, least = best(ours), best(floors)
    return {
        "messages": messages,
        **found,
        "floor_append_us": least["append_us"],
        "x_append": found["append_us"] / least["append_us"],
        "floor_resume_ms": least["resume_ms"],
        "x_resume": found["resume_ms"] / least["resume_ms"],
    }
