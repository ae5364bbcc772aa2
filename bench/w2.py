"""W2: waking: from the beginning of a send to the beginning of the turn that reads it, and what idling burns.

In one process, a lead's words to a teammate that waits; across processes by our doorbell, by the watcher that
notices strangers, and, to compare, by a look twice a second. Senders wait random times: no phase is favoured.
"""

from __future__ import annotations

import tempfile
from typing import Any

from bench import members, peers
from bench.crew import together
from bench.fresh import best, figures_of
from bench.report import Goal, Report

COLUMNS = ("what", "p50_us", "p99_us", "floor_p50_us", "x_floor", "peer_p50_us", "p50_ms", "p99_ms", "floor_p50_ms",
           "asked_p50_ms", "percent")  # fmt: skip
TIMES = 300
CALLS = {"bell": (200, (0.001, 0.02)), "watcher": (60, (0.05, 0.15)), "poll": (8, (0.3, 0.9))}
"""How many messages to a reader in another process, and the seconds between them, from and to."""
MEMBERS = 20
FLOOR_US = 75.0
FLOOR_MS = 0.1
"""Wall time of the floors on the machine that the goals were set on."""


def run(rounds: int, *, quick: bool) -> Report:
    """All ways and the goals."""
    report = Report("w2", COLUMNS)
    report.rows = [_inside(rounds)]
    report.rows += [_row(way, 1 if way == "poll" else rounds) for way in CALLS if not (quick and way == "poll")]
    report.rows += (processes := members.wakes(rounds))
    seconds = 5 if quick else 20
    burnt = best([figures_of("bench.w2_process", {"kind": "idle", "members": MEMBERS, "seconds": seconds})])
    report.rows.append({"what": f"{MEMBERS} idle members", **burnt})
    inside, bell = report.rows[0], report.rows[1]
    slow = bell["floor_p50_ms"] / FLOOR_MS
    report.goals = [
        Goal("in one process, p50 µs", inside["p50_us"], 250, 60, inside["floor_p50_us"] / FLOOR_US),
        Goal("another process, by doorbell, p50 ms", bell["p50_ms"], 1, 0.3, slow),
        Goal("another process, by doorbell, p99 ms", bell["p99_ms"], 5, 2, slow),
        Goal(f"{MEMBERS} idle members, percent of a core", burnt["percent"], 1),
    ]
    for row in processes:
        report.goals.append(Goal(f"{row['what']}, p50 ms", row["p50_ms"], 1, 0.3, slow))
        report.goals.append(Goal(f"{row['what']}, p99 ms", row["p99_ms"], 5, 2, slow))
    report.notes = [
        "Wall time. In one process: roster, send, look, transcript, flag, model call; floor: an element in place under",
        "a lock directory, and a queue. bell: ours to ours; watcher: a stranger to a session; poll: what others do.",
        "A member's process: until its lead hears that the turn begins; asked: until its model request is there.",
        "The peer is autogen-core, in memory only. " + (peers.absent("autogen") or "Its messages reach no disk."),
    ]
    return report


def _inside(rounds: int) -> dict[str, Any]:
    ours: list[dict[str, Any]] = []
    floors: list[dict[str, Any]] = []
    other: list[dict[str, Any]] = []
    for _ in range(rounds):
        floors.append(figures_of("bench.w2_floor", {"kind": "queue", "times": TIMES}))
        ours.append(figures_of("bench.w2_process", {"kind": "session", "times": TIMES}))
        if not peers.absent("autogen"):
            other.append(peers.figures_of("autogen", {}))
    found, least = best(ours), best(floors)
    return {
        "what": "in one process",
        **found,
        "floor_p50_us": least["p50_us"],
        "x_floor": found["p50_us"] / least["p50_us"],
        "peer_p50_us": best(other)["p50_us"] if other else None,
    }


def _row(way: str, rounds: int) -> dict[str, Any]:
    times, pause = CALLS[way]
    ours = best([across("bench.w2_process", way, times, pause) for _ in range(rounds)])
    row: dict[str, Any] = {"what": f"another process, {way}", **ours}
    if way == "bell":
        least = best([across("bench.w2_floor", "datagram", times, pause) for _ in range(rounds)])
        row |= {"floor_p50_ms": least["p50_ms"], "x_floor": ours["p50_ms"] / least["p50_ms"]}
    return row


def across(module: str, way: str, times: int, pause: tuple[float, float]) -> dict[str, Any]:
    """What the reader measured; reader and sender begin together."""
    with tempfile.TemporaryDirectory(prefix="tw-") as root:
        spec = {"root": root, "times": times, "pause": pause, "reader": way}
        return together(module, [{**spec, "kind": way}, {**spec, "kind": "sender"}])[0]
