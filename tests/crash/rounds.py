"""One round: a job that is begun, killed at random moments, gone on with until it is done, and then looked at.

Everything random comes from the round's seed; what the machine's timing adds cannot be replayed, so most kills are
aimed at a change of a file and not at a time.
"""

import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash import lives, mutations
from tests.crash.aims import Aim
from tests.crash.lives import REFUSED, RoundDirectory, fork
from tests.crash.players import Plan
from tests.crash.verdict import is_done, problems_of, sleepers

NEAR = ("", "", "", "agents/", "inboxes/", "tasks/", "team.json", "config.json", "requests/", ".lock", "projects/")
"""What an aim looks for in paths; empty: any file of the round."""

FURTHEST = {"": 700, "projects/": 500, "team.json": 20, "config.json": 20, "requests/": 12}
"""How many changes of such files an aim lets pass at most; of others 150."""

LIFE_S = 120.0
"""A life that nobody kills ends by itself within this; one that does nothing for STILL_S is stuck."""
STILL_S = 15.0
STILL_OF_MUTANTS_S = 4.0


@dataclass
class Round:
    """One round in a directory of its own. `kills` counts SIGKILLs, `wrong` is what must not be."""

    seed: str
    place: Path
    most: int
    kills: int = 0
    lives: int = 0
    refused: int = 0
    killed: int = 0
    """The same with those around."""
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"round {self.seed}")
        self.round_directory = RoundDirectory(self.place, Plan(self.seed))
        self.round_directory.work.mkdir(parents=True)
        self.still_s = STILL_OF_MUTANTS_S if os.environ.get(mutations.VARIABLE) else STILL_S
        self._pids: set[int] = set()
        self._around: dict[int, str] = {}

    def play(self) -> "Round":
        """Until the job is done, or something is wrong."""
        os.environ["HOME"] = str(self.place / "home")
        try:
            self._begin_others()
            while not self.wrong and not is_done(self.round_directory):
                self._generation(kill=self.kills < self.most)
            if not self.wrong:
                self._settle()
                self.wrong += problems_of(self.round_directory, pids=self._pids, kills=self.killed)
        finally:
            self._end_all()
        return self

    # ── those around ─────────────────────────────────────────────────────────────────────────────────────────

    def _begin_others(self) -> None:
        self._start("sender", lambda: lives.sender(self.round_directory, f"u{self.dice.randrange(10**6)}"))
        self._start("reader", lambda: lives.reader(self.round_directory))
        if self.round_directory.plan.stops:
            self._start("stopper", lambda: lives.stopper(self.round_directory))
        mannered = self.round_directory.plan.mannered
        if not mannered or self.dice.random() < 0.5:
            self._start("stranger", lambda: lives.stranger(self.round_directory, mannered=mannered))

    def _start(self, name: str, run) -> None:
        self._around[fork(self.round_directory, name, run)] = name

    def _look_at_others(self) -> None:
        """Nobody of them may break; one that has nothing more to do ends in peace."""
        for pid, name in list(self._around.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._around[pid]
                if status:
                    self._broke(name)

    def _maybe_kill_another(self) -> None:
        """The sender dies now and then, wherever it is; another takes its place."""
        for pid, name in list(self._around.items()):
            if name == "sender" and self.dice.random() < 0.3:
                self._kill(pid)
                del self._around[pid]
                self._start("sender", lambda: lives.sender(self.round_directory, f"u{self.dice.randrange(10**6)}"))

    # ── lives of the lead ────────────────────────────────────────────────────────────────────────────────────

    def _generation(self, *, kill: bool) -> None:
        """One life of the lead, or two at once of which one is refused; each is killed, or ends by itself."""
        aim, after_s = self._fate() if kill else (None, None)
        running = {self._live(aim, second=False)}
        if self.lives > 1 and self.dice.random() < 0.25:
            running.add(self._live(None, second=True))
        try:
            self._see(running, aim, after_s)
        finally:
            self._kill_all(running)
        self._maybe_kill_another()

    def _see(self, running: set[int], aim: Aim | None, after_s: float | None) -> None:
        """Until none of them runs."""
        rivals = len(running) > 1
        began = last = time.monotonic()
        size = -1
        while running:
            for pid in list(running):
                if (status := self._ended(pid)) is not None:
                    running.discard(pid)
                    self._judge(status, rivals=rivals)
            now = time.monotonic()
            if after_s is not None and now - began > after_s:
                self._kill_all(running)
                after_s = None
            elif aim is not None and now - began > LIFE_S / 12:
                self._kill_all(running)  # it never came to what it was aimed at
            if (grown := self._size()) != size:
                size, last = grown, now
            if now - last > self.still_s or now - began > LIFE_S:
                self.wrong.append(f"a life got stuck: nothing happened for {now - last:.0f} s")
                self._kill_all(running)
                began, last, self.kills = now, now, self.kills - len(running)
            self._look_at_others()
            time.sleep(0.004)

    def _fate(self) -> tuple[Aim | None, float | None]:
        """How the life ends: by its own hand at a change of a file, or by ours at a moment."""
        if self.dice.random() < 0.3:
            return None, self.dice.choice((0.0, 0.05, 0.1, 0.3, 0.6)) + self.dice.random() * 0.3
        near = self.dice.choice(NEAR)
        furthest = FURTHEST.get(near, 150)
        torn = self.dice.random() < 0.4
        nth = int((furthest // 4 if torn else furthest) ** self.dice.random())
        return Aim(near, nth, 0 if torn else self.dice.choice((0, 0, 1, 2, 5)), torn), None

    def _live(self, aim: Aim | None, *, second: bool) -> int:
        self.lives += 1
        pid = fork(
            self.round_directory, f"life-{self.lives}", lambda: lives.lead(self.round_directory, aim, second=second)
        )
        self._pids.add(pid)
        return pid

    def _ended(self, pid: int) -> int | None:
        ended, status = os.waitpid(pid, os.WNOHANG)
        return status if ended else None

    def _judge(self, status: int, *, rivals: bool) -> None:
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self.kills += 1
            self.killed += 1
        elif os.WIFEXITED(status) and os.WEXITSTATUS(status) == REFUSED and rivals:
            self.refused += 1
        elif status:
            self._broke(f"life-{self.lives}")
        elif not is_done(self.round_directory):
            self.wrong.append(f"life {self.lives} ended, and the job is not done")

    def _settle(self) -> None:
        """The job is done: a life that nobody kills ends what is left, while nobody writes any more."""
        (self.place / lives.ENOUGH).touch()
        for pid, name in list(self._around.items()):
            if name == "stranger":
                os.waitpid(pid, 0)
            elif name != "reader":
                self._kill(pid)
            if name != "reader":
                del self._around[pid]
        self._generation(kill=False)
        for pid in self._around:
            self._kill(pid)
        self._around.clear()

    # ── means ────────────────────────────────────────────────────────────────────────────────────────────────

    def _size(self) -> int:
        return sum(path.stat().st_size for path in (self.round_directory.root / "projects").rglob("*.jsonl"))

    def _broke(self, name: str) -> None:
        said = (self.place / f"{name}.err").read_text(errors="replace")[-1500:]
        self.wrong.append(f"{name} broke:\n{said}")

    def _kill_all(self, pids) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def _kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.killed += 1

    def _end_all(self) -> None:
        for pid in self._around:
            self._kill(pid)
        for pid in sleepers(self.round_directory.work):
            os.kill(pid, signal.SIGKILL)
