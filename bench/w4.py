"""W4: what a tool turn costs, how it grows with members and turns, and what a member weighs.

Reported three times: all layers on with an instant model; with twenty permission rules and two hooks that match every
call; through the HTTP adapter against a server in another process.
"""

from __future__ import annotations

from typing import Any

from bench.fresh import best, figures_of, model_server
from bench.report import Goal, Report

COLUMNS = (
    "what", "members", "turns", "cpu_ms", "floor_ms", "x_floor", "wall_ms", "spawn_ms", "fresh_kb", "kb", "files",
)  # fmt: skip
SIZES = ((1, 10), (10, 10), (100, 10), (1000, 10), (1, 200), (10, 200), (100, 200), (1000, 200))
QUICK = ((10, 10), (100, 10), (10, 200))
RULES = ((1, 10), (10, 10), (100, 10), (10, 200))
FLOOR_MS = 0.03
"""CPU of the floor on the machine that the goals were set on."""
TEAM = ((200, 10),)
LONG = 50_000
"""Tool turns in all beyond which a variant is measured once."""


def run(rounds: int, *, quick: bool) -> Report:
    """All variants and the goals."""
    report = Report("w4", COLUMNS)
    sizes = QUICK if quick else SIZES
    for members, turns in sizes:
        report.rows.append(_measured("layers", members, turns, rounds))
    for members, turns in QUICK if quick else RULES:
        report.rows.append(_measured("rules", members, turns, rounds))
    for members, turns in QUICK[:1] if quick else RULES:
        with model_server(str(turns)) as url:
            report.rows.append(_measured("http", members, turns, rounds, url))
    for members, turns in TEAM:
        report.rows.append(_measured("team", members, turns, 1 if quick else rounds))
    report.goals = _goals(report.rows)
    report.notes = [
        "layers: transcript, permissions, events and mail look-up on, instant model. rules: the same with 20 rules and",
        "2 hooks (functions) at every call. http: through the adapter. team: spawned whole, woken by a letter each,",
        "their idle notices sent. Floor: the lines encoded and appended; for http also a bare socket.",
        "kb: memory of a member after its turns; fresh_kb: before them. files: open in the whole process.",
    ]
    return report


def _measured(kind: str, members: int, turns: int, rounds: int, url: str = "") -> dict[str, Any]:
    spec = {"kind": kind, "members": members, "turns": turns, "url": url}
    floor = {**spec, "kind": "http" if url else "append"}
    ours: list[dict[str, Any]] = []
    floors: list[dict[str, Any]] = []
    for _ in range(1 if members * turns > LONG else rounds):
        floors.append(figures_of("bench.w4_floor", floor))
        ours.append(figures_of("bench.w4_process", spec))
    found, least = best(ours), best(floors)
    if members < 100:
        found["kb"] = found["fresh_kb"] = None  # too few to tell a member's pages from the process's
    return {
        "what": kind,
        "members": members,
        "turns": turns,
        **found,
        "floor_ms": least["cpu_ms"],
        "x_floor": found["cpu_ms"] / least["cpu_ms"],
    }


def _goals(rows: list[dict[str, Any]]) -> list[Goal]:
    by = {(row["what"], row["members"], row["turns"]): row for row in rows}
    ten = by["layers", 10, 10]["cpu_ms"]
    slowness = by["layers", 10, 10]["floor_ms"] / FLOOR_MS
    goals = [Goal("tool turn of 10 members, CPU ms", ten, 0.3, 0.1, slowness)]
    largest = max(members for what, members, turns in by if what == "layers" and turns == 10)
    few, many, long = (by["layers", *size]["x_floor"] for size in ((10, 10), (largest, 10), (10, 200)))
    goals.append(Goal(f"{largest} members over 10, each over its floor", many / few, 1.2))
    goals.append(Goal("200 turns over 10, 10 members, CPU ms a turn", by["layers", 10, 200]["cpu_ms"] / ten, 1.2, 1.05))
    goals.append(Goal("200 turns over 10, 10 members, each over its floor", long / few, 1.2, 1.05))
    goals.append(Goal(f"kB a member after 10 turns, {largest} members", by["layers", largest, 10]["kb"], 74, 37))
    return goals
