"""The permission fuzz as a program: `python -m tests.permissions.fuzz [--seconds N] [--seed S] [--line TEXT]`.

Ends with 1 when a line was allowed that should not have been, or when too few lines were allowed to prove anything.
"""

import argparse
import os
import secrets
import signal
import sys
from collections.abc import Iterable

from tests.permissions.fuzz import surroundings_run
from tests.permissions.fuzz.judging import CONFIGURATIONS, Judge, Wrong
from tests.permissions.fuzz.rounds import (
    LEAST_ALLOWED,
    SHARES,
    SHARES_IN_A_SHELL,
    SHARES_IN_THE_READ_POLICY,
    Report,
    Round,
    allowed_programs,
)
from tests.permissions.fuzz.sandbox import Sandbox
from tests.permissions.fuzz.sweep import Sweep
from tests.permissions.fuzz.systematic import git_programs

_CHUNK_S = 60.0


def main() -> int:
    """0 when no allow was wrong and enough lines were allowed."""
    if "--surroundings" in sys.argv[1:]:
        return surroundings_run.main(sys.argv[1:])
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Sandbox(is_nested=options.sandbox_read) as sandbox:
        judge = Judge(sandbox, options.shell)
        os.environ["HOME"] = str(sandbox.world.home)  # as a session of the user whose home it is
        print(f"seed {options.seed}  sandbox: {'bubblewrap' if sandbox.confined else 'none'}", flush=True)
        usual = SHARES_IN_A_SHELL if options.shell else SHARES
        usual = SHARES_IN_THE_READ_POLICY if options.sandbox_read else usual
        if options.line:
            return one_line(judge, options.line, usual)
        shares = {name: usual.get(name, 1) for name in options.configuration or usual}
        made = Round(judge, options.seed, allowed_programs(judge), shares, show)
        if options.systematic:
            return each_option(judge, made, options.program)
        left = options.seconds
        while left > 0 and made.report.tried < options.lines and len(made.report.wrong) < options.stop_at:
            made.play(lines=options.lines, seconds=min(left, _CHUNK_S), stop_at=options.stop_at)
            left = options.seconds - made.report.seconds
            print(made.report, flush=True)
    return code_of(made.report)


def each_option(judge: Judge, made: Round, only: list[str] | None) -> int:
    """Try each option of each program, with a rule that denies a file and without."""
    names = [name for name in allowed_programs(judge) if not name.startswith("git ")]
    sweep = Sweep(judge, made)
    for name in only or [*names, *git_programs()]:
        print(f"{name}: {sweep.try_program(name)}", flush=True)
    print(f"all: {sweep.report}", flush=True)
    return 1 if made.report.wrong_lines else 0


def code_of(report: Report) -> int:
    """The exit code that a report means."""
    if report.share < LEAST_ALLOWED:
        print(f"only {report.share:.0%} of the lines were allowed: this proves nothing")
        return 1
    if report.wrong_lines:
        print(f"again: make fuzz SEED={report.seed}")
    return 1 if report.wrong_lines else 0


def show(wrong: Wrong) -> None:
    """Print a wrong allow when it is found."""
    print(f"WRONG ({wrong.configuration}) {wrong}", flush=True)


def one_line(judge: Judge, line: str, names: Iterable[str]) -> int:
    """Judge one line in each of these configurations and say what came of it."""
    wrong = 0
    for configuration in map(CONFIGURATIONS.__getitem__, names):
        found = judge.judge(line, configuration)
        allowed = judge.allowed(line, configuration)
        print(f"{configuration.name}: {found or ('allowed, nothing wrong' if allowed else 'not allowed')}")
        wrong += found is not None
    return 1 if wrong else 0


def arguments() -> argparse.Namespace:
    """Flags; without one the environment decides."""
    env = os.environ.get
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--seconds", type=float, default=float(env("FUZZ_SECONDS") or "300"))
    parser.add_argument("--lines", type=int, default=1 << 60)
    parser.add_argument("--seed", default=env("FUZZ_SEED") or secrets.token_hex(4))
    parser.add_argument("--stop-at", type=int, default=1 << 30, help="end after so many distinct wrong allows")
    parser.add_argument("--configuration", action="append", choices=list(SHARES))
    parser.add_argument(
        "--shell", choices=["bash", "zsh"], default="", help="run lines in this user's shell, with options"
    )
    parser.add_argument("--sandbox-read", action="store_true", help="allow every line, in the sandbox's policy read")
    parser.add_argument("--line", help="judge this line alone")
    parser.add_argument(
        "--surroundings", action="store_true", help="real calls with hostile surroundings; has its own flags"
    )
    parser.add_argument("--systematic", action="store_true", help="each option of each program, not at random")
    parser.add_argument("--program", action="append", help="with --systematic: this program alone, as `git log`")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
