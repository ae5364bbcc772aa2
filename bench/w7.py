"""W7: the cost of `--help`, of one headless turn against a server in another process, and of a member process.

Baselines: an interpreter that does nothing, and one that sends the same request over a bare socket.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import members
from bench.fresh import Cost, clean_env, cost_of, model_server
from bench.report import Goal, Report
from bench.tmux import absent

COLUMNS = ("what", "cpu_ms", "wall_ms", "rss_mb", "floor_cpu_ms", "floor_rss_mb", "x_floor", "first_ms", "pss_mb")
BARE = (sys.executable, "-I", "-S", "-c")
"""An interpreter without site packages, here and on the machine of the goals."""
FLOORS_MS = {"--help": 6.0, "headless turn": 17.0}
"""CPU time of the two baselines on the machine of the goals."""
MORE = 3
"""Rounds for one round of the other workloads: a start is short, and noise is a large part of it."""

_SOCKET = """
import json, socket, sys
host, port = sys.argv[1].removeprefix("http://").split(":")
with socket.create_connection((host, int(port))) as s:
    body = json.dumps({"model": "bench", "messages": [{"role": "user", "content": "Say it."}]}).encode()
    s.sendall(b"POST /v1/messages HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
    got = b""
    while not got.endswith(b"0\\r\\n\\r\\n"):
        got += s.recv(65536)
print(len(got))
"""


def run(rounds: int, *, quick: bool) -> Report:
    """Measure the starts and return them with the goals."""
    times = rounds if quick else rounds * MORE
    report = Report("w7", COLUMNS)
    ours = [sys.executable, "-m", "teamwright"]
    with model_server("0") as url, tempfile.TemporaryDirectory(prefix="teamwright-bench-") as root:
        work = Path(root) / "work"
        work.mkdir()
        env = clean_env(ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY="sk-bench-not-a-key", TEAMWRIGHT_HOME=f"{root}/state")
        turn = [*ours, "-p", "Say it.", "--model", "claude-haiku-4-5"]
        report.rows.append(_row("--help", [*ours, "--help"], [*BARE, "pass"], env, work, times))
        report.rows.append(_row("headless turn", turn, [*BARE, _SOCKET, url], env, work, times))
    help_, turn_ = report.rows
    report.rows += members.starts(rounds)
    report.goals = [
        Goal("--help, CPU ms", help_["cpu_ms"], 22, 18, _slowness(help_)),
        Goal("headless turn, CPU ms", turn_["cpu_ms"], 200, 150, _slowness(turn_)),
        Goal("headless turn, peak RSS MB", turn_["rss_mb"], 55, 45),
    ]
    for row in report.rows[2:]:
        report.goals.append(
            Goal(f"{row['what']}: spawn to first request, ms", row["first_ms"], 450, 250, _slowness(help_))
        )
        report.goals.append(Goal(f"{row['what']}: PSS MB", row["pss_mb"], 45, 36))
    report.notes = ["Baselines: `python -I -S -c pass`; the same request over a bare socket, `-I -S` too. " + absent()]
    return report


def _slowness(row: dict[str, Any]) -> float:
    return row["floor_cpu_ms"] / FLOORS_MS[row["what"]]


def _row(
    what: str, ours: Sequence[str], floor: Sequence[str], env: dict[str, str], cwd: Path, times: int
) -> dict[str, Any]:
    costs: list[Cost] = []
    floors: list[Cost] = []
    for _ in range(times):
        floors.append(cost_of(floor, env, cwd))
        costs.append(cost_of(ours, env, cwd))
    cpu, least = min(c.cpu_s for c in costs), min(c.cpu_s for c in floors)
    return {
        "what": what,
        "cpu_ms": cpu * 1_000,
        "wall_ms": min(c.wall_s for c in costs) * 1_000,
        "rss_mb": min(c.rss_mb for c in costs),
        "floor_cpu_ms": least * 1_000,
        "floor_rss_mb": min(c.rss_mb for c in floors),
        "x_floor": cpu / least,
    }
