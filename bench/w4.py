"""W4: what a tool turn costs, how it grows with members and turns, and what a member weighs.

Reported for: all layers on with an instant model; twenty permission rules and two hooks that match every call; fifty
tools of an MCP server configured; the HTTP adapter against a server in another process; whole teams.
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
MCP = ((10, 10), (10, 200))
TEAM = ((200, 10),)
LONG = 50_000
"""Tool turns in all beyond which a variant is measured once."""


def run(rounds: int, *, quick: bool) -> Report:
    """All variants and the goals."""
    report = Report("w4", COLUMNS)
    sizes = QUICK if quick else SIZES
    for members, turns in sizes:
        if (members, turns) in MCP:  # side by side: they are compared
            report.rows += _measured_together(("layers", "mcp"), members, turns, rounds)
        else:
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
        "2 hooks (functions) at every call. mcp: with 50 tools of a server configured, schemas on disk. http: through",
        "the adapter. team: spawned whole, woken by a letter each, their idle notices sent. Floor: the lines encoded",
        "and appended; for http also a bare socket.",
        "kb: memory of a member after its turns; fresh_kb: before them. files: open in the whole process.",
    ]
    return report


def _measured(kind: str, members: int, turns: int, rounds: int, url: str = "") -> dict[str, Any]:
    return _measured_together((kind,), members, turns, rounds, url)[0]


def _measured_together(
    kinds: tuple[str, ...], members: int, turns: int, rounds: int, url: str = ""
) -> list[dict[str, Any]]:
    """One row a kind; floors and kinds take turns."""
    spec = {"members": members, "turns": turns, "url": url}
    ours: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    floors: list[dict[str, Any]] = []
    for _ in range(1 if members * turns > LONG else rounds):
        floors.append(figures_of("bench.w4_floor", {**spec, "kind": "http" if url else "append"}))
        for kind in kinds:
            ours[kind].append(figures_of("bench.w4_process", {**spec, "kind": kind}))
    return [_row(kind, members, turns, best(ours[kind]), best(floors)) for kind in kinds]


def _row(kind: str, members: int, turns: int, found: dict[str, Any], least: dict[str, Any]) -> dict[str, Any]:
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
    for turns in (10, 200):
        plain, served = by["layers", 10, turns]["cpu_ms"], by["mcp", 10, turns]["cpu_ms"]
        goals.append(Goal(f"50 MCP tools over none, 10 members, {turns} turns, CPU ms a turn", served / plain, 1.05))
    goals.append(Goal(f"kB a member after 10 turns, {largest} members", by["layers", largest, 10]["kb"], 74, 37))
    return goals
