"""W3: tasks: four processes drain one list, in layers of ten, each task waiting for two of the layer before.

Every claim is looked at afterwards: a task that two had, and one that was claimed before what it waits for was done,
are counted and must be none.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

from bench import peers
from bench.crew import together
from bench.fresh import figures_of
from bench.report import Goal, Report
from bench.w3_process import blockers

COLUMNS = (
    "what", "tasks", "per_s", "floor_per_s", "x_floor", "peer_per_s", "cpu_us", "floor_cpu_us", "x_cpu", "double",
    "order", "open", "peer_double",
)  # fmt: skip
WORKERS = 4
SIZES = (100, 1_000, 10_000)
QUICK = (100, 1_000)
PEER_MOST = 100
"""The peer reads every task for each claim: a thousand tasks take it minutes."""
FLOOR_PER_S = {100: 3_800.0, 1_000: 3_700.0, 10_000: 3_400.0}
"""The floor on the machine that the goals were set on."""


def run(rounds: int, *, quick: bool) -> Report:
    """All sizes and the goals."""
    report = Report("w3", COLUMNS)
    for tasks in QUICK if quick else SIZES:
        report.rows.append(_measured(tasks, rounds if tasks < 10_000 else min(rounds, 2)))
    for row in report.rows:
        slowness = FLOOR_PER_S[row["tasks"]] / row["floor_per_s"]
        what = f"claim and complete, {row['tasks']:,} tasks, wall µs a task"
        report.goals.append(Goal(what, 1e6 / row["per_s"], 1e6 / 1_500, 1e6 / 2_500, slowness))
    wrong = sum(row["double"] + row["order"] + row["open"] for row in report.rows)
    report.goals.append(Goal("double claims, order violations, tasks left", wrong, 0))
    report.notes = [
        f"{WORKERS} processes; per_s: tasks claimed and completed a second; cpu_us: CPU of all processes a task.",
        "Floor: the same files changed under the same locks by four processes of which each knows its share.",
        "The peer is ClawTeam. " + (peers.absent("clawteam") or "It looks at every task for each claim."),
    ]
    return report


def _measured(tasks: int, rounds: int) -> dict[str, Any]:
    best: dict[str, Any] = {"double": 0, "order": 0, "open": 0}
    floor: dict[str, float] = {}
    peer: dict[str, Any] = {}
    for _ in range(rounds):
        floor = _better(floor, _round(tasks, "bench.w3_floor"))
        found = _round(tasks, "bench.w3_process")
        wrong = {key: best[key] + found[key] for key in ("double", "order", "open")}
        best = {**_better(best, found), **wrong}
        if tasks <= PEER_MOST and not peers.absent("clawteam"):
            claw = _peer(tasks)
            peer = {**_better(peer, claw), "double": max(peer.get("double", 0), claw["double"])}
    return {
        "what": "claim + complete",
        "tasks": tasks,
        "per_s": best["per_s"],
        "floor_per_s": floor["per_s"],
        "x_floor": floor["per_s"] / best["per_s"],
        "peer_per_s": peer.get("per_s"),
        "cpu_us": best["cpu_us"],
        "floor_cpu_us": floor["cpu_us"],
        "x_cpu": best["cpu_us"] / floor["cpu_us"],
        "double": best["double"],
        "order": best["order"],
        "open": best["open"],
        "peer_double": peer.get("double"),
    }


def _better(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {
        "per_s": max(one.get("per_s", 0.0), other["per_s"]),
        "cpu_us": min(one.get("cpu_us", other["cpu_us"]), other["cpu_us"]),
    }


def _round(tasks: int, module: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        spec = {"root": root, "tasks": tasks, "workers": WORKERS}
        figures_of("bench.w3_process", {**spec, "kind": "lay"})
        ends = together(module, [{**spec, "kind": "worker", "number": number} for number in range(WORKERS)])
        figures = _figures(tasks, ends)
        if module == "bench.w3_floor":
            return figures
        still_open = figures_of("bench.w3_process", {**spec, "kind": "check"})["open"]
    did = [claim for end in ends for claim in end["did"]]
    return {**figures, "double": _double([id for id, _, _ in did]), "order": _order(did), "open": still_open}


def _figures(tasks: int, ends: list[dict[str, Any]]) -> dict[str, Any]:
    took = max(end["ended"] for end in ends) - min(end["began"] for end in ends)
    return {"per_s": tasks / took, "cpu_us": sum(end["cpu_s"] for end in ends) * 1e6 / tasks}


def _double(claims: list[str]) -> int:
    return sum(times - 1 for times in Counter(claims).values())


def _order(did: list[tuple[str, float, float]]) -> int:
    """Tasks that were claimed before the completion of what they wait for had even begun."""
    done = {id: completing for id, _, completing in did}
    return sum(claimed < done.get(b, float("inf")) for id, claimed, _ in did for b in blockers(int(id)))


def _peer(tasks: int) -> dict[str, Any]:
    module, python = "bench.peers.with_clawteam", peers.python_of("clawteam")
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        spec = {"root": root, "tasks": tasks}
        peers.figures_of("clawteam", {**spec, "kind": "lay"})
        ends = together(module, [{**spec, "kind": "worker", "number": n} for n in range(WORKERS)], python=python)
    return {**_figures(tasks, ends), "double": _double([id for end in ends for id in end["claims"]])}
