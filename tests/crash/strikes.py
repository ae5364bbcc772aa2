"""What happens to a round from outside: how processes end, and what others do between the kills.

Each act has dice of its own, made from the round's seed and its number, so that a seed plays the same acts again.
"""

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.aims import Aim, words_of
from tests.crash.lives import RoundDirectory
from tests.crash.players import STAFF, TEAM
from tests.simulated_product_checks.newer import under_lock
from tests.support import preloaded
from tests.support.waits import WAIT_S
from tests.ui.program import COMMAND, Program

ROOT = Path(__file__).parents[2]

ENDINGS = {
    "kill": (signal.SIGKILL,),
    "term": (signal.SIGTERM,),
    "hup": (signal.SIGHUP,),
    "stop-and-continue": (signal.SIGSTOP, signal.SIGCONT),
    "stop-and-kill": (signal.SIGSTOP, signal.SIGKILL),
}
"""How a process is struck: signals, with a while between two."""

OFTEN = ("kill", "kill", "kill", "term", "hup", "stop-and-continue", "stop-and-kill")
WHILES = (0.1, 0.3, 0.3, 1.0, 2.5)
"""Seconds for which a process is stopped, or a disk is full."""

ODD = ({}, {"status": "completeD"}, {"owner": 5}, {"blocks": None})
"""What a task file is changed to: nothing at all, or the task with such a field."""


@dataclass
class Acts:
    """The acts of one round. `program` starts the command line; `done` counts what was done."""

    seed: str
    round_directory: RoundDirectory
    program: Program
    pids: Callable[[], list[int]]
    """All processes of the round."""
    endings: tuple[str, ...] = OFTEN
    """How processes are struck: each as often as it is named."""
    done: Counter[str] = field(default_factory=Counter)
    number: int = 0
    _damaged: dict[Path, tuple[dict, dict]] = field(default_factory=dict)

    def dice(self) -> random.Random:
        """Those of the next act."""
        self.number += 1
        return random.Random(f"act {self.number} of {self.seed}")

    # ── signals ──────────────────────────────────────────────────────────────────────────────────────────────

    def strike(self, pids: list[int], dice: random.Random) -> bool:
        """Strike these processes in this order, each in the same way; whether they end by it."""
        name = dice.choice(self.endings)
        for place, number in enumerate(ENDINGS[name]):
            if place:
                time.sleep(dice.choice(WHILES))
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.done[name] += len(pids)
        return name != "stop-and-continue"

    # ── the command line ─────────────────────────────────────────────────────────────────────────────────────

    def write_to_somebody(self, dice: random.Random) -> None:
        """`teamwright send`, killed at a change of a file or left to its end. Exit code 0 is an acknowledgement."""
        token = f"cli{self.number}-{dice.randrange(10**6)}"
        words = ["send", f"{dice.choice(('lead', *STAFF))}@{TEAM}", f"note {token} " + "z" * dice.choice((0, 0, 5_000))]
        code = self._run(words, self._aim(dice, 8))
        if code:
            self.round_directory.note("sender", token=token, error=str(code))
        else:
            self.round_directory.note("sender", token=token, sent=token)

    def undo_all(self) -> Iterator[str]:
        """`teamwright undo` until nothing is left to take back, killed now and then; what was refused meanwhile."""
        dice = self.dice()
        for attempt in range(40):
            code, said = self._run_said(["undo", "--yes", TEAM], self._aim(dice, 12) if attempt < 3 else None)
            if code == -signal.SIGKILL:
                continue
            if code:
                if "no edit is left" not in said and "no file was changed" not in said:
                    yield f"an undo was refused: {said[-600:]}"
                return
        yield "forty undos were not enough"

    def _aim(self, dice: random.Random, furthest: int) -> Aim | None:
        torn = dice.random() < 0.2
        nth = int(furthest ** dice.random())
        return None if dice.random() < 0.2 else Aim("", 1 if torn else nth, 0, torn)

    def _run(self, words: list[str], aim: Aim | None) -> int:
        return self._run_said(words, aim)[0]

    def _run_said(self, words: list[str], aim: Aim | None) -> tuple[int, str]:
        options = {"cwd": self.round_directory.work, "timeout": WAIT_S, "text": True}
        if aim is None:
            done = preloaded.run([*COMMAND, *words], env=self.program.environment, stdin=subprocess.DEVNULL, **options)
        else:
            env = self.program.environment | {"PYTHONPATH": str(ROOT)}
            command = [*words_of(aim, str(self.round_directory.place)), *words]
            done = subprocess.run(command, env=env, capture_output=True, stdin=subprocess.DEVNULL, **options)
        self.done[words[0] + (" killed" if done.returncode == -signal.SIGKILL else "")] += 1
        return done.returncode, done.stdout + done.stderr

    # ── damage ───────────────────────────────────────────────────────────────────────────────────────────────

    def damage_a_task(self, dice: random.Random) -> None:
        """Another program writes odd JSON into the file of a task that nobody has taken."""
        free = [path for path in sorted(self.round_directory.tasks.glob("[0-9]*.json")) if is_free(path)]
        if not free:
            return
        path, odd = dice.choice(free), dice.choice(ODD)

        def change(task: dict) -> dict:
            if task.get("status") != "pending" or task.get("owner"):
                return task
            self._damaged[path] = (task, task | odd if odd else {})
            return self._damaged[path][1]

        with contextlib.suppress(OSError, ValueError):
            if not under_lock(path, change):
                self._damaged.pop(path, None)
        self.done["damaged"] += path in self._damaged

    def empty_the_roster(self) -> None:
        """A program of an older version dies while it writes the roster: 0 bytes are left."""
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self.round_directory.home.config(TEAM), 0)
            self.done["roster emptied"] += 1

    def repair(self) -> None:
        """The task files that are still as they were damaged get their former content back."""
        for path, (former, odd) in list(self._damaged.items()):
            with contextlib.suppress(OSError, ValueError):
                if under_lock(path, lambda now, former=former, odd=odd: former if now == odd else now):
                    del self._damaged[path]

    @property
    def repaired(self) -> bool:
        """Whether no task file is left damaged."""
        return not self._damaged

    # ── a full disk ──────────────────────────────────────────────────────────────────────────────────────────

    def fill_the_disk(self, dice: random.Random) -> None:
        """For a while no file of any process of the round may become longer than about the longest one is."""
        sizes = [path.stat().st_size for path in self.round_directory.root.rglob("*.jsonl")]
        limit = max(sizes, default=0) * dice.choice((0.5, 1, 1)) + dice.randrange(4_000)
        self.done["disk full"] += 1
        self._limit(int(limit))
        time.sleep(dice.choice(WHILES))
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, most: int) -> None:
        for pid in self.pids():
            with contextlib.suppress(OSError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def is_free(path: Path) -> bool:
    """Whether the task waits, and nobody has it."""
    with contextlib.suppress(OSError, ValueError):
        task = json.loads(path.read_bytes())
        return task.get("status") == "pending" and not task.get("owner")
    return False
