"""W1: the mailbox: the cost of a send and a receive after many messages, and several processes that write at once.

Sends and receives are also measured in memory, because a slow disk hides the cost of the code. Every message is
searched afterwards: the number of lost and doubled messages must be 0.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench import peers
from bench.crew import together
from bench.fresh import best, figures_of, memory_directory
from bench.letters import paths
from bench.report import Goal, Report
from bench.w1_floor import array
from teamwright.mail.inbox import read_entries

COLUMNS = (
    "what", "messages", "us", "floor_us", "x_floor", "wall_us", "floor_wall_us", "x_wall", "peer_us", "per_s",
    "floor_per_s", "peer_per_s", "lost",
)  # fmt: skip
CONSUMED = (1, 100, 1_000, 10_000, 100_000)
QUICK = (1, 1_000)
IN_MEMORY = (1, 10_000)
UNREAD = 960
"""Entries that stay unread during the measurement; the limit is 1,000."""
ARCHIVED_PAST = 75
"""Elements of an inbox with many read messages: those beyond 50 to 100 are in the archive."""
MEMORY = ", in memory"
WRITERS = 4
EACH = 240
"""Messages of a writer to an inbox: those of four writers stay below 1,000."""
RECEIVE_FLOOR_US = 15.0
FLOOR_PER_S = 11_500.0
"""The baselines on the machine of the goals: CPU time of a receive, wall time of the writers."""


def run(rounds: int, *, quick: bool) -> Report:
    """Measure all variants and return them with the goals."""
    report = Report("w1", COLUMNS)
    for consumed in QUICK if quick else CONSUMED:
        report.rows += _past(f"{consumed:,} consumed", consumed, 0, rounds)
    report.rows += _past(f"{UNREAD} unread", 0, UNREAD, rounds)
    memory = memory_directory()
    for consumed in IN_MEMORY if memory else ():
        report.rows += _past(f"{consumed:,} consumed{MEMORY}", consumed, 0, rounds, memory)
    if memory:
        report.rows += _past(f"{UNREAD} unread{MEMORY}", 0, UNREAD, rounds, memory)
    for inboxes in (1, 16):
        report.rows.append(_crowd(inboxes, 1, rounds))
        report.rows.append(_crowd(inboxes, 16, rounds))
    report.goals = _goals(report.rows)
    report.notes = [
        "us: CPU time of one send (or receive); wall_us: its wall time. Baseline of a send: a lock directory and the",
        "element in place; of a receive: the file read, the newest line parsed. per_s: messages of all writers.",
        "in memory: files in /dev/shm. " + ("" if memory else "It is not available here."),
        "The peer is ClawTeam, wall time. "
        + (peers.absent("clawteam") or "It writes one file a message, and one more that is never removed."),
    ]
    return report


def _past(what: str, consumed: int, unread: int, rounds: int, directory: str = "") -> list[dict[str, Any]]:
    ours: list[dict[str, Any]] = []
    floors: list[dict[str, Any]] = []
    claw: list[dict[str, Any]] = []
    spec = {"kind": "past", "consumed": consumed, "unread": unread}
    for _ in range(rounds if consumed <= 10_000 else 1):
        elements = (unread or 1) + min(consumed, ARCHIVED_PAST)
        floors.append(figures_of("bench.w1_floor", {"kind": "past", "elements": elements}, directory=directory))
        ours.append(figures_of("bench.w1_process", spec, directory=directory))
        if consumed <= 10_000 and not directory and not peers.absent("clawteam"):
            claw.append(peers.figures_of("clawteam", spec))
    found, least = best(ours), best(floors)
    peer = best(claw) if claw else {}
    send = {
        "us": found["send_us"],
        "floor_us": least["send_us"],
        "wall_us": found["send_wall_us"],
        "floor_wall_us": least["send_wall_us"],
        "peer_us": peer.get("send_us"),
    }
    receive = {
        "us": found["receive_us"],
        "floor_us": least["receive_us"],
        "wall_us": found["receive_wall_us"],
        "peer_us": peer.get("receive_us"),
    }
    flag = {"us": found["flag_us"]}
    rows = [
        {"what": f"{name}, {what}", "messages": consumed or unread, "lost": found["lost"], **figures}
        for name, figures in (("send", send), ("receive", receive), ("flag", flag))
    ]
    for row in rows:
        row["x_floor"] = row["us"] / row["floor_us"] if "floor_us" in row else None
        row["x_wall"] = row["wall_us"] / row["floor_wall_us"] if "floor_wall_us" in row else None
    return rows


def _crowd(inboxes: int, senders: int, rounds: int) -> dict[str, Any]:
    """Several processes at once, each with that many members who write."""
    messages = EACH * inboxes if senders == 1 else EACH * min(inboxes, 4)
    spec = {"kind": "writer", "inboxes": inboxes, "senders": senders, "messages": messages}
    ours, floors, claw = [0.0], [0.0], [0.0]
    lost = cpu = 0.0
    for _ in range(rounds):
        if senders == 1:
            floors.append(_rate(spec, "bench.w1_floor", _arrays)[0])
        rate, used, missing = _rate(spec, "bench.w1_process", _nothing)
        ours.append(rate)
        cpu = min(cpu or used, used)
        lost += missing
        if senders == 1 and not peers.absent("clawteam"):
            claw.append(_rate(spec, "bench.peers.with_clawteam", _nothing, peers.python_of("clawteam"))[0])
    among = "one inbox" if inboxes == 1 else f"{inboxes} inboxes"
    return {
        "what": f"{WRITERS} writers, {among}" + (f", {senders} members each" if senders > 1 else ""),
        "messages": WRITERS * messages,
        "us": cpu,
        "per_s": max(ours),
        "floor_per_s": max(floors) or None,
        "peer_per_s": max(claw) or None,
        "lost": int(lost),
    }


def _rate(
    spec: dict[str, Any], module: str, prepare: Callable[[Path, int], None], python: Path | None = None
) -> tuple[float, float, int]:
    """Messages a second from the first beginning to the last end, CPU microseconds of one, and how many are missing."""
    with tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        prepare(Path(root), spec["inboxes"])
        specs = [{**spec, "number": number, "root": root} for number in range(WRITERS)]
        ends = together(module, specs, python=python)
        sent = WRITERS * (spec["messages"] // spec["senders"]) * spec["senders"]
        missing = _missing(Path(root), spec, sent) if module == "bench.w1_process" else 0
    took = max(end["ended"] for end in ends) - min(end["began"] for end in ends)
    return sent / took, sum(end["cpu_s"] for end in ends) * 1e6 / sent, missing


def _nothing(_root: Path, _inboxes: int) -> None:
    """What is needed is made by who needs it."""


def _arrays(root: Path, inboxes: int) -> None:
    for number in range(inboxes):
        (root / f"m{number}.json").write_bytes(array(1))


def _missing(root: Path, spec: dict[str, Any], sent: int) -> int:
    """How many messages are not there once each, and in the order of their sender."""
    wrong = 0
    there = 0
    for number in range(spec["inboxes"]):
        entries = read_entries(paths(root, f"m{number}")[0])
        there += len(entries)
        by_sender: dict[str, list[int]] = {}
        for entry in entries:
            by_sender.setdefault(entry.sender, []).append(int(entry.text.rsplit(" ", 1)[1]))
        wrong += sum(_out_of_place(numbers) for numbers in by_sender.values())
    return abs(sent - there) + wrong


def _out_of_place(numbers: Sequence[int]) -> int:
    doubled = sum(times - 1 for times in Counter(numbers).values())
    return doubled + sum(late < early for early, late in pairwise(numbers))


def _goals(rows: list[dict[str, Any]]) -> list[Goal]:
    by = {row["what"]: row for row in rows}
    one, many = by[f"{WRITERS} writers, one inbox"], by[f"{WRITERS} writers, one inbox, 16 members each"]
    slowness = FLOOR_PER_S / one["floor_per_s"]
    on_disk = [row for row in rows if not row["what"].endswith(MEMORY)]
    in_memory = [row for row in rows if row["what"].endswith(MEMORY)]
    return [
        *_send_goals(on_disk, "x_wall", "wall time"),
        *(_send_goals(in_memory, "x_floor", "CPU time") if in_memory else ()),
        Goal("4 writers, one inbox, wall µs a message", 1e6 / one["per_s"], 1e6 / 6_000, 50, slowness),
        Goal("the same, 16 members each, wall µs a message", 1e6 / many["per_s"], 1e6 / 6_000, 50, slowness),
        Goal("messages lost, doubled or out of order", sum(row["lost"] for row in rows), 0),
    ]


def _send_goals(rows: list[dict[str, Any]], ratio: str, clock: str) -> list[Goal]:
    """Return the goals of sends and receives on one file system. Each is a ratio to a baseline of the same run."""
    sends = [row for row in rows if row["what"].startswith("send") and "consumed" in row["what"]]
    most = max((row for row in sends if row["messages"] <= 10_000), key=lambda row: row["messages"])
    [full] = [row for row in rows if row["what"].startswith(f"send, {UNREAD} unread")]
    [receive] = [row for row in rows if row["what"] == most["what"].replace("send", "receive")]
    slowness = receive["floor_us"] / RECEIVE_FLOOR_US
    return [
        Goal(f"{most['what']}, {clock} over its baseline", most[ratio], 1.6, 1.3),
        *(
            Goal(f"{row['what']} over 1, each over its baseline", row[ratio] / sends[0][ratio], 1.1)
            for row in sends[1:]
        ),
        Goal(f"{full['what']}, {clock} over its baseline", full[ratio], 2.0, 1.5),
        Goal(f"{receive['what']}, CPU µs", receive["us"], 200, 50, slowness),
    ]
