"""The crash suite as a program: `python -m tests.crash.run [--kills N] [--seconds N] [--seed S] [--round N]`.

Rounds until so many kills, or for so long. Ends with 1 at the first round in which something is wrong; its directory is
kept and named. `CRASH_MUTATION` switches off one thing that safety rests on (`mutations.py`).
"""

import argparse
import os
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.crash import mutations
from tests.crash.rounds import Round


def main() -> int:
    """0 when everything held, 1 when something was wrong."""
    options = arguments()
    began = time.monotonic()
    mutation = os.environ.get(mutations.VARIABLE, "")
    print(f"seed {options.seed}" + (f"  without: {mutation}" if mutation else ""), flush=True)
    top = Path(tempfile.mkdtemp(prefix="teamwright-crash-", dir=options.place))
    kills = lives = refused = number = 0
    for number in range(options.round, options.round + 10_000):
        left = options.kills - kills
        made = Round(f"{options.seed}/{number}", top / str(number), min(left, options.most)).play()
        kills, lives, refused = kills + made.kills, lives + made.lives, refused + made.refused
        if made.wrong:
            print(f"round {number}: {len(made.wrong)} wrong after {kills} kills; kept: {made.place}")
            print(*(f"  - {one}" for one in made.wrong[:20]), sep="\n")
            print(f"again: CRASH_SEED={options.seed} CRASH_ROUND={number} make crash", flush=True)
            return 1
        shutil.rmtree(made.place)
        print(f"round {number}: {made.kills} kills in {made.lives} lives, {made.refused} refused", flush=True)
        if kills >= options.kills or time.monotonic() - began > options.seconds:
            break
    shutil.rmtree(top)
    rounds = number - options.round + 1
    took = time.monotonic() - began
    counts = f"{kills} kills, {lives} lives, {rounds} rounds, {refused} refused"
    print(f"{counts}: nothing lost, nothing doubled ({took:.0f} s)")
    return 0


def arguments() -> argparse.Namespace:
    """Flags; without one the environment decides."""
    env = os.environ.get
    parser = argparse.ArgumentParser(prog="crash")
    parser.add_argument("--kills", type=int, default=int(env("CRASH_KILLS", "300")))
    parser.add_argument("--most", type=int, default=18, help="kills of one round")
    parser.add_argument("--seconds", type=float, default=float(env("CRASH_SECONDS", "600")))
    parser.add_argument("--seed", default=env("CRASH_SEED") or secrets.token_hex(4))
    parser.add_argument("--place", help="where rounds take place; default: the system's temporary directory")
    parser.add_argument("--round", type=int, default=int(env("CRASH_ROUND", "1")))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
