"""The one runner: `python -m bench [w1 w4 …] [--rounds N] [--quick] [--peers]`. Tables here, JSON lines in results/."""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
from pathlib import Path

from bench import peers
from bench.report import Report, show, store

WORKLOADS = {
    "w1": "the mailbox: sends and receives, whatever lies behind, and writers at once",
    "w2": "waking: from a send to the turn of an idle member, in one process and across two",
    "w3": "tasks: four processes that drain one list",
    "w4": "tool turns of many members in one process, and the memory they take",
    "w5": "fan-out: sub-agents of one turn, one after another and all at once",
    "w6": "the transcript: one more line, and loading a long one",
    "w7": "the command line: --help, one headless turn, and the start of a member's process",
    "w8": "the start of a command in the sandbox, by each implementation",
    "w9": "a worktree for an agent, over `git worktree add` alone",
    "w10": "entering teams beside other work of a loop, and a turn beside many archived teams",
}
"""What there is; each is a module of this package with `run(rounds, quick) -> Report`."""

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measure the workloads that were named, all without a name. Exit code 0 whatever the figures say."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks with floors.")
    parser.add_argument("workloads", nargs="*", metavar="NAME", help=f"of: {', '.join(WORKLOADS)}; default: all")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds of each variant, the best counts")
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--peers", action="store_true", help="install the other programs first, from the package index")
    given = parser.parse_args()
    unknown = [name for name in given.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"no workload {unknown[0]!r}; there are {', '.join(WORKLOADS)}")
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {given.rounds} rounds")
    for name in peers.NAMES if given.peers else ():
        print(peers.make(name), flush=True)
    reports: list[Report] = []
    for name in given.workloads or WORKLOADS:
        print(f"\n{name}: {WORKLOADS[name]}", flush=True)
        report: Report = importlib.import_module(f"bench.{name}").run(given.rounds, quick=given.quick)
        show(report)
        reports.append(report)
    path = RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    store(path, reports)
    print(f"\nwritten to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
