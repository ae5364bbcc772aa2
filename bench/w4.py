"""W4: the cost of a tool call and of a whole turn, its growth with members and calls, memory and spawn time.

There are two units. `call`: one model call and its one tool call, in a prompt of ten or more. `turn`: a prompt, a
model call with one tool call, and the answer; other programs of the field are measured in this unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bench.fresh import best, figures_of, model_server
from bench.report import Goal, Report

COLUMNS = (
    "what", "unit", "members", "calls", "prompts", "cpu_ms", "floor_ms", "x_floor", "wall_ms", "spawn_ms", "fresh_kb",
    "kb", "files",
)  # fmt: skip


class Size(NamedTuple):
    """Members, tool calls of each prompt, prompts of each member."""

    members: int
    calls: int
    prompts: int = 1


SIZES = (Size(1, 10), Size(10, 10), Size(100, 10), Size(1000, 10), Size(1, 200), Size(10, 200), Size(100, 200),
         Size(1000, 200))  # fmt: skip
QUICK = (Size(10, 10), Size(100, 10), Size(10, 200))
RULES = (Size(1, 10), Size(10, 10), Size(100, 10), Size(10, 200))
MCP = (Size(10, 10), Size(10, 200))
TURNS = (Size(10, 1, 10), Size(100, 1, 10))
TEXT = Size(10, 0, 10)
"""Turns of a prompt and an answer."""
TEAM_SIZES = (10, 300, 600)
"""Members of the team in which a spawn is measured."""
CALL_FLOOR_MS = 0.03
TURN_FLOOR_MS = 0.06
"""CPU time of the two baselines on the machine of the goals."""
LONG = 50_000
"""Tool calls in all above which a variant is measured once."""


def run(rounds: int, *, quick: bool) -> Report:
    """Measure all variants and return them with the goals."""
    report = Report("w4", COLUMNS)
    for size in QUICK if quick else SIZES:
        kinds = ("layers", "mcp") if size in MCP else ("layers",)  # alternating: they are compared
        report.rows += _measure(kinds, size, rounds)
    for size in QUICK if quick else RULES:
        report.rows += _measure(("rules",), size, rounds)
    for size in QUICK[:1] if quick else RULES:
        with model_server(str(size.calls)) as url:
            report.rows += _measure(("http",), size, rounds, url)
    for size in TURNS[:1] if quick else TURNS:
        report.rows += _measure(("layers", "member"), size, rounds)
    report.rows += _measure(("layers", "member"), TEXT, rounds)
    report.rows += _spawns(TEAM_SIZES[:1] if quick else TEAM_SIZES, rounds)
    report.goals = _goals(report.rows)
    report.notes = [
        "layers: transcript, permissions, events and mail look-up on, instant model. rules: also 20 rules and 2 hooks",
        "at every call. mcp: also 50 tools of a configured server. http: through the HTTP adapter. member: a whole",
        "member through the public API, with message, wake-up, roster and idle notice. spawn: CPU time of one spawn",
        "until its first model request, in a team of that many members. Baseline: the lines of the transcript, encoded",
        "and appended; for http also a bare socket. kb: memory of a member after its turns; fresh_kb: before them.",
        "files: open files of the whole process.",
    ]
    return report


def _measure(kinds: Sequence[str], size: Size, rounds: int, url: str = "") -> list[dict[str, Any]]:
    """Return one row a kind; the baseline and the kinds alternate."""
    spec = {**size._asdict(), "url": url}
    floor = "http" if url else "append" if _unit(size) == "call" else "turn"
    ours: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    floors: list[dict[str, Any]] = []
    for _ in range(1 if size.members * size.calls > LONG else rounds):
        floors.append(figures_of("bench.w4_floor", {**spec, "kind": floor}))
        for kind in kinds:
            ours[kind].append(figures_of("bench.w4_process", {**spec, "kind": kind}))
    return [_row(kind, size, best(ours[kind]), best(floors)) for kind in kinds]


def _unit(size: Size) -> str:
    return "call" if size.calls > 1 else "turn"


def _row(kind: str, size: Size, found: dict[str, Any], least: dict[str, Any]) -> dict[str, Any]:
    if size.members < 100:
        found["kb"] = found["fresh_kb"] = None  # too few members to tell their pages from those of the process
    return {
        "what": kind,
        "unit": _unit(size),
        **size._asdict(),
        **found,
        "floor_ms": least["cpu_ms"],
        "x_floor": found["cpu_ms"] / least["cpu_ms"],
    }


def _spawns(sizes: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """Return one row a size of the team."""
    figures = best([figures_of("bench.w4_process", {"kind": "spawn", "sizes": sizes}) for _ in range(rounds)])
    return [{"what": "spawn", "members": size, "spawn_ms": figures[str(size)]} for size in sizes]


def _goals(rows: list[dict[str, Any]]) -> list[Goal]:
    by = {(row["what"], Size(row["members"], row["calls"], row["prompts"])): row for row in rows if "calls" in row}
    few, long = by["layers", Size(10, 10)], by["layers", Size(10, 200)]
    many = max((row for key, row in by.items() if key[0] == "layers" and key[1][1:] == (10, 1)), key=_members)
    slowness = few["floor_ms"] / CALL_FLOOR_MS
    goals = [
        Goal("tool call of 10 members, CPU ms", few["cpu_ms"], 0.3, 0.1, slowness),
        Goal(f"{many['members']} members over 10, each over its baseline", many["x_floor"] / few["x_floor"], 1.2),
        Goal("200 calls over 10, 10 members, CPU ms a call", long["cpu_ms"] / few["cpu_ms"], 1.2, 1.05),
        Goal("200 calls over 10, each over its baseline", long["x_floor"] / few["x_floor"], 1.2, 1.05),
    ]
    for calls in (10, 200):
        plain, served = by["layers", Size(10, calls)], by["mcp", Size(10, calls)]
        what = f"50 MCP tools over none, 10 members, {calls} calls, CPU ms a call"
        goals.append(Goal(what, served["cpu_ms"] / plain["cpu_ms"], 1.05))
    goals.append(Goal(f"kB a member after 10 calls, {many['members']} members", many["kb"], 74, 37))
    return [*goals, *_turn_goals(by), *_spawn_goals(rows, slowness)]


def _turn_goals(by: dict[tuple[str, Size], dict[str, Any]]) -> list[Goal]:
    layers, member = by["layers", TURNS[0]], by["member", TURNS[0]]
    slowness = layers["floor_ms"] / TURN_FLOOR_MS
    goals = [
        Goal("turn of the layers, 10 members, CPU ms", layers["cpu_ms"], 0.3, 0.1, slowness),
        Goal("turn of a whole member, 10 members, CPU ms", member["cpu_ms"], 1.0, 0.6, slowness),
    ]
    largest = by.get(("member", TURNS[-1]))
    if largest is not None:
        what = f"kB a whole member after 10 turns, {largest['members']} members"
        goals.append(Goal(what, largest["kb"], 74, 37))
    return goals


def _spawn_goals(rows: list[dict[str, Any]], slowness: float) -> list[Goal]:
    spawns = [row for row in rows if row["what"] == "spawn"]
    least, most = spawns[0], spawns[-1]
    goals = [Goal(f"spawn in a team of {most['members']}, CPU ms", most["spawn_ms"], None, 3.0, slowness)]
    if most is not least:
        what = f"spawn in a team of {most['members']} over {least['members']}, CPU ms"
        goals.append(Goal(what, most["spawn_ms"] / least["spawn_ms"], 1.5))
    return goals


def _members(row: dict[str, Any]) -> int:
    return row["members"]
