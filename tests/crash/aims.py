"""A process that kills itself at a chosen change of a file: just before it, or in the middle of a write.

`python -m tests.crash.aims ROOT NEAR NTH MORE TORN -- WORDS…` runs the command line with such an aim.
"""

import contextlib
import os
import random
import signal
import sys
from dataclasses import dataclass

CHANGING = ("mkdir", "utime", "rename", "replace", "link", "unlink", "rmdir", "pwrite", "write", "ftruncate")
PAGE = 4096


@dataclass(frozen=True)
class Aim:
    """Where a life kills itself: `more` changes after the `nth` one of a file whose path has `near` in it.

    `torn`: in the middle of a write, and only writes that can be parted count.
    """

    near: str
    nth: int
    more: int = 0
    torn: bool = False


def take_aim(aim: Aim, root: str) -> None:
    """From now on this process dies there."""
    met, left = 0, aim.more

    def touched(args) -> str:
        if isinstance(args[0], int):
            with contextlib.suppress(OSError):
                return os.readlink(f"/proc/self/fd/{args[0]}")
            return ""
        return " ".join(str(arg) for arg in args[:2] if isinstance(arg, str | os.PathLike))

    def die(call, args):
        if aim.torn:
            tear(call, args)
        os.kill(os.getpid(), signal.SIGKILL)

    def mortal(name, call):
        def run(*args, **more):
            nonlocal met, left
            path = touched(args) if not aim.torn or is_torn(name, args) else ""
            met += root in path and aim.near in path
            if root in path and met >= aim.nth:
                left -= 1
                if left == -1:
                    die(call, args)
            return call(*args, **more)

        return run

    for name in CHANGING:
        setattr(os, name, mortal(name, getattr(os, name)))


def is_torn(name, args) -> bool:
    """Whether a kill may leave a part of it: what lies in one page of a file is written whole or not at all."""
    if name == "write":
        return len(args[1]) > 1
    return name == "pwrite" and args[2] // PAGE != (args[2] + len(args[1]) - 1) // PAGE


def tear(call, args) -> None:
    """Write a part of it."""
    if len(args) == 2:
        call(args[0], bytes(args[1])[: random.randrange(1, len(args[1]))])
    else:
        call(args[0], bytes(args[1])[: PAGE - args[2] % PAGE], args[2])


def words_of(aim: Aim, root: str) -> list[str]:
    """How the command line is started with this aim, without its own words."""
    torn = "torn" if aim.torn else ""
    return [sys.executable, "-m", "tests.crash.aims", root, aim.near, str(aim.nth), str(aim.more), torn, "--"]


def main(root: str, near: str, nth: str, more: str, torn: str, _: str, *words: str) -> None:
    """Run the command line, and die at the aim."""
    take_aim(Aim(near, int(nth), int(more), bool(torn)), root)
    sys.argv = ["teamwright", *words]
    from teamwright.__main__ import main as run

    run()


if __name__ == "__main__":
    main(*sys.argv[1:])
