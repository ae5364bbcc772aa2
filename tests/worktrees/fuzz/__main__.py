"""A fuzz of worktrees: `python -m tests.worktrees.fuzz [--seconds N] [--sequences N] [--seed N]`.

An agent in a worktree runs lines at random, as far as its permissions allow them without a person, while other programs
delete and replace its directory. Then its task is completed and integrated. The person's branches, tags, index,
settings, files and objects must be as before. With `--product N` each N-th sequence runs in a session of the product.
"""

import argparse
import asyncio
import sys
import time

from tests.worktrees.fuzz.sequences import Figures, run_sequences


def main() -> int:
    """Run sequences, and print the figures. Exit code 1 after a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sequences", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--product", type=int, default=40)
    given = parser.parse_args()
    print(f"seed {given.seed}")
    figures: Figures = asyncio.run(
        run_sequences(given.seed, seconds=given.seconds, most=given.sequences, product=given.product)
    )
    print(figures.describe())
    for violation in figures.violations:
        print(f"\n{violation}")
    return 1 if figures.violations else 0


if __name__ == "__main__":
    sys.exit(main())
