"""Run lines in the sandbox and tell what they printed and changed.

Reads orders from its stdin, one JSON object a line, and writes one answer each. Depends on the standard library alone
and on `world`. Knows neither verdicts nor what is wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.permissions.fuzz.snapshot import Snapshot
from tests.permissions.fuzz.world import GROUPS, VARIABLES, World, refresh

TIMEOUT_S = 2.0
LEFT_S = 1.0
"""How long processes that a line left in the background may still change something."""
MOST_OUTPUT = 200_000
LIMITS = {
    resource.RLIMIT_FSIZE: 1_000_000,
    resource.RLIMIT_DATA: 1 << 30,
    resource.RLIMIT_NOFILE: 200,
    resource.RLIMIT_CORE: 0,
}
_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores and a line must not."""


class Executor:
    """Runs lines one after the other. `own_processes`: no other process than its own is visible to it."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        optional: Callable[[str], Path | None] = lambda name: Path(order[name]) if order.get(name) else None  # noqa: E731
        self.world = World(Path(order["base"]), optional("etc"), optional("top"))
        self.own_processes: bool = order["own_processes"]
        self._processes = _others() if self.own_processes else frozenset[str]()
        also = tuple(Path(place) for place in order["also"])
        self.world.snapshot = Snapshot((self.world.root, *also), self.world.base, self.world.top)
        for group in GROUPS:
            self.world.flip(0, group)
        self.variants = dict.fromkeys(GROUPS, 0)
        refresh(self.world.project)
        self.world.snapshot.remember()
        os.chdir(self.world.project)
        for limit, value in LIMITS.items():
            resource.setrlimit(limit, (value, value))

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Run the line of an order with each group of secrets in its variant, and put everything back."""
        variants: dict[str, int] = order["variants"]
        for group in GROUPS:
            if variants[group] != self.variants[group]:
                self.world.flip(variants[group], group)
        self.variants = variants
        env = {**order["env"], **self.world.variables(variants[VARIABLES])}
        output, code, timed_out = self._run(order["argv"], env, order["commands"])
        changes = self.world.snapshot.changes()
        if changes:
            self.world.snapshot.restore()
            refresh(self.world.project)
            self.world.snapshot.remember()
        return {"output": output.decode("latin-1"), "code": code, "timed_out": timed_out, "changes": changes}

    def _run(self, argv: list[str], env: dict[str, str], commands: int) -> tuple[bytes, int, bool]:
        reads, writes = os.pipe()
        child = os.posix_spawn(argv[0], argv, env, file_actions=_streams(writes), setsid=True, setsigdef=_SIGNALS)
        os.close(writes)
        try:
            output, timed_out = _collect(reads, child, commands)
        finally:
            os.close(reads)
        left = not timed_out and self._wait_for_others(child)
        self._kill(child)
        _, status = os.waitpid(child, 0)
        return output, os.waitstatus_to_exitcode(status), timed_out or left

    def _wait_for_others(self, child: int) -> bool:
        """Whether processes of the line are still there after a while."""
        until = time.monotonic() + LEFT_S
        while self._left(child):
            if time.monotonic() > until:
                return True
            time.sleep(0.005)
        return False

    def _left(self, child: int) -> frozenset[str]:
        """Processes of the line beside its shell: all others, or those of its session where others are seen."""
        others = _others() - self._processes - {str(child)}
        return others if self.own_processes else frozenset(pid for pid in others if _session(pid) == child)

    def _kill(self, child: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        if self.own_processes:
            with contextlib.suppress(OSError):
                os.kill(-1, signal.SIGKILL)
            until = time.monotonic() + TIMEOUT_S
            while self._left(child) and time.monotonic() < until:
                time.sleep(0.001)


def _collect(reads: int, child: int, commands: int) -> tuple[bytes, bool]:
    """What comes out of the pipe until the child has ended and the pipe is closed, or time or room is over."""
    ended = os.pidfd_open(child)
    chunks: list[bytes] = []
    room, until, over = MOST_OUTPUT * commands, time.monotonic() + TIMEOUT_S * commands, False
    try:
        while room > 0:
            ready, _, _ = select.select([reads], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                over = not select.select([ended], [], [], 0)[0]
                break
            chunk = os.read(reads, 65_536)
            if not chunk:
                over = not select.select([ended], [], [], max(0.0, until - time.monotonic()))[0]
                break
            chunks.append(chunk)
            room -= len(chunk)
    finally:
        os.close(ended)
    return b"".join(chunks), over or room <= 0


def _streams(output: int) -> list[tuple[Any, ...]]:
    empty = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    return [empty, (os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]


def _others() -> frozenset[str]:
    return frozenset(name for name in os.listdir("/proc") if name.isdigit())


def _session(pid: str) -> int:
    """The session of a process; 0 when it has ended, perhaps without a parent that knows of it."""
    try:
        state, _, _, session, *_ = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if state == "Z" else int(session)


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def main() -> None:
    """Answer orders until stdin ends; the first one describes the world and names the user to become."""
    executor: Executor | None = None
    for line in sys.stdin:
        order = json.loads(line)
        if executor is None:
            if "user" in order:
                _become(order["user"])
            executor = Executor(order)
            answer: dict[str, Any] = {"ready": True}
        else:
            answer = executor.answer(order)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
