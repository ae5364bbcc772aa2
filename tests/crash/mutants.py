"""Whether the suite bites: `python -m tests.crash.mutants [NAME…]` runs it with each safety switched off.

Each must be noticed within so many kills; how many it took is printed. Ends with 1 when one was not noticed.
"""

import os
import re
import subprocess
import sys
import time

from tests.crash import mutations

MOST = 200
"""Kills within which each must be noticed."""


def noticed(name: str, *arguments: str) -> tuple[int, str] | None:
    """After how many kills the suite without `name` saw something wrong, and what; None when it saw nothing."""
    suite = ["tests.crash.run"]
    if name in mutations.OF_PROGRAM:
        suite = ["tests.crash.processes", "--backends", "in-process", "--endings", *mutations.OF_PROGRAM[name]]
    said = subprocess.run(
        [sys.executable, "-m", *suite, "--kills", str(MOST), *arguments],
        env=os.environ | {mutations.VARIABLE: name},
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    found = re.search(r"wrong after (\d+) kills; kept: .*\n  - (.*)", said)
    return (int(found[1]), found[2][:100]) if found else None


def main(names: list[str]) -> int:
    """0 when each was noticed."""
    missed = 0
    for name in names or mutations.ALL:
        began = time.monotonic()
        found = noticed(name)
        missed += found is None
        after = f"noticed after {found[0]:3} kills: {found[1]}" if found else f"not noticed in {MOST} kills"
        print(f"without {name:8} {after} ({time.monotonic() - began:.0f} s)", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
